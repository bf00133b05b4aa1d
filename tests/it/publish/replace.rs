//! `-replace`: the new image first, the old one last, and never one that is needed or not ours.

use std::time::Duration;

use capvco::sim::{Sim, World};

use super::{BE, calls, image, images, only, other_image, publish, results, server, sha256};
use crate::support::cloud::cloud;
use crate::support::scripted::Scripted;

/// A cloud in which the first image is published, and the words that put the other in its place.
async fn old_and_new(test: &str, world: World) -> (Sim, Scripted, u64, String) {
    let sim = cloud(test, world).await;
    let server = server(&[]).await;
    let first = format!("-locations {BE} -sha256 {}", sha256(&image()));
    publish(&sim, &server, "/k8s.qcow2", &first).await.expect(0);
    let old = only(&sim, BE).image_id;
    let words = format!("-locations {BE} -sha256 {} -replace -output json", sha256(&other_image()));
    (sim, server, old, words)
}

#[tokio::test]
async fn the_new_image_is_usable_before_the_old_one_goes() {
    let mut world = World::small();
    world.rules.import_time = Duration::from_millis(300);
    let (sim, server, old, words) = old_and_new("publish-replace", world).await;
    let done = publish(&sim, &server, "/other.qcow2", &words).await.expect(0);
    assert_eq!(results(&done), format!("{BE}:replaced"));
    let new = only(&sim, BE);
    assert!(new.image_id > old && new.tags.contains(&sha256(&other_image())));
    let journal = sim.journal();
    let place = |method: &str, end: String| {
        journal.iter().rposition(|e| e.method == method && e.path.ends_with(&end)).unwrap()
    };
    let usable = place("GET", format!("/vm-images/{}", new.image_id));
    assert!(usable < place("DELETE", format!("/vm-images/{old}")), "the old one goes last");
    let again = publish(&sim, &server, "/other.qcow2", &words).await.expect(0);
    assert_eq!(results(&again), format!("{BE}:unchanged"), "-replace is idempotent too");
}

#[tokio::test]
async fn it_is_refused_while_vms_need_the_old_one() {
    let (sim, server, old, words) = old_and_new("publish-replace-used", World::small()).await;
    sim.world(|world| world.add_vm(BE, old, "node-1"));
    let done = publish(&sim, &server, "/other.qcow2", &words).await.expect(3);
    done.says("cannot be replaced while VMs need it: node-1");
    assert_eq!(only(&sim, BE).image_id, old);
    assert_eq!(calls(&sim, "POST", "/vm-images"), 1);
}

#[tokio::test]
async fn where_names_are_unique_the_old_one_stays_untouched() {
    let mut world = World::small();
    world.rules.unique_names = true;
    let (sim, server, old, words) = old_and_new("publish-replace-unique", world).await;
    let done = publish(&sim, &server, "/other.qcow2", &words).await.expect(3);
    done.says("the cloud refuses a second image named").says("was left untouched");
    assert_eq!(only(&sim, BE).image_id, old);
    assert_eq!(calls(&sim, "DELETE", ""), 0);
}

#[tokio::test]
async fn an_old_one_that_cannot_go_is_left_behind_and_listed() {
    let (sim, server, old, words) = old_and_new("publish-replace-stuck", World::small()).await;
    sim.fault("deleteCustomerImage=409*inf".parse().unwrap());
    let done = publish(&sim, &server, "/other.qcow2", &words).await.expect(5);
    let row = done.json()["results"][0].clone();
    assert_eq!(row["result"], "failed");
    let new = images(&sim, BE)[1].image_id;
    assert_eq!(row["image_id"], new, "the new one is usable");
    done.says(&format!("left behind: image {old}"));
    sim.no_faults();
    let done = publish(&sim, &server, "/other.qcow2", &words).await.expect(0);
    assert_eq!(results(&done), format!("{BE}:replaced"), "the same command ends the job");
    assert_eq!(only(&sim, BE).image_id, new);
}

#[tokio::test]
async fn a_failed_replacement_leaves_the_old_one() {
    let (sim, server, old, words) = old_and_new("publish-replace-failed", World::small()).await;
    sim.world(|world| world.site(BE).imports_fail = true);
    publish(&sim, &server, "/other.qcow2", &words).await.expect(1).says("the import failed");
    assert_eq!(only(&sim, BE).image_id, old);
}
