//! What stdout and stderr are: a terminal or not, how wide, with colours or not.

use std::ffi::OsString;
use std::io::{IsTerminal, Write};

use clap::ValueEnum;
use tracing::Level;

use super::args::Color;
use super::diagnose::{Label, Line, clean};
use super::{env, log};

/// What is known about the place where the program runs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Terminal {
    /// stderr is a terminal that can redraw lines.
    pub(super) bars: bool,
    /// Columns of the terminal that stdout is; `None` where it is none.
    pub(super) width: Option<u16>,
    /// Colours on stderr.
    pub(super) color: bool,
    /// Where stderr is to hold JSON alone: what tells the time, in seconds since 1970.
    pub(super) json: Option<fn() -> f64>,
}

impl Terminal {
    /// Looks at the real one.
    pub(super) fn look(color: Color) -> Self {
        let dumb = env::text(env::TERM).is_some_and(|term| term == "dumb");
        let terminal = std::io::stderr().is_terminal();
        let no_color = env::text(env::NO_COLOR).is_some();
        let size = terminal_size::terminal_size_of(std::io::stdout());
        Self {
            bars: terminal && !dumb,
            width: size.map(|(width, _)| width.0),
            color: has_color(color, no_color, terminal && !dumb),
            json: None,
        }
    }

    /// The same for JSON alone: without bars and colours.
    pub(super) fn for_machines(self, unix: fn() -> f64) -> Self {
        Self { bars: false, color: false, json: Some(unix), ..self }
    }

    /// `error: …` with its label in the label's colour; or an object.
    pub(super) fn styled(self, line: &Line) -> String {
        if let Some(now) = self.json {
            let (level, text) = match line.label {
                Label::Error => (Level::ERROR, line.text.clone()),
                Label::CausedBy => (Level::ERROR, format!("caused by: {}", line.text)),
                Label::Warning => (Level::WARN, line.text.clone()),
                Label::Hint => (Level::INFO, format!("hint: {}", line.text)),
            };
            return log::object(now(), level, &text, serde_json::Map::new());
        }
        let (word, text) = (line.label.word(), clean(&line.text));
        if !self.color {
            return format!("{word}: {text}");
        }
        let code = match line.label {
            Label::Error => "1;31",
            Label::CausedBy => "31",
            Label::Warning => "1;33",
            Label::Hint => "1;36",
        };
        format!("\u{1b}[{code}m{word}:\u{1b}[0m {text}")
    }
}

fn has_color(wish: Color, no_color: bool, terminal: bool) -> bool {
    match wish {
        Color::Always => true,
        Color::Never => false,
        Color::Auto => terminal && !no_color,
    }
}

/// The `--color` among rewritten `words`: it must be known before they are parsed, because it
/// holds for the parser's own errors too.
pub(super) fn color_among(words: &[OsString]) -> Color {
    let words = words.iter().take_while(|word| *word != "--").filter_map(|word| word.to_str());
    let said = words.filter_map(|word| word.strip_prefix("--color=")).last();
    said.and_then(|text| Color::from_str(text, false).ok()).unwrap_or_default()
}

/// What clap calls the same thing.
pub(super) fn for_clap(color: Color) -> clap::ColorChoice {
    match color {
        Color::Always => clap::ColorChoice::Always,
        Color::Never => clap::ColorChoice::Never,
        Color::Auto => clap::ColorChoice::Auto,
    }
}

/// Writes lines to stderr as they are. A closed stderr is nobody's concern.
pub(super) fn complain(terminal: Terminal, lines: &[Line]) {
    let mut out = std::io::stderr().lock();
    for line in lines {
        let _ = writeln!(out, "{}", terminal.styled(line));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_follow_the_wish_then_the_variable_then_the_terminal() {
        let table = [
            (Color::Always, true, false, true),
            (Color::Never, false, true, false),
            (Color::Auto, false, true, true),
            (Color::Auto, true, true, false),
            (Color::Auto, false, false, false),
        ];
        for (wish, no_color, terminal, wanted) in table {
            assert_eq!(has_color(wish, no_color, terminal), wanted, "{wish:?}");
        }
    }

    #[test]
    fn the_wish_is_found_before_parsing() {
        let find = |words: &[&str]| {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            color_among(&words)
        };
        assert_eq!(find(&["p", "--color=never"]), Color::Never);
        assert_eq!(find(&["p", "--color=never", "--color=always"]), Color::Always);
        assert_eq!(find(&["p", "--", "--color=never"]), Color::Auto);
        assert_eq!(find(&["p", "--color=pink"]), Color::Auto);
    }

    #[test]
    fn labels_are_coloured_and_texts_are_not() {
        let line = Line::new(Label::Hint, "try\u{7} again");
        let plain = Terminal { bars: false, width: None, color: false, json: None };
        assert_eq!(plain.styled(&line), "hint: try  again");
        let coloured = Terminal { color: true, ..plain }.styled(&line);
        assert_eq!(coloured, "\u{1b}[1;36mhint:\u{1b}[0m try  again");
    }
}
