//! Stopped at any moment: nothing has changed, and the next run clears what is left.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::{Lab, looked_at, names, restored, start};
use crate::support::front::{Fault, Front};
use crate::support::peers::until;
use crate::support::program::{Program, finish};

/// So slow that a test has time to stop it.
fn slowly(lab: &Lab, data_dir: &Path) -> Program {
    lab.restore().words("--limit-rate 64KiB").arg("--data-dir").arg(data_dir)
}

fn signal(name: &str, id: u32) {
    let sent = Command::new("kill").args(["-s", name, &id.to_string()]).status();
    assert!(sent.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_ends_it_with_everything_as_it_was() {
    let lab = Lab::new("3.6").await;
    let place = lab.desk.path("place");
    std::fs::create_dir_all(place.join("etcd/member")).unwrap();
    for name in ["TERM", "INT"] {
        let child = slowly(&lab, &place.join("etcd")).spawn();
        let staged = place.join(".etcd.capvco-restore/staged.db");
        assert!(until(Duration::from_mins(1), || staged.exists()), "it begins");
        signal(name, child.id());
        finish(child).await.expect(1).says("interrupted before anything was changed");
        assert_eq!(names(&place), ["etcd"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_killed_run_left_is_cleared_by_the_next_and_two_never_meet() {
    let lab = Lab::new("3.6").await;
    let place = lab.desk.path("place");
    std::fs::create_dir(&place).unwrap();
    let data_dir = place.join("etcd");
    let mut child = slowly(&lab, &data_dir).spawn();
    let staged = place.join(".etcd.capvco-restore/staged.db");
    assert!(until(Duration::from_mins(1), || staged.exists()), "it begins");
    let second = lab.restore().arg("--data-dir").arg(&data_dir).run().await.expect(3);
    second.says("another restore is at work");
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(names(&place), [".etcd.capvco-restore"]);
    restored(lab.restore().arg("--data-dir").arg(&data_dir).run().await);
    assert_eq!(names(&place), ["etcd"]);
    assert_eq!(looked_at(&start("3.6", &data_dir)).1, 300);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_fails_on_the_way_changes_nothing() {
    let lab = Lab::new("3.6").await;
    let place = lab.desk.path("place");
    std::fs::create_dir(&place).unwrap();
    for (fault, code) in
        [(Fault::Refuse(403, "AccessDenied"), 3), (Fault::Refuse(503, "SlowDown"), 4)]
    {
        let front = Front::start(lab.s3.endpoint(), move |asked, _| {
            let data = asked.operation() == "GetObject" && asked.path.contains("/data-");
            if data { fault.clone() } else { Fault::Pass }
        });
        let s3 = lab.s3.behind(&front.await);
        let restore = super::from_bucket(&lab.desk, &s3).words("--stall-timeout 2s --data-dir");
        let done = restore.arg(place.join("etcd")).run().await;
        assert_eq!(done.code, code, "{}", done.err);
        assert_eq!(names(&place), Vec::<String>::new(), "{}", done.err);
    }
}
