//! Memory has a bound, whatever the database's size and however slow the store.

use std::time::Duration;

use super::{Desk, row};
use crate::support::front::{Fault, Front};
use crate::support::peers::etcd::Etcd;
use crate::support::peers::fill::Values;
use crate::support::peers::s3::Versitygw;
use crate::support::program::finish;

/// What the program may hold at most, in KiB: the 96 MiB that are promised, without the pages of
/// its own file. Those are a third of the whole here and a tenth in a release, whose whole memory
/// `make bench` holds against the promise.
const MOST: u64 = 76 << 10;

/// What a process holds at this moment, in KiB, without the pages of files.
fn held(id: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    line.trim().trim_end_matches(" kB").parse().ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_database_into_a_slow_store_takes_no_more_memory_than_allowed() {
    let (desk, s3, etcd) = (Desk::new(), Versitygw::start(), Etcd::start());
    etcd.fill(7000, 32 << 10, Values::Random);
    let slow = Front::start(s3.endpoint(), |asked, _| match asked.operation() {
        "UploadPart" => Fault::Slowly(2 << 20, Duration::from_millis(50)),
        _ => Fault::Pass,
    });
    let slow = slow.await;
    let child = desk.snapshot(&etcd, &s3.behind(&slow)).spawn();
    let id = child.id();
    let watch = tokio::task::spawn_blocking(move || {
        let mut most = 0;
        while let Some(now) = held(id) {
            most = now.max(most);
            std::thread::sleep(Duration::from_millis(5));
        }
        most
    });
    let row = row(&finish(child).await.expect(0));
    let most = watch.await.unwrap();
    assert!(row["storedSize"].as_u64().unwrap() > 200 << 20, "{row}");
    assert!((8 << 10..MOST).contains(&most), "{most} KiB, {MOST} are allowed");
}
