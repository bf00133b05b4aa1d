//! What is asked of a restore: from where, into what, for which cluster.

use std::path::PathBuf;

use jiff::Timestamp;

use crate::backup::{Error, Manifests, Target};
use crate::etcd::Version;
use crate::snapshot::seal::Identities;

/// By how much the revision is raised if nothing else is said: more than any cluster writes
/// between a backup and its loss.
pub const BUMP: u64 = 1_000_000_000;

/// A restore.
#[derive(Debug, Clone)]
pub struct Request {
    /// From where.
    pub source: Source,
    /// The keys to open it with.
    pub identities: Option<Identities>,
    /// The files that they were read from, for commands that are shown.
    pub identity_files: Vec<PathBuf>,
    /// Into what; none if only keys are wanted.
    pub output: Option<Output>,
    /// Where the node's keys are unpacked, if they are wanted.
    pub pki: Option<PathBuf>,
    /// The folder of static pods, which says what this node is.
    pub manifests: Manifests,
    /// Only say what would be done.
    pub plan_only: bool,
    /// Take data that carries no SHA-256 of etcd's and is not encrypted either.
    pub skip_hash_check: bool,
}

/// Where the data comes from.
#[derive(Debug, Clone)]
pub enum Source {
    /// A bucket.
    Bucket {
        /// Which, and where in it.
        target: Box<Target>,
        /// Only this cluster's.
        cluster: Option<u64>,
        /// Which backup.
        which: Which,
    },
    /// A file.
    File(PathBuf),
    /// Standard input.
    Stdin,
}

/// Which backup of a bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Which {
    /// The newest good one.
    Newest,
    /// The newest good one whose snapshot began at this moment or before.
    At(Timestamp),
    /// The one of this name, as `list` shows it, or the object of this key; of several versions
    /// this one.
    Object {
        /// A backup's name, or a whole key.
        key: String,
        /// A version of it.
        version: Option<String>,
    },
    /// The one that has an object of this version.
    Version(String),
}

/// What is made.
#[derive(Debug, Clone)]
pub enum Output {
    /// A database file that `etcdutl snapshot restore` accepts.
    Db(PathBuf),
    /// A data directory that etcd starts from.
    DataDir {
        /// Where.
        path: PathBuf,
        /// Whose.
        member: Box<MemberWish>,
        /// Made by whom.
        engine: Engine,
    },
}

/// Who makes a data directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Engine {
    /// We do.
    Native,
    /// etcd's own tool, at this path.
    Etcdutl(PathBuf),
}

/// What is said of the new cluster; the rest comes from this node or is etcd's default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MemberWish {
    /// `--name`.
    pub name: Option<String>,
    /// `--initial-cluster`: names and peer URLs.
    pub initial_cluster: Vec<(String, String)>,
    /// `--initial-advertise-peer-urls`.
    pub peer_urls: Vec<String>,
    /// `--initial-cluster-token`.
    pub token: Option<String>,
    /// By how much the revision is raised; `None`: not at all.
    pub bump: Option<u64>,
    /// Whether what is before it is marked as compacted.
    pub mark_compacted: bool,
    /// The etcd that will be started.
    pub etcd_version: Option<Version>,
    /// Restore for an etcd that is too old as well.
    pub force: bool,
}

impl Request {
    /// Refuses what makes no sense whatever is found.
    ///
    /// # Errors
    /// [`Error::Asked`]
    pub fn hold(&self) -> Result<(), Error> {
        if self.output.is_none() && self.pki.is_none() {
            return Err(Error::asked(
                "it is not said into what to restore",
                "say --data-dir DIR for an etcd to start from, --db FILE for the database alone, \
                 or --pki DIR for the node's keys",
            ));
        }
        let of_bucket = matches!(self.source, Source::Bucket { .. });
        if self.pki.is_some() && self.output.is_some() && !of_bucket {
            return Err(Error::asked(
                "one file holds a database or a node's keys, not both",
                "restore each with a --from of its own: --pki DIR alone for the keys",
            ));
        }
        match &self.output {
            Some(Output::DataDir { member, .. }) => member.hold(),
            _ => Ok(()),
        }
    }
}

impl MemberWish {
    fn hold(&self) -> Result<(), Error> {
        let names: std::collections::BTreeSet<&str> =
            self.initial_cluster.iter().map(|(name, _)| name.as_str()).collect();
        // Every run makes a token of its own, and members of different tokens are strangers.
        if names.len() > 1 && self.token.is_none() {
            return Err(Error::asked(
                "several members of one cluster need the same token",
                "choose any new word and say --initial-cluster-token WORD on each of them",
            ));
        }
        if self.token.as_ref().is_some_and(String::is_empty) {
            return Err(Error::asked("the token is empty", "choose any new word"));
        }
        // What clients have read would stay valid under numbers that now mean something else.
        if self.bump.is_some() && !self.mark_compacted {
            return Err(Error::asked(
                "a raised revision and --mark-compacted=false do not go together",
                "leave --mark-compacted out, or say --bump-revision 0 as well",
            ));
        }
        Ok(())
    }
}

/// `name=url` pairs with commas between them, as etcd's flag has them.
///
/// # Errors
/// What is wrong with the text.
pub fn initial_cluster(text: &str) -> Result<Vec<(String, String)>, String> {
    let pair = |pair: &str| match pair.trim().split_once('=') {
        Some((name, url)) if !name.is_empty() && !url.is_empty() => {
            Ok((name.to_owned(), url.to_owned()))
        }
        _ => Err(format!("{pair:?} is no member; write NAME=URL,NAME=URL")),
    };
    text.split(',').map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(cluster: &str, token: Option<&str>) -> MemberWish {
        let initial_cluster = initial_cluster(cluster).unwrap();
        MemberWish { initial_cluster, token: token.map(str::to_owned), ..MemberWish::default() }
    }

    fn into(member: MemberWish) -> Request {
        let member = Box::new(member);
        let output = Output::DataDir { path: "/d".into(), member, engine: Engine::Native };
        Request {
            source: Source::Stdin,
            identities: None,
            identity_files: Vec::new(),
            output: Some(output),
            pki: None,
            manifests: Manifests::default(),
            plan_only: false,
            skip_hash_check: false,
        }
    }

    #[test]
    fn members_are_pairs() {
        let found = initial_cluster("a=http://a:1, a=http://b:1,c=http://c:1").unwrap();
        assert_eq!(found[1], ("a".to_owned(), "http://b:1".to_owned()));
        for bad in ["", "a", "a=", "=http://a:1", "a=http://a:1,", "a=http://a:1,,b=x"] {
            assert!(initial_cluster(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused_before_anything_is_looked_at() {
        let good = into(wish("a=http://a:1", None));
        assert!(good.hold().is_ok());
        assert!(into(wish("a=http://a:1,a=http://b:1", None)).hold().is_ok(), "one member");
        assert!(into(wish("a=http://a:1,b=http://b:1", Some("x"))).hold().is_ok());
        for (bad, says) in [
            (into(wish("a=http://a:1,b=http://b:1", None)), "the same token"),
            (into(wish("a=http://a:1", Some(""))), "empty"),
            (into(MemberWish { bump: Some(5), ..MemberWish::default() }), "do not go together"),
            (Request { output: None, ..good.clone() }, "into what"),
            (Request { pki: Some("/p".into()), ..good }, "not both"),
        ] {
            let said = bad.hold().unwrap_err().to_string();
            assert!(said.contains(says), "{said}");
        }
    }
}
