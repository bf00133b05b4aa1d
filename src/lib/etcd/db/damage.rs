//! What can be wrong with a database file, said so that a person can look at the place.

use std::io;

use crate::fault::{Class, Fault};

/// Why a file is no sound etcd database.
#[derive(Debug, thiserror::Error)]
pub enum Damage {
    /// The disk, not the file: reading failed.
    #[error("the database cannot be read at byte {at}")]
    Unreadable {
        /// Where in the file.
        at: u64,
        /// What the system said.
        source: io::Error,
    },
    /// Neither meta page is one.
    #[error("this is no etcd database: {0}")]
    NotADatabase(&'static str),
    /// The file ends before the last page that its meta page speaks of.
    #[error("the database is cut off: its pages reach to byte {needs}, the file has {has}")]
    Cut {
        /// Where the last page ends.
        needs: u64,
        /// The file's length.
        has: u64,
    },
    /// A page does not hold what a page must.
    #[error("page {page} of the database is damaged: {what}")]
    Page {
        /// The page's number; times the page size, its place in the file.
        page: u64,
        /// What is wrong with it.
        what: String,
    },
    /// The pages are sound, what etcd keeps in them is not.
    #[error("bucket {bucket:?} of the database is damaged: {what}")]
    Bucket {
        /// The bucket's name.
        bucket: String,
        /// What is wrong in it.
        what: String,
    },
    /// A number of the stream as it passed by cannot be known without the whole file.
    #[error("{0} cannot be told from the database as it passes by")]
    Unclear(&'static str),
}

impl Damage {
    pub(in crate::etcd) fn page(page: u64, what: impl Into<String>) -> Self {
        Self::Page { page, what: what.into() }
    }

    pub(in crate::etcd) fn bucket(name: &[u8], what: impl Into<String>) -> Self {
        Self::Bucket { bucket: String::from_utf8_lossy(name).into_owned(), what: what.into() }
    }
}

impl Fault for Damage {
    fn class(&self) -> Class {
        match self {
            Self::Unreadable { .. } => Class::Transient,
            Self::Unclear(_) => Class::Bug,
            _ => Class::Invalid,
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::Cut { .. } => vec!["the copy is incomplete: fetch it again".to_owned()],
            Self::Page { .. } | Self::Bucket { .. } => {
                vec!["use another backup, or take a new one from another member".to_owned()]
            }
            _ => Vec::new(),
        }
    }
}
