//! What a tool says when it is done: one value for table, JSON and NDJSON.

use serde::Serialize;

/// What a finished run means, and so the program's exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Done, or nothing to do.
    Done,
    /// What was asked is not true now.
    Failed,
    /// Refused before anything was changed.
    Refused,
    /// The other side failed; the same command may work later.
    OtherSide,
    /// Failed, and something was left behind, which the report lists.
    LeftBehind,
}

/// The result of a run: rows of one kind, and a verdict.
pub trait Report {
    /// One row; its serialised form is a documented, stable interface.
    type Row: Serialize;

    /// The rows, in the order in which they should be shown.
    fn rows(&self) -> &[Self::Row];

    /// The table's column titles.
    fn headers(&self) -> &'static [&'static str];

    /// One row's cells, as many as there are headers.
    fn cells(&self, row: &Self::Row) -> Vec<String>;

    /// Lines for a person, shown on stderr after the table: errors of rows and their hints,
    /// what was left behind, what could not be verified.
    fn remarks(&self) -> Vec<Remark> {
        Vec::new()
    }

    /// What it all means.
    fn verdict(&self) -> Verdict;
}

/// A line for a person that accompanies a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Remark {
    /// Something failed.
    Error(String),
    /// Something to keep in mind.
    Warning(String),
    /// What to do next.
    Hint(String),
}

/// Bytes for people.
#[must_use]
pub fn size(bytes: u64) -> String {
    let units = [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let fitting = units.into_iter().find(|(unit, _)| bytes >= *unit);
    fitting.map_or_else(
        || format!("{bytes} B"),
        |(unit, name)| {
            let tenths = u128::from(bytes) * 10 / u128::from(unit);
            format!("{}.{} {name}", tenths / 10, tenths % 10)
        },
    )
}

/// A word as a POSIX shell reads it back: commands that are shown can be copied.
#[must_use]
pub fn shell_word(text: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"_./:@%+=,-".contains(&b);
    if !text.is_empty() && text.bytes().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sizes_read_well() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1536, "1.5 KiB"),
            (64 << 20, "64.0 MiB"),
            (u64::MAX, "16777215.9 TiB"),
        ] {
            assert_eq!(size(bytes), text);
        }
    }

    #[test]
    fn words_are_quoted_only_where_a_shell_needs_it() {
        for (value, want) in [
            ("http://127.0.0.1:1/x", "http://127.0.0.1:1/x"),
            ("", "''"),
            ("a b", "'a b'"),
            ("it's $HOME", r"'it'\''s $HOME'"),
        ] {
            assert_eq!(shell_word(value), want);
        }
    }

    proptest! {
        #[test]
        fn a_shell_reads_back_what_was_quoted(text in "[ -~]{0,20}") {
            let quoted = shell_word(&text);
            let mut words = String::new();
            let mut inside = false;
            let mut rest = quoted.chars();
            while let Some(c) = rest.next() {
                match c {
                    '\'' => inside = !inside,
                    '\\' if !inside => words.extend(rest.next()),
                    c => {
                        prop_assert!(inside || c.is_ascii_alphanumeric() || "_./:@%+=-,".contains(c));
                        words.push(c);
                    }
                }
            }
            prop_assert!(!inside);
            prop_assert_eq!(words, text);
        }
    }
}
