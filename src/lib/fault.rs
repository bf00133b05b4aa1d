//! What kind of thing went wrong, and what to do about it.
//!
//! Every room has an error type of its own; all of them implement [`Fault`], so that the door
//! can choose an exit code and a reconciler can choose a delay without reading any text.
//!
//! House rules for errors: `Display` names the thing (operation, id, path) and never repeats
//! its source; hints are sentences that say what to do next; neither ever holds a secret.

/// The kind of a failure, as far as the caller's next step depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// The command line or a setting is wrong: nothing was tried.
    Usage,
    /// We looked and declined, before anything was changed.
    Refused,
    /// The other side does not know us or does not let us.
    Auth,
    /// The thing named does not exist.
    NotFound,
    /// The thing exists already, is locked, or is in use.
    Conflict,
    /// Too many calls; the same call may work later.
    RateLimited,
    /// A limit on resources is reached.
    Quota,
    /// The other side says that what we sent is wrong.
    Invalid,
    /// The other side, or the way there, failed; the same call may work later.
    Transient,
    /// What was to be shown is not so: a check, a comparison, a promise.
    Failed,
    /// It has failed, and something of it is left where it was made; the text says what.
    LeftBehind,
    /// The user stopped it.
    Interrupted,
    /// Ours to mend.
    Bug,
}

impl Class {
    /// Whether the same command may succeed later without anybody changing it.
    #[must_use]
    pub const fn is_other_side(self) -> bool {
        matches!(self, Self::RateLimited | Self::Quota | Self::Transient)
    }
}

/// An error that knows its kind and what to do about it.
pub trait Fault: std::error::Error {
    /// The kind of failure.
    fn class(&self) -> Class;

    /// Sentences that say what to do next, most useful first; often none.
    fn hints(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Lets `?` hand any room's error to the door.
impl<'a, E: Fault + 'a> From<E> for Box<dyn Fault + 'a> {
    fn from(error: E) -> Self {
        Box::new(error)
    }
}

/// The error and all its sources in one line, outermost first, joined by `: `.
///
/// For places that hold one string (a report's row, a condition's message). A source whose text
/// is already the end of the line so far is left out.
#[must_use]
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut line = words(error);
    let mut next = error.source();
    while let Some(source) = next {
        let text = words(source);
        if !line.ends_with(&text) {
            line.push_str(": ");
            line.push_str(&text);
        }
        next = source.source();
    }
    line
}

/// What an error says, in words: a resolver of ours prints its query as a Rust value.
#[must_use]
pub fn words(error: &dyn std::error::Error) -> String {
    const QUERY: &str = "no records found for Query {";
    let text = error.to_string();
    let Some((before, query)) = text.split_once(QUERY) else { return text };
    let name = query.split('"').nth(1).map(|name| name.trim_end_matches('.'));
    match name.filter(|name| !name.is_empty()) {
        Some(name) => format!("{before}there is no address of {name}"),
        None => format!("{before}there is no address of this name"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("outer")]
    struct Outer(#[source] Inner);

    #[derive(Debug, thiserror::Error)]
    #[error("inner")]
    struct Inner;

    #[test]
    fn a_chain_reads_outermost_first() {
        assert_eq!(chain(&Outer(Inner)), "outer: inner");
        assert_eq!(chain(&Inner), "inner");
    }

    #[test]
    fn a_resolvers_query_is_told_in_words() {
        #[derive(Debug, thiserror::Error)]
        #[error("{0}")]
        struct Said(&'static str);
        for (text, told) in [
            (
                "DNS error: no records found for Query { name: Name(\"s3.example.\"), \
                 query_type: AAAA, query_class: IN }",
                "DNS error: there is no address of s3.example",
            ),
            ("no records found for Query { }", "there is no address of this name"),
            ("Query { name }", "Query { name }"),
        ] {
            assert_eq!(words(&Said(text)), told);
            assert_eq!(chain(&Said(text)), told);
        }
    }

    #[test]
    fn only_three_classes_are_the_other_sides() {
        assert!(Class::Transient.is_other_side() && Class::RateLimited.is_other_side());
        assert!(Class::Quota.is_other_side() && !Class::Conflict.is_other_side());
    }
}
