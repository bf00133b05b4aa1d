//! What can stand against publishing, and how it is told.
//!
//! Everything found before the first write is a [`Problem`], and all problems come in one
//! [`Error`]: a user mends all of them at once. What goes wrong at one location later on is no
//! error of the run but a row of its report.

use std::time::Duration;

use crate::fault::{Class, Fault, chain};

/// One thing that stands against publishing, or against one location's part of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// What kind of thing it is.
    pub class: Class,
    /// The whole story in one line.
    pub text: String,
    /// What to do about it, most useful first; often nothing.
    pub hints: Vec<String>,
}

impl Problem {
    /// A problem without a hint.
    #[must_use]
    pub fn new(class: Class, text: impl Into<String>) -> Self {
        Self { class, text: text.into(), hints: Vec::new() }
    }

    /// Something in the command line that cannot be meant.
    #[must_use]
    pub fn usage(text: impl Into<String>) -> Self {
        Self::new(Class::Usage, text)
    }

    /// Something that we looked at and decline.
    #[must_use]
    pub fn refused(text: impl Into<String>) -> Self {
        Self::new(Class::Refused, text)
    }

    /// The same, with one more sentence about what to do.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// What another room found, told in one line.
    #[must_use]
    pub fn of<E: Fault>(error: &E) -> Self {
        Self { class: error.class(), text: chain(error), hints: error.hints() }
    }
}

/// Why nothing was sent at all.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Inputs are wrong, or could not be checked; all of them are listed.
    #[error("{}", listed(.0))]
    Refused(Vec<Problem>),
    /// Ctrl-C before the first write.
    #[error("interrupted before anything was sent")]
    Interrupted,
    /// `-timeout` ran out before the first write.
    #[error("the checks before publishing took longer than -timeout ({} s); nothing was sent", .0.as_secs_f64())]
    TimedOut(Duration),
}

/// One problem reads as itself; several are counted and listed, one a line.
fn listed(problems: &[Problem]) -> String {
    match problems {
        [only] => only.text.clone(),
        many => many.iter().fold(
            format!("{} things stand against publishing; nothing was sent", many.len()),
            |text, problem| format!("{text}\n  - {}", problem.text),
        ),
    }
}

impl Fault for Error {
    /// What can be mended by hand outranks what may pass by itself: the same command will not
    /// work later while an input is wrong.
    fn class(&self) -> Class {
        match self {
            Self::Refused(problems) => {
                let rank = |class: Class| match class {
                    Class::Bug => 0,
                    Class::Usage => 2,
                    other if other.is_other_side() => 3,
                    _ => 1,
                };
                problems.iter().map(|p| p.class).min_by_key(|c| rank(*c)).unwrap_or(Class::Bug)
            }
            Self::Interrupted => Class::Interrupted,
            Self::TimedOut(_) => Class::Transient,
        }
    }

    fn hints(&self) -> Vec<String> {
        let Self::Refused(problems) = self else { return Vec::new() };
        let mut hints: Vec<String> = Vec::new();
        for hint in problems.iter().flat_map(|p| &p.hints) {
            if !hints.contains(hint) {
                hints.push(hint.clone());
            }
        }
        hints
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_problem_reads_as_itself_and_several_are_counted() {
        let one = Error::Refused(vec![Problem::usage("name is empty")]);
        assert_eq!(one.to_string(), "name is empty");
        let two = Error::Refused(vec![Problem::usage("a"), Problem::refused("b")]);
        assert_eq!(
            two.to_string(),
            "2 things stand against publishing; nothing was sent\n  - a\n  - b"
        );
    }

    #[test]
    fn what_can_be_mended_outranks_what_may_pass() {
        let of = |classes: &[Class]| {
            let problems = classes.iter().map(|c| Problem::new(*c, "x")).collect();
            Error::Refused(problems).class()
        };
        assert_eq!(of(&[Class::Usage]), Class::Usage);
        assert_eq!(of(&[Class::Usage, Class::Refused]), Class::Refused);
        assert_eq!(of(&[Class::Transient, Class::Usage]), Class::Usage);
        assert_eq!(of(&[Class::Transient]), Class::Transient);
    }

    #[test]
    fn a_hint_is_said_once() {
        let problem = |t: &str| Problem::refused(t).hint("look");
        assert_eq!(Error::Refused(vec![problem("a"), problem("b")]).hints(), ["look"]);
    }
}
