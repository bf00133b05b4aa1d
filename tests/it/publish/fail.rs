//! Imports that fail, each of the three ways that a cloud may have, and mixed results.

use std::time::Duration;

use capvco::sim::World;
use capvco::sim::rules::FailedImport;
use capvco::sim::world::Status;

use super::{BE, NL, image, images, md5, only, other_image, publish, results, server};
use crate::support::cloud::cloud;
use crate::support::scripted::{Answer, Scripted};

async fn failing(
    test: &str,
    rule: FailedImport,
    more: &str,
) -> (capvco::sim::Sim, crate::support::program::Done) {
    let mut world = World::small();
    world.rules.failed_import = rule;
    world.rules.import_time = Duration::from_millis(200);
    world.site(BE).imports_fail = true;
    let sim = cloud(test, world).await;
    let server = server(&[]).await;
    let more = format!("-locations {BE} -output json {more}");
    let done = publish(&sim, &server, "/k8s.qcow2", &more).await;
    (sim, done)
}

#[tokio::test]
async fn a_failed_import_is_cleaned_up() {
    let (sim, done) = failing("publish-error", FailedImport::Error, "").await;
    let done = done.expect(1).says("the import failed: image 101 is ERROR");
    let row = done.json()["results"][0].clone();
    assert_eq!(
        (row["result"].as_str(), row["image_id"].is_null()),
        (Some("failed"), true),
        "{row}"
    );
    assert!(images(&sim, BE).is_empty(), "our own record was removed");
}

#[tokio::test]
async fn one_that_vanishes_left_nothing() {
    let (sim, done) = failing("publish-vanish", FailedImport::Vanishes, "").await;
    done.expect(1).says("the import failed: image 101 vanished");
    assert!(images(&sim, BE).is_empty());
}

#[tokio::test]
async fn one_that_stays_creating_runs_out_of_time_and_is_listed() {
    let (sim, done) = failing("publish-stays", FailedImport::StaysCreating, "-timeout 2s").await;
    let done = done.expect(5).says("-timeout (2 s) ran out; image 101 is in flight (CREATING)");
    let row = done.json()["results"][0].clone();
    assert_eq!((row["result"].as_str(), row["image_id"].as_u64()), (Some("failed"), Some(101)));
    assert_eq!(images(&sim, BE)[0].status, Status::Creating);
}

#[tokio::test]
async fn a_record_that_may_not_be_removed_is_left_behind_and_listed() {
    let mut world = World::small();
    world.rules.delete_failed = false;
    world.site(BE).imports_fail = true;
    let sim = cloud("publish-stuck", world).await;
    let server = server(&[]).await;
    let done = publish(&sim, &server, "/k8s.qcow2", &format!("-locations {BE}")).await.expect(5);
    done.says("its record could not be removed").says("left behind: image 101");
    assert_eq!(images(&sim, BE)[0].status, Status::Error);
}

#[tokio::test]
async fn a_wrong_md5_is_enforced_by_the_cloud() {
    let sim = cloud("publish-wrong-md5", World::small()).await;
    let server = server(&[]).await;
    let more = format!("-locations {BE} -md5 {}", md5(&other_image()));
    let done = publish(&sim, &server, "/k8s.qcow2", &more).await.expect(1);
    done.says("the import failed").says("it was told to expect the MD5");
    assert!(images(&sim, BE).is_empty());
}

#[tokio::test]
async fn a_redirect_that_the_cloud_refuses_is_explained() {
    let sim = cloud("publish-redirect", World::small()).await;
    let server = Scripted::start(|asked, _| match asked.path.as_str() {
        "/latest" => Answer::redirect("/k8s.qcow2"),
        "/signed" => Answer::redirect("/k8s.qcow2?X-Amz-Signature=secret"),
        path if path.starts_with("/k8s.qcow2")
            && !path.contains("sum")
            && !path.contains(".md5")
            && !path.contains(".sha")
            && !path.contains("CHECK") =>
        {
            Answer::file(asked, &image())
        }
        _ => Answer::status("404 Not Found").with("Content-Length", 0),
    })
    .await;
    let done = publish(&sim, &server, "/latest", &format!("-locations {BE}")).await.expect(1);
    done.says(&format!("try -url {}", server.url("/k8s.qcow2")));
    let done = publish(&sim, &server, "/signed", &format!("-locations {BE}")).await.expect(1);
    assert!(!done.err.contains("secret") && !done.out.contains("secret"), "{}", done.err);
    done.says("publish from one that does not redirect");
    assert!(images(&sim, BE).is_empty());
    sim.world(|world| world.rules.redirects = 5);
    publish(&sim, &server, "/latest", &format!("-locations {BE}")).await.expect(0);
}

#[tokio::test]
async fn mixed_results_have_one_exit_code() {
    let mut world = World::small();
    world.site(NL).imports_fail = true;
    let sim = cloud("publish-mixed", world).await;
    let server = server(&[]).await;
    let more = "-locations all -output json";
    let done = publish(&sim, &server, "/k8s.qcow2", more).await.expect(1);
    assert_eq!(
        results(&done),
        "be-mac-dc01-001:created nl-rmd-dc01-001:failed qt-gen-dc01-003:created"
    );
    only(&sim, BE);
    sim.world(|world| world.site(NL).imports_fail = false);
    let done = publish(&sim, &server, "/k8s.qcow2", more).await.expect(0);
    assert_eq!(
        results(&done),
        "be-mac-dc01-001:unchanged nl-rmd-dc01-001:created qt-gen-dc01-003:unchanged"
    );
}
