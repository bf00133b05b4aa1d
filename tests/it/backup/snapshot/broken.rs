//! What breaks on the way: etcd, the store, this program. No run that fails leaves a backup, a
//! part, or a word that it went well.

use std::time::Duration;

use super::{Desk, named, objects, row, signal, unfinished, until_so};
use crate::support::bolt::{self, Layout};
use crate::support::front::{Asked, Fault, Front};
use crate::support::liar::{Act, Liar, whole};
use crate::support::peers::etcd::Etcd;
use crate::support::peers::fill::Values;
use crate::support::peers::s3::{BUCKET, S3, Versitygw};
use crate::support::program::finish;

/// More than what lies between etcd and a store that takes nothing.
const MUCH: (usize, usize) = (2200, 32 << 10);

fn nothing_is_left(s3: &S3) {
    assert_eq!((objects(s3), unfinished(s3)), (Vec::new(), 0));
}

/// A store that takes parts and never answers.
async fn stuck(s3: &S3) -> (S3, std::sync::Arc<Front>) {
    let front = Front::start(s3.endpoint(), |asked, _| match asked.operation() {
        "UploadPart" => Fault::Hang,
        _ => Fault::Pass,
    });
    let front = std::sync::Arc::new(front.await);
    (s3.behind(&front), front)
}

