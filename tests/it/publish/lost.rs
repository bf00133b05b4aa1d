//! A cloud that loses replies, answers nonsense or is tired: never a second image, never a
//! wrong word.

use std::time::Duration;

use capvco::sim::World;

use super::{BE, NL, images, only, publish, results, server, slow_cloud};
use crate::support::cloud::cloud;

/// Publishes to one location while these faults happen; returns result word and exit code.
async fn under(test: &str, faults: &[&str], more: &str) -> (capvco::sim::Sim, String, i32) {
    let mut world = World::small();
    world.rules.import_time = Duration::from_millis(200);
    let sim = cloud(test, world).await;
    for fault in faults {
        sim.fault(fault.parse().unwrap());
    }
    let server = server(&[]).await;
    let more = format!("-locations {BE} -output json {more}");
    let done = publish(&sim, &server, "/k8s.qcow2", &more).await;
    let result = if done.out.is_empty() { done.err.clone() } else { results(&done) };
    assert!(!result.contains("failed") || done.err.contains("error: "), "{}", done.err);
    (sim, result, done.code)
}

#[tokio::test]
async fn a_create_whose_reply_is_lost_makes_one_image() {
    let short = "--cloud-write-timeout 1s";
    for fault in ["lost-reply", "kill-after", "500-after", "503-after", "hang-after", "cut-json"] {
        let spec = format!("createCustomerImage={fault}");
        let (sim, word, code) = under("publish-lost", &[&spec], short).await;
        assert_eq!((word.as_str(), code), ("be-mac-dc01-001:created", 0), "{fault}");
        only(&sim, BE);
    }
}

#[tokio::test]
async fn a_create_that_did_not_happen_is_sent_again() {
    let short = "--cloud-write-timeout 1s -retry-for 20s";
    for fault in ["kill-before", "500", "503", "hang", "429", "429:1*2", "html-400", "html-page"] {
        let spec = format!("createCustomerImage={fault}");
        let (sim, word, code) = under("publish-again", &[&spec], short).await;
        assert_eq!((word.as_str(), code), ("be-mac-dc01-001:created", 0), "{fault}");
        only(&sim, BE);
    }
}

#[tokio::test]
async fn a_create_that_worked_twice_is_folded() {
    // The list lags behind, so that the lost create is not seen and a second one is sent.
    let faults = ["createCustomerImage=lost-reply", "listCustomerImages#2=stale-list*5"];
    let (sim, word, code) = under("publish-twice", &faults, "").await;
    assert_eq!((word.as_str(), code), ("be-mac-dc01-001:created", 0));
    only(&sim, BE);
    assert_eq!(super::calls(&sim, "POST", "/vm-images"), 2);
}

#[tokio::test]
async fn a_list_and_a_reader_that_contradict_each_other_hide_no_image() {
    for fault in ["listCustomerImages#2=stale-list*inf", "getImage=404*9"] {
        let (sim, word, code) = under("publish-hidden", &[fault], "").await;
        assert_eq!((word.as_str(), code), ("be-mac-dc01-001:created", 0), "{fault}");
        only(&sim, BE);
    }
}

#[tokio::test]
async fn a_cloud_that_never_makes_it_is_the_other_side_that_failed() {
    for fault in ["500*inf", "success-false*inf"] {
        let spec = format!("createCustomerImage={fault}");
        let (sim, word, code) = under("publish-never", &[&spec], "").await;
        assert_eq!(word, "be-mac-dc01-001:failed", "{fault}");
        assert!(
            code == 4 || (fault.starts_with("success") && code != 0 && code != 5),
            "{fault} {code}"
        );
        assert!(images(&sim, BE).is_empty());
    }
}

#[tokio::test]
async fn odd_replies_change_nothing() {
    for fault in ["nulls", "extra-keys", "ids-as-text", "floats", "slow:300"] {
        let spec = format!("*={fault}*inf");
        let (sim, word, code) = under("publish-odd", &[&spec], "").await;
        assert_eq!((word.as_str(), code), ("be-mac-dc01-001:created", 0), "{fault}");
        only(&sim, BE);
    }
}

