//! Why a verb ended without a report.

use std::path::{Path, PathBuf};

use crate::fault::{Class, Fault};

/// What any verb of `capvco-backup` may end with.
///
/// The errors of other rooms keep their own class and hints; `Doing` says what was being done.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What was asked makes no sense.
    #[error("{what}")]
    Asked {
        /// What is wrong.
        what: String,
        /// What to write instead, most useful first.
        hints: Vec<String>,
    },
    /// Something was seen that forbids going on; nothing was changed.
    #[error("{what}")]
    Declined {
        /// What was seen, with the figure.
        what: String,
        /// What to do about it.
        hints: Vec<String>,
    },
    /// The thing named is not there.
    #[error("{what}")]
    NotFound {
        /// What was looked for, and where.
        what: String,
        /// Where else to look.
        hints: Vec<String>,
    },
    /// What was asked is not true: a check, a comparison, a promise.
    #[error("{what}")]
    Failed {
        /// What was found instead.
        what: String,
        /// What to do about it.
        hints: Vec<String>,
    },
    /// A file of this machine could not be used.
    #[error("cannot {doing} {}", path.display())]
    File {
        /// `read`, `write`, `create` …
        doing: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: std::io::Error,
    },
    /// Another room's error, with what was being done.
    #[error("{doing}")]
    Doing {
        /// Such as `cannot list the backups below kube/`.
        doing: String,
        /// The room's own error.
        source: Box<dyn std::error::Error + Send + Sync>,
        /// Its class.
        class: Class,
        /// Its hints.
        hints: Vec<String>,
    },
    /// Ctrl-C, or a signal.
    #[error("interrupted {0}")]
    Interrupted(&'static str),
}

impl Error {
    /// A request that makes no sense, with what to write instead.
    pub fn asked(what: impl Into<String>, hint: &str) -> Self {
        Self::Asked { what: what.into(), hints: sentences(hint) }
    }

    /// Something seen that forbids going on.
    pub fn declined(what: impl Into<String>, hint: &str) -> Self {
        Self::Declined { what: what.into(), hints: sentences(hint) }
    }

    /// Something that is not there.
    pub fn not_found(what: impl Into<String>, hint: &str) -> Self {
        Self::NotFound { what: what.into(), hints: sentences(hint) }
    }

    /// Something that was to be true and is not.
    pub fn failed(what: impl Into<String>, hint: &str) -> Self {
        Self::Failed { what: what.into(), hints: sentences(hint) }
    }

    /// A file of this machine that could not be used.
    #[must_use]
    pub fn file(doing: &'static str, path: &Path, source: std::io::Error) -> Self {
        Self::File { doing, path: path.to_owned(), source }
    }

    /// The same, with what it has left on this machine.
    #[must_use]
    pub fn leaving(self, left: &[PathBuf]) -> Self {
        let left: Vec<String> = left.iter().map(|path| path.display().to_string()).collect();
        let (doing, hints) = (format!("this is left behind: {}", left.join(", ")), self.hints());
        Self::Doing { doing, source: Box::new(self), class: Class::LeftBehind, hints }
    }

    /// For `map_err`: another room's error while `doing` this.
    pub fn doing<F>(doing: impl Into<String>) -> impl FnOnce(F) -> Self
    where
        F: Fault + Send + Sync + 'static,
    {
        let doing = doing.into();
        move |source| {
            let (class, hints) = (source.class(), source.hints());
            Self::Doing { doing, source: Box::new(source), class, hints }
        }
    }
}

fn sentences(hint: &str) -> Vec<String> {
    if hint.is_empty() { Vec::new() } else { vec![hint.to_owned()] }
}

impl Fault for Error {
    fn class(&self) -> Class {
        match self {
            Self::Asked { .. } => Class::Usage,
            Self::Declined { .. } => Class::Refused,
            Self::NotFound { .. } => Class::NotFound,
            Self::Failed { .. } => Class::Failed,
            Self::Interrupted(_) => Class::Interrupted,
            Self::File { source, .. } => of_file(source),
            Self::Doing { class, .. } => *class,
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::Asked { hints, .. }
            | Self::Declined { hints, .. }
            | Self::NotFound { hints, .. }
            | Self::Failed { hints, .. }
            | Self::Doing { hints, .. } => hints.clone(),
            Self::File { source, .. } => about_file(source),
            Self::Interrupted(_) => Vec::new(),
        }
    }
}

fn of_file(error: &std::io::Error) -> Class {
    match error.kind() {
        std::io::ErrorKind::NotFound => Class::NotFound,
        _ => Class::Refused,
    }
}

fn about_file(error: &std::io::Error) -> Vec<String> {
    let hint = match error.kind() {
        std::io::ErrorKind::PermissionDenied => {
            "run it as root on the control-plane node, or choose a place that is yours"
        }
        std::io::ErrorKind::StorageFull => "make room there, or choose another place",
        std::io::ErrorKind::ReadOnlyFilesystem => "choose a place that can be written to",
        _ => return Vec::new(),
    };
    vec![hint.to_owned()]
}

#[cfg(test)]
mod tests {
    use std::io::{Error as Io, ErrorKind};

    use super::*;

    #[test]
    fn a_rooms_error_keeps_its_class_and_hints_behind_what_was_done() {
        let inner = Error::declined("a learner answers", "ask a voter");
        let outer = Error::doing::<Error>("cannot take a snapshot")(inner);
        assert_eq!(outer.class(), Class::Refused);
        assert_eq!(outer.hints(), ["ask a voter"]);
        assert_eq!(crate::fault::chain(&outer), "cannot take a snapshot: a learner answers");
    }

    #[test]
    fn a_files_error_says_what_to_do_where_that_is_known() {
        for (kind, class, hints) in [
            (ErrorKind::NotFound, Class::NotFound, 0),
            (ErrorKind::PermissionDenied, Class::Refused, 1),
            (ErrorKind::StorageFull, Class::Refused, 1),
            (ErrorKind::Other, Class::Refused, 0),
        ] {
            let error = Error::file("write", Path::new("/x"), Io::from(kind));
            assert_eq!((error.class(), error.hints().len()), (class, hints), "{kind}");
            assert_eq!(error.to_string(), "cannot write /x");
        }
    }
}
