//! Logs on stderr: a line a call with `-v`, bodies too with `-vv`, warnings always.
//!
//! Only our own events are shown: what libraries log may hold what must not be shown.

use std::fmt::{self, Write};
use std::sync::Arc;

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

use super::diagnose::{Label, Line, clean};
use super::progress::Screen;

/// Sends our events to the screen from now on, as many as `verbose` asks for.
pub(super) fn start(screen: Arc<Screen>, verbose: u8) {
    let finest = match verbose {
        0 => Level::WARN,
        1 => Level::DEBUG,
        _ => Level::TRACE,
    };
    let subscriber = tracing_subscriber::registry().with(Lines { screen, finest });
    // A second program in one process (a test) keeps the first one's logs.
    let _ = tracing::subscriber::set_global_default(subscriber);
}

struct Lines {
    screen: Arc<Screen>,
    finest: Level,
}

impl<S: Subscriber> Layer<S> for Lines {
    fn enabled(&self, metadata: &tracing::Metadata<'_>, _context: Context<'_, S>) -> bool {
        let ours = metadata.target() == "capvco" || metadata.target().starts_with("capvco::");
        ours && *metadata.level() <= self.finest
    }

    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        let mut text = Text::default();
        event.record(&mut text);
        match *event.metadata().level() {
            Level::ERROR => self.screen.lines(&[Line::new(Label::Error, text.line())]),
            Level::WARN => self.screen.lines(&[Line::new(Label::Warning, text.line())]),
            _ => self.screen.line(&clean(&text.line())),
        }
    }
}

/// An event's fields as a line: what a call's line begins with, the message, then the rest.
#[derive(Default)]
struct Text {
    call: [String; 3],
    message: String,
    rest: String,
}

impl Text {
    fn take(&mut self, name: &str, value: fmt::Arguments<'_>) {
        match name {
            "method" => self.call[0] = value.to_string(),
            "path" => self.call[1] = value.to_string(),
            "status" => self.call[2] = value.to_string(),
            "message" => self.message = value.to_string(),
            _ => {
                // Writing to a String cannot fail.
                let _ = write!(self.rest, " {name}={value}");
            }
        }
    }

    fn line(&self) -> String {
        let mut line = self.call.join(" ").trim().to_owned();
        for part in [&self.message, self.rest.trim()] {
            if !part.is_empty() && !line.is_empty() {
                line.push(' ');
            }
            line.push_str(part);
        }
        line
    }
}

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.take(field.name(), format_args!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.take(field.name(), format_args!("{value}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_one_line() {
        let mut text = Text::default();
        text.take("ms", format_args!("12"));
        text.take("tries", format_args!("1"));
        text.take("status", format_args!("200"));
        text.take("path", format_args!("/api/1/me"));
        text.take("method", format_args!("GET"));
        assert_eq!(text.line(), "GET /api/1/me 200 ms=12 tries=1");
        let mut text = Text::default();
        text.take("message", format_args!("limit learned"));
        assert_eq!(text.line(), "limit learned");
    }
}
