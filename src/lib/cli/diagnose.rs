//! An error as a person reads it: `error:`, `caused by:`, `hint:`.

use crate::fault::{Fault, words};
use crate::report::Remark;

/// One line for stderr: its kind, and its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// What the line is.
    pub label: Label,
    /// The text; it may hold line breaks of its own.
    pub text: String,
}

/// What a line of stderr is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Label {
    /// What went wrong.
    Error,
    /// Why.
    CausedBy,
    /// Something to keep in mind.
    Warning,
    /// What to do next.
    Hint,
}

impl Label {
    /// The word before the colon.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::CausedBy => "caused by",
            Self::Warning => "warning",
            Self::Hint => "hint",
        }
    }
}

impl Line {
    /// A line with `label`.
    #[must_use]
    pub fn new(label: Label, text: impl Into<String>) -> Self {
        Self { label, text: text.into() }
    }
}

impl From<Remark> for Line {
    fn from(remark: Remark) -> Self {
        match remark {
            Remark::Error(text) => Self::new(Label::Error, text),
            Remark::Warning(text) => Self::new(Label::Warning, text),
            Remark::Hint(text) => Self::new(Label::Hint, text),
        }
    }
}

/// The error, its causes (each once), and its hints (each once).
#[must_use]
pub fn lines(error: &dyn Fault) -> Vec<Line> {
    let mut lines = vec![Line::new(Label::Error, words(error))];
    let mut next = error.source();
    while let Some(source) = next {
        let text = words(source);
        // Foreign errors often repeat their source at their own end.
        if !lines.last().is_some_and(|line| line.text.ends_with(&text)) {
            lines.push(Line::new(Label::CausedBy, text));
        }
        next = source.source();
    }
    lines.extend(error.hints().into_iter().map(|hint| Line::new(Label::Hint, hint)));
    without_repeats(lines)
}

/// The same lines, later copies of a hint or a warning left out.
#[must_use]
pub fn without_repeats(lines: Vec<Line>) -> Vec<Line> {
    let mut kept: Vec<Line> = Vec::with_capacity(lines.len());
    for line in lines {
        let once = matches!(line.label, Label::Hint | Label::Warning);
        if !(once && kept.contains(&line)) {
            kept.push(line);
        }
    }
    kept
}

/// Whether a terminal obeys the character instead of showing it: control characters, line
/// separators, and those that turn the direction of writing, behind which text can hide.
#[must_use]
pub fn steers(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(c, '\u{2066}'..='\u{2069}')
}

/// `text` with everything that [`steers`] but a line break made visible as a space, so that what
/// another machine wrote cannot steer the terminal; further lines are indented.
#[must_use]
pub fn clean(text: &str) -> String {
    let plain = |c: char| if steers(c) && c != '\n' { ' ' } else { c };
    let text: String = text.trim_end().chars().map(plain).collect();
    text.replace('\n', "\n  ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::Class;

    #[derive(Debug, thiserror::Error)]
    #[error("create image k8s at be-1")]
    struct Outer(#[source] Middle);

    #[derive(Debug, thiserror::Error)]
    #[error("send: connection refused")]
    struct Middle(#[source] std::io::Error);

    impl Fault for Outer {
        fn class(&self) -> Class {
            Class::Transient
        }

        fn hints(&self) -> Vec<String> {
            vec!["try again".into(), "look at the network".into(), "try again".into()]
        }
    }

    #[test]
    fn causes_and_hints_come_once_each() {
        let error = Outer(Middle(std::io::Error::other("connection refused")));
        let shown: Vec<String> = lines(&error)
            .iter()
            .map(|line| format!("{}: {}", line.label.word(), line.text))
            .collect();
        let wanted = [
            "error: create image k8s at be-1",
            "caused by: send: connection refused",
            "hint: try again",
            "hint: look at the network",
        ];
        assert_eq!(shown, wanted);
    }

    #[test]
    fn what_others_wrote_cannot_steer_the_terminal() {
        assert_eq!(clean("a\u{1b}[31mb\r\nc\n"), "a [31mb \n  c");
        assert_eq!(clean("gpj.\u{202e}exe\u{2066}\u{2028}é"), "gpj. exe  é");
    }
}