#[tokio::test]
async fn polls_that_fail_are_borne() {
    let faults =
        ["getImage=500*2", "getImage#3=html-page", "getImage#4=404", "listCustomerImages#2=503"];
    let (sim, word, code) = under("publish-polls", &faults, "").await;
    assert_eq!((word.as_str(), code), ("be-mac-dc01-001:created", 0));
    only(&sim, BE);
}

#[tokio::test]
async fn a_storm_of_429_is_weathered() {
    let (sim, word, code) = under("publish-storm", &["*=429:1*12"], "-retry-for 60s").await;
    assert_eq!((word.as_str(), code), ("be-mac-dc01-001:created", 0));
    only(&sim, BE);
}

#[tokio::test]
async fn a_location_that_is_down_does_not_stop_the_others() {
    let mut world = World::small();
    world.site(NL).down = true;
    let sim = cloud("publish-down", world).await;
    let server = server(&[]).await;
    let done = publish(&sim, &server, "/k8s.qcow2", "-locations all -output json").await.expect(4);
    assert_eq!(
        results(&done),
        "be-mac-dc01-001:created nl-rmd-dc01-001:failed qt-gen-dc01-003:created"
    );
    assert!(done.json()["results"][1]["error"].as_str().unwrap().contains("503"), "{}", done.out);
}

#[tokio::test]
async fn a_location_that_hangs_does_not_stop_the_others() {
    let sim = cloud("publish-hangs", World::small()).await;
    sim.fault(format!("listCustomerImages@{NL}=hang*inf").parse().unwrap());
    let server = server(&[]).await;
    let more = "-locations all --cloud-read-timeout 1s -output json";
    let done = publish(&sim, &server, "/k8s.qcow2", more).await.expect(4);
    assert_eq!(
        results(&done),
        "be-mac-dc01-001:created nl-rmd-dc01-001:failed qt-gen-dc01-003:created"
    );
    assert!(images(&sim, NL).is_empty());
}

#[tokio::test]
async fn locations_that_answer_do_not_wait_for_one_that_does_not() {
    let sim = cloud("publish-late", World::small()).await;
    sim.fault(format!("getCustomerLocation@{NL}=hang").parse().unwrap());
    let server = server(&[]).await;
    let more = "-locations all --cloud-read-timeout 9s -retry-for 20s -output json";
    let done = publish(&sim, &server, "/k8s.qcow2", more).await.expect(0);
    let rows = done.json();
    let seconds = |row: usize| rows["results"][row]["seconds"].as_f64().unwrap();
    assert!(seconds(0) < 3.0 && seconds(2) < 3.0, "{}", done.out);
    let place = |text: &str| done.err.find(text).unwrap_or_else(|| panic!("{text}: {}", done.err));
    assert!(place("nl-rmd-dc01-001: no answer yet") < place("be-mac-dc01-001: created"));
    assert!(place("qt-gen-dc01-003: created") < place("nl-rmd-dc01-001: created"));
}

#[tokio::test]
async fn a_cloud_that_falls_silent_during_an_import_is_waited_for() {
    let faults = ["getImage#2=hang*inf"];
    let more = "--cloud-read-timeout 500ms -retry-for 1s -timeout 4s";
    let (sim, word, code) = under("publish-silent", &faults, more).await;
    // The last look is a list, which still works and shows that the import went well.
    assert_eq!((word.as_str(), code), ("be-mac-dc01-001:created", 0));
    only(&sim, BE);
}

#[tokio::test]
async fn lists_that_are_cut_or_are_pages_are_read_again() {
    for fault in
        ["listCustomerImages=cut-json", "listCustomerImages#2=html-page", "recycleBin=500*inf"]
    {
        let (sim, word, code) = under("publish-cut", &[fault], "").await;
        assert_eq!((word.as_str(), code), ("be-mac-dc01-001:created", 0), "{fault}");
        only(&sim, BE);
    }
}

#[tokio::test]
async fn a_cloud_that_does_not_answer_while_an_import_runs_is_told_with_its_reason() {
    let sim = slow_cloud("publish-poll-reason", Duration::from_secs(1)).await;
    sim.fault("getImage=503*8".parse().unwrap());
    let server = server(&[]).await;
    let more = format!("-locations {BE} -retry-for 1s");
    let done = publish(&sim, &server, "/k8s.qcow2", &more).await.expect(0);
    done.says("the cloud does not answer: status 503");
}
