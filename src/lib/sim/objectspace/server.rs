//! One S3 server: a versitygw.

use std::fs::File;
use std::io;
use std::path::Path;

use super::record::Pair;
use crate::sim::process::Process;

/// Starts one on a port of this machine's loopback, with all it keeps in `folder`.
pub(super) fn start(program: &Path, folder: &Path, port: u16, root: &Pair) -> io::Result<Process> {
    // What an earlier one said is of no interest.
    let log = folder.join("log");
    File::create(&log)?;
    let below = |name: &str| folder.join(name).display().to_string();
    let args = [
        "--quiet".to_owned(),
        "--keep-alive".to_owned(),
        "--iam-cache-disable".to_owned(),
        format!("--region={}", super::REGION),
        format!("--port=127.0.0.1:{port}"),
        format!("--iam-dir={}", below("iam")),
        "posix".to_owned(),
        format!("--versioning-dir={}", below("versions")),
        below("data"),
    ];
    let keys = [
        ("ROOT_ACCESS_KEY_ID", root.access_key.as_str()),
        ("ROOT_SECRET_ACCESS_KEY", root.secret.as_str()),
    ];
    Process::start_with(program, &args, &keys, &log)
}
