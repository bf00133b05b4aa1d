//! A database above 2 GiB: its lengths and positions need more than 31 bits.

use super::{from_bucket, looked_at, restored};
use crate::backup::snapshot::{Desk, row};
use crate::support::peers::etcd::Etcd;
use crate::support::peers::fill::Values;
use crate::support::peers::s3::Versitygw;

const TWO_GIB: u64 = 2 << 30;

#[tokio::test(flavor = "multi_thread")]
async fn a_database_above_two_gib_comes_back_whole() {
    let (desk, s3) = (Desk::new(), Versitygw::start());
    let built = Etcd::builder().line("3.6").arg("--quota-backend-bytes=8589934592");
    // It need not remember in memory and in its log what it has been told.
    let built = built.arg("--snapshot-count=100").arg("--snapshot-catchup-entries=10");
    let etcd = built.arg("--max-wals=1").start();
    etcd.fill(2100, 1 << 20, Values::Compressible);
    let taken = row(&desk.snapshot(&etcd, &s3).run().await.expect(0));
    assert!(taken["dbSize"].as_u64().unwrap() > TWO_GIB, "{taken}");
    let before = looked_at(&etcd);
    drop(etcd);

    let data_dir = desk.path("etcd");
    let restore = from_bucket(&desk, &s3).words("--bump-revision 0 --data-dir").arg(&data_dir);
    let row = restored(restore.run().await);
    assert_eq!(row["dbSize"], taken["dbSize"]);
    assert_eq!(row["liveKeys"], 2100);
    let again = Etcd::builder().line("3.6").arg("--quota-backend-bytes=8589934592");
    let again = again.data_dir(&data_dir).start();
    assert_eq!(looked_at(&again), before);
    again.etcdctl(&["put", "one", "more"]);
}