/// A store that takes parts slowly.
async fn slow(s3: &S3) -> (S3, std::sync::Arc<Front>) {
    let front = Front::start(s3.endpoint(), |asked, _| match asked.operation() {
        "UploadPart" => Fault::Slowly(1 << 20, Duration::from_millis(100)),
        _ => Fault::Pass,
    });
    let front = std::sync::Arc::new(front.await);
    (s3.behind(&front), front)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_lies_is_no_backup() {
    let (desk, s3) = (Desk::new(), Versitygw::start());
    let data = vec![7; 64 << 10];
    let good = whole(&data, 32 << 10);
    let changed = |at: usize, act: Act| {
        let mut acts = good.clone();
        acts[at] = act;
        acts
    };
    for (acts, text) in [
        (changed(1, Act::Send(0, vec![])), "stopped reading its own database"),
        (changed(1, Act::Send(5, vec![7; 32 << 10])), "the count of what remains is wrong"),
        (changed(2, Act::Send(0, vec![0; 32])), "SHA-256 does not fit"),
        (good[..2].to_vec(), "its checksum is missing"),
        (good[..1].to_vec(), "it ended early"),
        ([&good[..], &[Act::Send(0, vec![1])]].concat(), "something follows its checksum"),
        (changed(1, Act::Drop), "the connection broke"),
        (changed(1, Act::Hang), "no byte came for 1 s"),
        (changed(1, Act::Status(14, "stopping")), "the member cannot serve now"),
        // Everything fits, and it is no database.
        (good.clone(), "no etcd database"),
    ] {
        let liar = Liar::start(acts).await;
        let program = desk.of(&liar.endpoint(), &s3).words("--idle-timeout 1s --lock none");
        program.run().await.expect(4).says("no backup was made").says(text);
        nothing_is_left(&s3);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_killed_on_the_way_is_no_backup() {
    let (desk, s3, mut etcd) = (Desk::new(), Versitygw::start(), Etcd::start());
    etcd.fill(MUCH.0, MUCH.1, Values::Random);
    let (store, front) = slow(&s3).await;
    let child = desk.snapshot(&etcd, &store).spawn();
    until_so("parts are under way", move || front.count("UploadPart") >= 2).await;
    etcd.kill();
    finish(child).await.expect(4).says("no backup was made").says("the connection broke");
    nothing_is_left(&s3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_stands_still_is_given_up() {
    let (desk, s3, etcd) = (Desk::new(), Versitygw::start(), Etcd::start());
    etcd.fill(MUCH.0, MUCH.1, Values::Random);
    let (store, front) = slow(&s3).await;
    let child = desk.snapshot(&etcd, &store).words("--idle-timeout 1s").spawn();
    until_so("parts are under way", move || front.count("UploadPart") >= 2).await;
    etcd.pause();
    let done = finish(child).await.expect(4);
    done.says("no backup was made").says("no byte came for 1 s");
    nothing_is_left(&s3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_stalls_is_told_and_then_given_up() {
    let (desk, s3, etcd) = (Desk::new(), Versitygw::start(), Etcd::start());
    etcd.fill(MUCH.0, MUCH.1, Values::Random);
    let (store, _front) = stuck(&s3).await;
    let done = desk.snapshot(&etcd, &store).words("--stall-timeout 8s").run().await.expect(4);
    done.says("etcd has to wait").says("no backup was made");
    nothing_is_left(&s3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stall_that_passes_is_no_failure_and_one_that_the_queue_holds_is_not_even_told() {
    let (desk, s3, etcd) = (Desk::new(), Versitygw::start(), Etcd::start());
    etcd.fill(900, 32 << 10, Values::Random);
    let slow = Front::start(s3.endpoint(), |asked, _| match asked.operation() {
        "UploadPart" => Fault::Slowly(8 << 20, Duration::from_secs(7)),
        _ => Fault::Pass,
    });
    let slow = slow.await;
    let done = desk.snapshot(&etcd, &s3.behind(&slow)).run().await.expect(0);
    assert!(!done.err.contains("etcd has to wait"), "{}", done.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_dies_on_the_way_is_told() {
    let (desk, mut s3, etcd) = (Desk::new(), Versitygw::start(), Etcd::start());
    etcd.fill(MUCH.0, MUCH.1, Values::Random);
    let (store, front) = slow(&s3).await;
    let child = desk.snapshot(&etcd, &store).words("--stall-timeout 2s").spawn();
    until_so("parts are under way", move || front.count("UploadPart") >= 2).await;
    s3.peer.kill();
    let done = finish(child).await.expect(5).says("no backup was made");
    done.says("left in the bucket: an unfinished upload").says("prune");
    s3.restart();
    assert_eq!((objects(&s3).len(), unfinished(&s3)), (0, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_passes_is_ridden_out() {
    let (desk, s3, etcd) = (Desk::new(), Versitygw::start(), Etcd::start());
    etcd.fill(900, 32 << 10, Values::Random);
    let rough = Front::start(s3.endpoint(), |asked, before| match (asked.operation(), before) {
        (_, 0) => Fault::Refuse(503, "SlowDown"),
        ("UploadPart", 2) => Fault::ResetAfter(100_000),
        ("UploadPart", 4) | ("CompleteMultipartUpload", 1) => Fault::LoseReply,
        ("UploadPart", 5) => Fault::Refuse(500, "InternalError"),
        _ => Fault::Pass,
    });
    let rough = rough.await;
    let done = desk.snapshot(&etcd, &s3.behind(&rough)).run().await.expect(0);
    assert_eq!(row(&done)["outcome"], "stored");
    assert_eq!((named(&s3, "data-").len(), unfinished(&s3)), (1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_of_any_call_is_told_and_leaves_nothing_unsaid() {
    let (desk, s3, etcd) = (Desk::new(), Versitygw::start(), Etcd::start());
    etcd.fill(600, 32 << 10, Values::Random);
    for (operation, code) in [
        ("CreateMultipartUpload", 3),
        ("UploadPart", 3),
        ("CompleteMultipartUpload", 3),
        ("PutObject", 5),
        ("GetObjectLockConfiguration", 0),
        ("HeadObject", 0),
        ("GetObject", 0),
    ] {
        let refuse = move |asked: &Asked, _: usize| match asked.operation() {
            refused if refused == operation => Fault::Refuse(403, "AccessDenied"),
            _ => Fault::Pass,
        };
        let front = Front::start(s3.endpoint(), refuse).await;
        let done = desk.snapshot(&etcd, &s3.behind(&front)).run().await.expect(code);
        assert_eq!(unfinished(&s3), 0, "{operation}");
        if code != 0 {
            let done = done.says("hint:");
            let listed = operation == "PutObject";
            assert_eq!(done.out.contains("data-"), listed, "{operation}: {}", done.out);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn data_without_a_manifest_is_removed_where_it_may_be() {
    let (desk, s3, etcd) = (Desk::new(), Versitygw::start(), Etcd::start());
    let front = Front::start(s3.endpoint(), |asked, _| {
        let manifest = asked.path.contains("/manifest.json");
        if manifest { Fault::Refuse(503, "ServiceUnavailable") } else { Fault::Pass }
    });
    let broken = s3.behind(&front.await);
    let open = desk.unlocked(&etcd, &broken).words("--lock none --stall-timeout 1s");
    let done = open.run().await.expect(4).says("without which there is no backup");
    assert_eq!(row(&done)["outcome"], "failed");
    nothing_is_left(&s3);
    let locked = desk.snapshot(&etcd, &broken).words("--stall-timeout 1s").run().await.expect(5);
    let row = row(&locked);
    assert!(row["left"][0].as_str().unwrap().contains("locked until"), "{row}");
    assert_eq!((named(&s3, "data-").len(), named(&s3, "manifest.json").len()), (1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_stopped_takes_its_parts_and_its_claim_along() {
    let (desk, s3, etcd) = (Desk::new(), Versitygw::start(), Etcd::start());
    etcd.fill(MUCH.0, MUCH.1, Values::Random);
    let (store, front) = stuck(&s3).await;
    let path = desk.path("copy");
    let program = desk.snapshot(&etcd, &store).words("--slot 24h");
    let child = program.arg("--out").arg(&path).spawn();
    until_so("parts are under way", move || front.count("UploadPart") >= 2).await;
    signal(&child, "TERM");
    finish(child).await.expect(1).says("interrupted before the backup was whole");
    assert_eq!((named(&s3, "data-").len(), unfinished(&s3)), (0, 0));
    let claim = super::json_of(&s3, &desk, &named(&s3, "claim.json")[0]);
    assert_eq!(claim["released"], true);
    assert!(!path.exists() && !desk.path("copy.part").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_the_bucket_or_the_keys_is_told_before_etcd_is_read() {
    let (desk, s3, etcd) = (Desk::new(), Versitygw::start(), Etcd::start());
    let nobody = s3.with_key("nobody", "secret");
    let wrong = s3.with_key(s3.access_key(), "wrong");
    for (store, words, code, text) in [
        (&*s3, "--s3-bucket nosuchbucket", 3, "nosuchbucket"),
        (&nobody, "", 3, "does not know this access key id"),
        (&wrong, "", 3, "secret access key is not that of the key id"),
        (&*s3, "--s3-region mars-1", 2, "another region"),
    ] {
        let done = desk.unlocked(&etcd, store).words(words).run().await.expect(code);
        assert!(done.err.contains(text), "{words}: {}", done.err);
        assert!(done.err.contains("hint:") && !done.err.contains("streaming"), "{}", done.err);
    }
    nothing_is_left(&s3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_does_not_show_its_revision_in_passing_is_a_backup_all_the_same() {
    let (desk, s3) = (Desk::new(), Versitygw::start());
    // Ten buckets in a tree of three storeys.
    let layout = Layout { fanout: 2, ..Layout::of(4096) };
    let file = layout.write(&bolt::etcd(bolt::history([("a", Some(vec![1]))]), "3.6.0"));
    let liar = Liar::start(whole(&file, 32 << 10)).await;
    let done = desk.of(&liar.endpoint(), &s3).words("--lock none").run().await.expect(0);
    let row = row(&done);
    assert_eq!((&row["outcome"], &row["revision"]), (&"stored".into(), &7.into()), "its word");
    done.says("does not show its revision in passing").says("verify");
}

/// Whether the request belongs to this stage of a run.
fn is_of(asked: &Asked, stage: &str) -> bool {
    match stage {
        "claim" => asked.path.contains("/claim.json") && asked.method == "PUT",
        "manifest" => asked.path.contains("/manifest.json") && asked.method == "PUT",
        operation => asked.operation() == operation,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_killed_at_any_stage_is_taken_over_and_swept_up_after() {
    let (desk, etcd) = (Desk::new(), Etcd::start());
    etcd.fill(600, 32 << 10, Values::Random);
    let stages = ["claim", "CreateMultipartUpload", "UploadPart", "CompleteMultipartUpload"];
    for stage in stages.into_iter().chain(["manifest"]) {
        let s3 = Versitygw::start();
        let front = Front::start(s3.endpoint(), move |asked, _| {
            if is_of(asked, stage) { Fault::Hang } else { Fault::Pass }
        });
        let front = std::sync::Arc::new(front.await);
        let words = "--slot 24h --lock none --claim-age 10s";
        let mut child = desk.unlocked(&etcd, &s3.behind(&front)).words(words).spawn();
        let seen = std::sync::Arc::clone(&front);
        until_so(stage, move || seen.asked().iter().any(|asked| is_of(asked, stage))).await;
        child.kill().unwrap();
        child.wait().unwrap();

        let next = desk.unlocked(&etcd, &s3).words(words).run().await.expect(0);
        assert_eq!(row(&next)["outcome"], "stored", "{stage}");
        super::super::prune::grow_old(&s3.data_dir(), 25);
        // A manifest that was stored before it was made does not count.
        let manifest = s3.data_dir().join(BUCKET).join(&named(&s3, "manifest.json")[0]);
        let manifest = std::fs::File::open(manifest).unwrap();
        manifest.set_modified(std::time::SystemTime::now()).unwrap();
        let sweep = crate::support::program::backup_at(&s3).words("prune --keep-last 1");
        let swept = sweep.run().await.expect(0);
        let left = (named(&s3, "data-").len(), named(&s3, "manifest.json").len(), unfinished(&s3));
        assert_eq!(left, (1, 1, 0), "{stage}: {}", swept.out);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_is_wrong_is_told_and_the_servers_counts() {
    let (desk, s3, etcd) = (Desk::new(), Versitygw::start(), Etcd::start());
    let there = jiff::Timestamp::now() + jiff::SignedDuration::from_mins(10);
    let date = there.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
    let front = Front::start(s3.endpoint(), move |_, _| Fault::Dated(date.clone()));
    let done = desk.snapshot(&etcd, &s3.behind(&front.await)).run().await.expect(0);
    let until = row(&done)["lockedUntil"].as_str().unwrap().to_owned();
    let until: jiff::Timestamp = until.parse().unwrap();
    let off = (until - there).total(jiff::Unit::Second).unwrap() - 86_400.0;
    assert!((-5.0..60.0).contains(&off), "a day from the server's now, not ours: {off} s");
    done.says("s behind the S3 server's");
}

#[tokio::test(flavor = "multi_thread")]
async fn replies_that_are_all_lost_make_one_backup_and_no_second_copy() {
    let (desk, etcd) = (Desk::new(), Etcd::start());
    let large = |etcd: &Etcd| etcd.fill(600, 32 << 10, Values::Random);
    for (filled, operation) in [(false, "PutObject"), (true, "CompleteMultipartUpload")] {
        if filled {
            large(&etcd);
        }
        let s3 = Versitygw::start();
        let front = Front::start(s3.endpoint(), move |asked, _| {
            if asked.operation() == operation { Fault::LoseReply } else { Fault::Pass }
        });
        let done = desk.snapshot(&etcd, &s3.behind(&front.await)).run().await.expect(0);
        assert_eq!(row(&done)["outcome"], "stored", "{operation}");
        assert!(row(&done)["versionId"].is_string(), "{operation}: {}", done.out);
        let args = ["s3api", "list-object-versions", "--bucket", BUCKET];
        let listed: serde_json::Value = serde_json::from_str(&s3.aws(&args).expect(0).out).unwrap();
        let versions = listed["Versions"].as_array().unwrap();
        assert_eq!((versions.len(), unfinished(&s3)), (2, 0), "data and manifest: {versions:?}");
        let list = crate::support::program::backup_at(&s3).words("list -output json");
        assert_eq!(row(&list.run().await.expect(0))["state"], "good", "{operation}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_may_be_left_where_no_reply_comes_is_told() {
    let (desk, s3, etcd) = (Desk::new(), Versitygw::start(), Etcd::start());
    for (lost, words) in [("/data-", "data-"), ("/manifest.json", "manifest.json")] {
        // Nothing can be asked after it either.
        let front = Front::start(s3.endpoint(), move |asked, _| {
            let about = asked.path.contains(lost);
            match asked.method.as_str() {
                "PUT" if about => Fault::LoseReply,
                "HEAD" | "GET" if about => Fault::Refuse(503, "ServiceUnavailable"),
                _ => Fault::Pass,
            }
        });
        let front = s3.behind(&front.await);
        let run = desk.snapshot(&etcd, &front).words("--stall-timeout 2s");
        let done = run.run().await.expect(5).says("left in the bucket: ").says("no reply says");
        let left = row(&done)["left"].to_string();
        assert!(left.contains(words), "{left}");
    }
    // Its manifest may be there: the data is not taken from under it.
    let list = crate::support::program::backup_at(&s3).words("list -output json");
    let rows = list.run().await.expect(0).json()["results"].as_array().unwrap().clone();
    assert!(rows.iter().any(|row| row["state"] == "good"), "{rows:?}");
}
