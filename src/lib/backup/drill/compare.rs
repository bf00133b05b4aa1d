//! Whether the restored etcd holds what the backup held, and takes a write.
//!
//! Compared is the state at the backup's revision: leases go on running in a restored etcd, and
//! some keys of a control plane live for seconds only, so that newer revisions may come by
//! themselves.

use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use tokio::task::spawn_blocking;

use super::report::Row;
use crate::backup::Error;
use crate::disk;
use crate::etcd::Client;
use crate::etcd::db::{Db, Summary};

/// What is written to prove that it can be.
const KEY: &str = "/capvco-backup/drill";
/// How long the snapshot of a throw-away etcd on this machine may stand still.
const IDLE: Duration = Duration::from_mins(1);

/// What the backup holds.
#[derive(Debug)]
pub struct Expected {
    /// Its figures.
    pub summary: Summary,
    /// Rows of its history, and their hash.
    pub history: (u64, u32),
}

/// Asks the restored etcd, a row a question.
///
/// # Errors
/// It does not answer.
pub async fn compare(
    client: &Client,
    expected: &Expected,
    folder: &Path,
) -> Result<Vec<Row>, Error> {
    let asked = || Error::doing("the restored etcd does not answer");
    // As etcd counts: one that never held a key is at revision 1.
    let revision = expected.summary.current_revision().max(1);
    let status = client.status().await.map_err(asked())?;
    let mut rows = vec![revisions(revision, status.revision)];
    let keys = client.count_keys(revision).await.map_err(asked())?;
    rows.push(Row::compared("keys", expected.summary.live_keys, keys));
    rows.push(history(client, expected, revision, folder).await?);
    client.put(KEY, "written").await.map_err(asked())?;
    let read = client.get(KEY).await.map_err(asked())?;
    rows.push(match read.as_deref() {
        Some(b"written") => Row::good("write", format!("{KEY} was written and read again")),
        _ => Row::bad("write", format!("{KEY} was written and is not there")),
    });
    Ok(rows)
}

fn revisions(expected: i64, found: i64) -> Row {
    match found - expected {
        0 => Row::good("revision", found.to_string()),
        // Leases that ran out.
        1.. => Row::good("revision", format!("{expected}, and {} since", found - expected)),
        _ => Row::bad("revision", format!("{found} instead of {expected}")),
    }
}

/// A snapshot of the restored etcd has the very same history.
async fn history(
    client: &Client,
    expected: &Expected,
    revision: i64,
    folder: &Path,
) -> Result<Row, Error> {
    let path = folder.join("again.db");
    take(client, &path).await?;
    let read = spawn_blocking(move || {
        let found = Db::open(&path).and_then(|db| db.history(revision));
        // It may be large, and was only wanted for this.
        let _ = std::fs::remove_file(&path);
        found
    });
    let found = read.await.unwrap_or_else(|bug| std::panic::resume_unwind(bug.into_panic()));
    let found = found.map_err(Error::doing("the restored etcd's own snapshot is damaged"))?;
    let told = |(rows, hash): (u64, u32)| format!("{rows} rows, hash {hash:08x}");
    if found == expected.history {
        return Ok(Row::good("history", told(found)));
    }
    let (is, was) = (told(found), told(expected.history));
    if expected.summary.compacting {
        // Rows that were about to go when the backup was made are gone now.
        return Ok(Row::skipped(
            "history",
            format!("{is}; {was} before a compaction was finished"),
        ));
    }
    Ok(Row::bad("history", format!("{is} instead of {was}")))
}

async fn take(client: &Client, path: &Path) -> Result<(), Error> {
    let doing = || Error::doing("the restored etcd gives no snapshot");
    let written = |error| Error::file("write", path, error);
    let mut file = disk::create(path).map_err(written)?;
    let mut stream = client.snapshot(IDLE).await.map_err(doing())?;
    while let Some(piece) = stream.next().await.map_err(doing())? {
        file.write_all(&piece).map_err(written)?;
    }
    Ok(())
}
