//! Logs on stderr, as text or as JSON: a line a call with `-v`, bodies too with `-vv`, warnings
//! always.
//!
//! Only our own events are shown: what libraries log may hold what must not be shown. Whatever
//! looks like a token is blanked here once more, whoever wrote it.

use std::fmt::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use jiff::Timestamp;
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::{LookupSpan, Scope};

use super::args::Talk;
use super::diagnose::{Label, Line, clean};
use super::progress::Screen;

/// Levels in the order of their numbers in [`FINEST`].
const LEVELS: [Level; 5] = [Level::ERROR, Level::WARN, Level::INFO, Level::DEBUG, Level::TRACE];
/// The finest level that is shown. One a process, as the subscriber is.
static FINEST: AtomicU8 = AtomicU8::new(1);

/// The dial for how much is logged; it can be turned while the program runs.
#[derive(Debug, Clone, Copy)]
pub struct Dial(());

impl Dial {
    /// The finest level that is shown.
    #[must_use]
    pub fn finest(self) -> Level {
        let number = usize::from(FINEST.load(Ordering::Relaxed));
        LEVELS.get(number).copied().unwrap_or(Level::WARN)
    }

    /// Shows this level and coarser ones from now on.
    pub fn turn(self, finest: Level) {
        let number = LEVELS.iter().position(|level| *level == finest).unwrap_or(1);
        FINEST.store(u8::try_from(number).unwrap_or(1), Ordering::Relaxed);
        tracing::callsite::rebuild_interest_cache();
    }
}

/// Sends our events to the screen from now on, as many as `talk` asks for.
pub(super) fn start(screen: Arc<Screen>, talk: Talk) -> Dial {
    let said = match talk.verbose {
        0 => Level::WARN,
        1 => Level::DEBUG,
        _ => Level::TRACE,
    };
    let dial = Dial(());
    dial.turn(talk.finest.map_or(said, |finest| finest.max(said)));
    let timed = talk.finest.is_some();
    let subscriber = tracing_subscriber::registry().with(Lines { screen, dial, timed });
    // A second program in one process (a test) keeps the first one's logs.
    let _ = tracing::subscriber::set_global_default(subscriber);
    dial
}

struct Lines {
    screen: Arc<Screen>,
    dial: Dial,
    /// Whether lines of text begin with the time: those of a server, which are read long after.
    timed: bool,
}

/// A span's fields, and whether they are of use on a line of text too.
struct Around {
    fields: Fields,
    shown: bool,
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Lines {
    fn enabled(&self, metadata: &tracing::Metadata<'_>, _context: Context<'_, S>) -> bool {
        let ours = metadata.target() == "capvco" || metadata.target().starts_with("capvco::");
        // A span is there for the sake of warnings within it.
        ours && (*metadata.level() <= self.dial.finest()
            || metadata.is_span() && *metadata.level() <= Level::INFO)
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        let shown = *attributes.metadata().level() <= Level::INFO;
        span.extensions_mut().insert(Around { fields, shown });
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let (level, json) = (*event.metadata().level(), self.screen.json());
        let mut fields = Fields::default();
        for span in context.event_scope(event).into_iter().flat_map(Scope::from_root) {
            if let Some(around) = span.extensions().get::<Around>()
                && (json.is_some() || around.shown)
            {
                fields.0.extend(around.fields.0.iter().cloned());
            }
        }
        event.record(&mut fields);
        match (json, level) {
            (Some(now), _) => self.screen.line(&fields.object(now(), level)),
            (None, _) if self.timed => self.screen.line(&timed(level, &fields.text())),
            (None, Level::ERROR) => self.screen.lines(&[Line::new(Label::Error, fields.text())]),
            (None, Level::WARN) => self.screen.lines(&[Line::new(Label::Warning, fields.text())]),
            (None, _) => self.screen.line(&clean(&fields.text())),
        }
    }
}

/// A line of a server's: when, how grave if it is, and what.
fn timed(level: Level, text: &str) -> String {
    let grave = match level {
        Level::ERROR => "error: ",
        Level::WARN => "warning: ",
        _ => "",
    };
    format!("{:.3} {grave}{}", Timestamp::now(), clean(text))
}

/// One line of JSON: when, how grave, what, and what is known beside it.
pub(super) fn object(now: f64, level: Level, message: &str, fields: Map<String, Value>) -> String {
    #[expect(clippy::cast_possible_truncation, reason = "milliseconds since 1970 fit for long")]
    let time = Timestamp::from_millisecond((now * 1000.0) as i64).unwrap_or(Timestamp::UNIX_EPOCH);
    let mut object = Map::new();
    object.insert("time".into(), format!("{time:.3}").into());
    object.insert("level".into(), level.as_str().to_ascii_lowercase().into());
    object.insert("message".into(), blank(message).into());
    for (name, value) in fields {
        object.entry(name).or_insert(value);
    }
    Value::Object(object).to_string()
}

/// The text without anything that looks like a JSON web token, and without a bearer's anything.
fn blank(text: &str) -> String {
    let part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '=');
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("eyJ") {
        let (before, from) = rest.split_at(start);
        let end = from.find(|c| !part(c)).unwrap_or(from.len());
        let (word, after) = from.split_at(end);
        out.push_str(before);
        out.push_str(if word.matches('.').count() >= 2 { "[redacted]" } else { word });
        rest = after;
    }
    out.push_str(rest);
    out
}

