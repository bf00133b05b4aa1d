//! Progress on stderr: bars on a terminal, lines elsewhere, nothing when told to be quiet.
//!
//! Every item has a bar of indicatif's, hidden where lines are written: it is also the item's
//! stopwatch, since the door knows no clock.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use tracing::Level;

use super::diagnose::{Label, Line, clean};
use super::log;
use super::terminal::Terminal;
use crate::progress::{Progress, Step};
use crate::report::size;

/// How long an item may stand still before its line is repeated.
const REPEAT: Duration = Duration::from_secs(10);

/// Where progress is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Bars,
    Lines,
    Quiet,
}

/// The one writer to stderr while a tool works.
pub(super) struct Screen {
    terminal: Terminal,
    mode: Mode,
    bars: MultiProgress,
    items: Mutex<BTreeMap<String, Item>>,
    out: Mutex<Box<dyn Write + Send>>,
}

struct Item {
    bar: ProgressBar,
    step: Step,
    /// The bar's time when the item's line was last written.
    shown: Duration,
}

impl Screen {
    /// The program's stderr.
    pub(super) fn new(terminal: Terminal, quiet: bool) -> Self {
        let mode = match (quiet, terminal.bars) {
            (true, _) => Mode::Quiet,
            (false, true) => Mode::Bars,
            (false, false) => Mode::Lines,
        };
        Self::with(terminal, mode, Box::new(io::stderr()))
    }

    fn with(terminal: Terminal, mode: Mode, out: Box<dyn Write + Send>) -> Self {
        let target = match mode {
            Mode::Bars => ProgressDrawTarget::stderr(),
            Mode::Lines | Mode::Quiet => ProgressDrawTarget::hidden(),
        };
        let bars = MultiProgress::with_draw_target(target);
        Self { terminal, mode, bars, items: Mutex::default(), out: Mutex::new(out) }
    }

    /// Writes whole lines above the bars. A closed stderr is nobody's concern.
    pub(super) fn line(&self, text: &str) {
        // Nobody draws meanwhile. Not `suspend`, which panics when the terminal has gone away.
        let items = (self.mode == Mode::Bars).then(|| self.items());
        if items.is_some() {
            let _ = self.bars.clear();
        }
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        // One write a line: several programs may share a terminal or a log.
        let _ = out.write_all(format!("{text}\n").as_bytes());
        for item in items.iter().flat_map(|items| items.values()) {
            item.bar.tick();
        }
    }

    /// What tells the time, where JSON alone is to be written.
    pub(super) fn json(&self) -> Option<fn() -> f64> {
        self.terminal.json
    }

    /// Writes labelled lines above the bars.
    pub(super) fn lines(&self, lines: &[Line]) {
        for line in lines {
            self.line(&self.terminal.styled(line));
        }
    }

    /// Keeps the bars' clocks going, or repeats the line of every unfinished item that has been
    /// silent for a while; called about once a second.
    pub(super) fn beat(&self) {
        for (name, item) in self.items().iter_mut() {
            match self.mode {
                Mode::Bars => item.bar.tick(),
                Mode::Lines if item.bar.elapsed() >= item.shown + REPEAT => self.show(name, item),
                Mode::Lines | Mode::Quiet => {}
            }
        }
    }

    /// Takes the bars off the screen, because what follows is the result.
    pub(super) fn clear(&self) {
        for (_, item) in std::mem::take(&mut *self.items()) {
            item.bar.finish_and_clear();
        }
        // Nothing can be done about a terminal that went away.
        let _ = self.bars.clear();
    }

    fn items(&self) -> MutexGuard<'_, BTreeMap<String, Item>> {
        self.items.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn show(&self, name: &str, item: &mut Item) {
        item.shown = item.bar.elapsed();
        self.line(&describe(name, &item.step, item.shown));
    }

    fn new_item(&self, name: &str) -> Item {
        let bar = ProgressBar::no_length().with_prefix(clean(name)).with_style(style(false));
        Item { bar: self.bars.add(bar), step: Step::state(""), shown: Duration::ZERO }
    }
}

impl Progress for Screen {
    fn update(&self, item: &str, step: Step) {
        if self.mode == Mode::Quiet {
            return;
        }
        let mut items = self.items();
        let known = items.entry(item.to_owned()).or_insert_with(|| self.new_item(item));
        let changed = known.step.state != step.state;
        if self.mode == Mode::Bars {
            draw(&known.bar, &known.step, &step);
        }
        // The last amount is the whole: nobody is left to think that it stopped halfway.
        let whole = step.total == Some(step.done) && known.step.done < step.done;
        known.step = step;
        let silent = known.bar.elapsed() >= known.shown + REPEAT;
        if self.mode == Mode::Lines && (changed || silent || whole) {
            self.show(item, known);
        }
    }

