//! Backups at rest against the tools that others use: age, age-keygen, zstd.

mod keys;
mod layers;

use std::path::Path;
use std::process::Command;

use capvco::snapshot::passphrase::Nobody;
use capvco::snapshot::seal::{Identities, Recipients};

use crate::support::peers::{clean, run, tool};

/// A command of `.tools/bin`, which finds its plugins there too.
fn real(name: &str) -> Command {
    let path = tool(name);
    let mut command = clean(&path);
    let own = path.parent().unwrap().display().to_string();
    command.env("PATH", format!("{own}:{}", std::env::var("PATH").unwrap_or_default()));
    command
}

/// Runs it; it must succeed.
#[track_caller]
fn must(command: &mut Command) {
    let done = run(command);
    assert_eq!(done.code, 0, "{command:?}: {}", done.err);
}

/// A key by the real `age-keygen`, as a file.
fn keygen(path: &Path) -> (Identities, Recipients) {
    must(real("age-keygen").arg("-o").arg(path));
    let bytes = std::fs::read(path).unwrap();
    let (keys, remarks) = Identities::read(&bytes, "k", &Nobody).unwrap();
    assert!(remarks.is_empty(), "{remarks:?}");
    let recipients = Recipients::parse(keys.public(), "--recipient").unwrap();
    (keys, recipients)
}