/// The fields of an event or of a span, in their order.
#[derive(Default)]
struct Fields(Vec<(&'static str, Value)>);

impl Fields {
    fn put(&mut self, field: &Field, value: Value) {
        self.0.push((field.name(), value));
    }

    /// What a call's line begins with, the message, then the rest.
    fn text(&self) -> String {
        let word = |value: &Value| value.as_str().map_or_else(|| value.to_string(), blank);
        let of = |name: &str| self.0.iter().rfind(|(one, _)| *one == name).map(|(_, v)| word(v));
        let call = ["method", "path", "status"];
        let first = call.iter().chain(&["message"]).filter_map(|name| of(name));
        let mut line = first.filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ");
        for (name, value) in &self.0 {
            if !call.contains(name) && *name != "message" {
                // Writing to a String cannot fail.
                let _ = write!(line, " {name}={}", word(value));
            }
        }
        line.trim_start().to_owned()
    }

    fn object(self, now: f64, level: Level) -> String {
        let mut fields = Map::new();
        for (name, value) in self.0 {
            let value = match value {
                Value::String(text) => Value::String(blank(&text)),
                other => other,
            };
            fields.insert(name.to_owned(), value);
        }
        let message = match fields.remove("message") {
            Some(Value::String(text)) => text,
            // A call says itself what it is.
            _ if fields.contains_key("method") => "call".to_owned(),
            _ => String::new(),
        };
        object(now, level, &message, fields)
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, format!("{value:?}").into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value.into());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_call_is_one_line() {
        let call = vec![
            ("ms", json!(12)),
            ("tries", json!(1)),
            ("status", json!("200")),
            ("path", json!("/api/1/me")),
            ("method", json!("GET")),
        ];
        assert_eq!(Fields(call).text(), "GET /api/1/me 200 ms=12 tries=1");
        assert_eq!(Fields(vec![("message", json!("limit learned"))]).text(), "limit learned");
    }

    #[test]
    fn json_is_one_object_a_line_whatever_the_texts_hold() {
        let fields = vec![
            ("object", json!("ns/a")),
            ("message", json!("two\nlines")),
            ("wait_s", json!(3)),
            ("time", json!("never")),
        ];
        let line = Fields(fields).object(1_764_546_000.25, Level::WARN);
        assert!(!line.contains('\n'), "{line}");
        let want = json!({
            "time": "2025-11-30T23:40:00.250Z", "level": "warn", "message": "two\nlines",
            "object": "ns/a", "wait_s": 3,
        });
        assert_eq!(serde_json::from_str::<Value>(&line).unwrap(), want);
    }

    #[test]
    fn what_looks_like_a_token_is_never_shown() {
        let token = "eyJhbGciOiJFUzM4NCJ9.eyJzdWIiOiJ4In0.c2lnbmF0dXJl_-";
        let fields = || {
            Fields(vec![("message", json!(format!("bearer {token}, eyJ"))), ("q", json!(token))])
        };
        for line in [fields().text(), fields().object(0.0, Level::INFO)] {
            assert!(!line.contains("c2lnbm") && line.contains("bearer [redacted], eyJ"), "{line}");
        }
    }
}
