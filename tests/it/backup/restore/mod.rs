//! `restore`: from what `snapshot` and others have made to an etcd that serves it.

mod keys;
mod large;
mod members;
mod places;
mod refusals;
mod sources;
mod stopped;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::snapshot::{Desk, row};
use crate::support::peers::etcd::Etcd;
use crate::support::peers::fill::Values;
use crate::support::peers::s3::{S3, Versitygw};
use crate::support::program::{Done, Program, backup, backup_at};

/// A bucket with a backup in it, the keys to it, and the etcd that it is of.
struct Lab {
    desk: Desk,
    s3: Versitygw,
    etcd: Etcd,
}

impl Lab {
    async fn new(line: &str) -> Self {
        let lab = Self { desk: Desk::new(), s3: Versitygw::start(), etcd: Etcd::start_line(line) };
        lab.etcd.fill(300, 2000, Values::Random);
        lab.snapshot().await;
        lab
    }

    /// One more backup; its row.
    async fn snapshot(&self) -> Value {
        row(&self.desk.snapshot(&self.etcd, &self.s3).run().await.expect(0))
    }

    /// `restore` from the bucket, with the first key.
    fn restore(&self) -> Program {
        from_bucket(&self.desk, &self.s3)
    }
}

fn from_bucket(desk: &Desk, s3: &S3) -> Program {
    plain(backup_at(s3), desk)
}

/// `restore` of a file, with the first key.
fn from_file(desk: &Desk, path: &Path) -> Program {
    plain(backup(), desk).arg("--from").arg(path)
}

fn plain(program: Program, desk: &Desk) -> Program {
    for_people(program, desk).words("-output json")
}

/// The same with a page in place of an object.
fn for_people(program: Program, desk: &Desk) -> Program {
    program.env("CAPVCO_BACKUP_IDENTITY", desk.path("one.txt")).words("restore")
}

/// The hash of all key-values, how many keys live, and the revision.
fn looked_at(etcd: &Etcd) -> (u64, usize, i64) {
    let json = |args: &[&str]| -> Value {
        serde_json::from_str(&etcd.etcdctl(&[args, &["-w", "json"]].concat())).unwrap()
    };
    let hash = json(&["endpoint", "hashkv"])[0]["HashKV"]["hash"].as_u64().unwrap();
    let keys = etcd.etcdctl(&["get", "", "--prefix", "--keys-only"]);
    let revision = json(&["endpoint", "status"])[0]["Status"]["header"]["revision"].clone();
    let count = keys.lines().filter(|line| !line.is_empty()).count();
    (hash, count, revision.as_i64().unwrap())
}

/// Starts etcd of a line on what was restored.
fn start(line: &str, data_dir: &Path) -> Etcd {
    Etcd::builder().line(line).data_dir(data_dir).start()
}

/// All that is below a folder: paths, sizes and times.
fn everything(folder: &Path) -> BTreeMap<PathBuf, (u64, std::time::SystemTime)> {
    let mut all = BTreeMap::new();
    let mut open = vec![folder.to_owned()];
    while let Some(next) = open.pop() {
        for entry in std::fs::read_dir(&next).unwrap() {
            let entry = entry.unwrap();
            let facts = entry.metadata().unwrap();
            if facts.is_dir() {
                open.push(entry.path());
            }
            all.insert(entry.path(), (facts.len(), facts.modified().unwrap()));
        }
    }
    all
}

/// The names in a folder.
fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let name = |entry: std::io::Result<std::fs::DirEntry>| {
        entry.unwrap().file_name().into_string().unwrap()
    };
    let mut names: Vec<String> = entries.map(name).collect();
    names.sort();
    names
}

/// The row of a restore that went well.
fn restored(done: Done) -> Value {
    let row = row(&done.expect(0));
    assert_eq!(row["outcome"], "restored");
    row
}