    fn finish(&self, item: &str, outcome: &str) {
        if self.mode == Mode::Quiet {
            return;
        }
        let known = self.items().remove(item);
        let after = known.as_ref().map_or(Duration::ZERO, |known| known.bar.elapsed());
        if let Some(known) = known {
            known.bar.finish_and_clear();
            self.bars.remove(&known.bar);
        }
        self.line(&describe(item, &Step::state(outcome), after));
    }

    fn say(&self, line: &str) {
        if self.mode == Mode::Quiet {
            return;
        }
        match self.terminal.json {
            Some(now) => self.line(&log::object(now(), Level::INFO, line, serde_json::Map::new())),
            None => self.line(&clean(line)),
        }
    }

    fn warn(&self, line: &str) {
        self.lines(&[Line::new(Label::Warning, line)]);
    }
}

/// `be-1: uploading 12 MiB of 64 MiB, 14 s`
fn describe(name: &str, step: &Step, after: Duration) -> String {
    let amount = match (step.done, step.total) {
        (done, Some(total)) => format!(" {} of {}", size(done), size(total)),
        (0, None) => String::new(),
        (done, None) => format!(" {}", size(done)),
    };
    let seconds = after.as_secs();
    let time = if seconds == 0 { String::new() } else { format!(", {seconds} s") };
    format!("{}: {}{amount}{time}", clean(name), clean(&step.state))
}

fn draw(bar: &ProgressBar, before: &Step, step: &Step) {
    if before.total.is_some() != step.total.is_some() {
        bar.set_style(style(step.total.is_some()));
    }
    match step.total {
        Some(total) => bar.set_length(total),
        None => bar.unset_length(),
    }
    bar.set_position(step.done);
    bar.set_message(clean(&step.state));
}

fn style(amounts: bool) -> ProgressStyle {
    let template = if amounts {
        "{prefix:18!} {msg:9!} {percent:>3}% [{wide_bar}] {bytes_per_sec:>12} after {elapsed}"
    } else {
        "{prefix:18!} {msg:9!} {spinner} after {elapsed}"
    };
    ProgressStyle::with_template(template)
        .expect("the templates are constants that a test draws")
        .progress_chars("=> ")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn screen(mode: Mode) -> (Screen, Written) {
        let written = Written::default();
        let terminal = Terminal { bars: false, width: None, color: false, json: None };
        (Screen::with(terminal, mode, Box::new(written.clone())), written)
    }

    fn text(written: &Written) -> String {
        String::from_utf8(written.0.lock().unwrap().clone()).unwrap()
    }

    fn work(screen: &Screen) {
        screen.update("be-1", Step::state("CREATING"));
        screen.update("be-1", Step::state("CREATING"));
        screen.update("be-1", Step::bytes("uploading", 1 << 20, Some(4 << 20)));
        screen.update("be-1", Step::bytes("uploading", 2 << 20, Some(4 << 20)));
        screen.warn("careful");
        screen.say("so\u{1b}it goes");
        screen.finish("be-1", "created");
    }

    #[test]
    fn lines_come_at_changes_of_state() {
        let (screen, written) = screen(Mode::Lines);
        work(&screen);
        let wanted = "\
be-1: CREATING
be-1: uploading 1.0 MiB of 4.0 MiB
warning: careful
so it goes
be-1: created
";
        assert_eq!(text(&written), wanted);
    }

    #[test]
    fn a_silent_item_is_repeated_after_a_while() {
        let (screen, written) = screen(Mode::Lines);
        screen.update("be-1", Step::state("CREATING"));
        screen.beat();
        let age = |seconds| {
            screen.items().get_mut("be-1").unwrap().bar.set_elapsed(Duration::from_secs(seconds));
        };
        age(11);
        screen.beat();
        screen.beat();
        age(22);
        screen.update("be-1", Step::state("CREATING"));
        let wanted = "be-1: CREATING\nbe-1: CREATING, 11 s\nbe-1: CREATING, 22 s\n";
        assert_eq!(text(&written), wanted);
    }

    #[test]
    fn quiet_lets_only_warnings_through() {
        let (screen, written) = screen(Mode::Quiet);
        work(&screen);
        screen.beat();
        assert_eq!(text(&written), "warning: careful\n");
    }

    #[test]
    fn bars_draw_and_go_away() {
        let (screen, written) = screen(Mode::Bars);
        work(&screen);
        screen.update("nl-1", Step::state("CREATING"));
        screen.clear();
        assert_eq!(text(&written), "warning: careful\nso it goes\nbe-1: created\n");
    }
}
