//! A cluster that is up is left in peace.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::stage::{Stage, Wish};
use crate::support::together;

/// What was written about our namespace so far, by whomever; and by managers of ours about what
/// is in no namespace.
fn written(stage: &Stage) -> Vec<String> {
    let concerns = |one: &&Value| {
        let (of, who) = (&one["objectRef"], one["userAgent"].as_str().unwrap_or_default());
        let lease = of["resource"] == "leases";
        let cluster_wide = of["namespace"].is_null() && who.starts_with("capvco/");
        !lease && (of["namespace"] == stage.namespace || cluster_wide)
    };
    let shown = |one: Value| {
        let (of, text) = (&one["objectRef"], |of: &Value| of.as_str().unwrap_or("-").to_owned());
        let (who, verb) = (text(&one["userAgent"]), text(&one["verb"]));
        format!("{who}: {verb} {} {}", text(&of["resource"]), text(&of["name"]))
    };
    let all = stage.management.plane.writes();
    all.into_iter().filter(|one| concerns(&one)).map(shown).collect()
}

/// The calls of the cloud so far that change something.
fn changes(stage: &Stage) -> Vec<String> {
    let journal = stage.sim.journal().into_iter().filter(|one| one.method != "GET");
    journal.map(|one| one.operation).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_cluster_that_is_up_nothing_is_written_for_a_minute() {
    if together::took_place() {
        return;
    }
    let stage = Stage::new("clusters-quiet").await;
    stage.apply("q", Wish::default());
    stage.is_available("q", 2).await;
    stage.runs_as_nodes("q").await;
    assert!(written(&stage).iter().any(|one| one.starts_with("capvco/")), "ours is heard of");
    // What follows from its coming is over when nothing has come for a while.
    let mut last = (0, Instant::now());
    stage
        .until("all has come to rest", async |stage| {
            let now = written(stage).len() + changes(stage).len();
            if now != last.0 {
                last = (now, Instant::now());
            }
            last.1.elapsed() > Duration::from_secs(15)
        })
        .await;
    let (writes, calls, reads) = (written(&stage), changes(&stage), stage.sim.journal().len());
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(written(&stage)[writes.len()..], [""; 0], "to the API server");
    assert_eq!(changes(&stage)[calls.len()..], [""; 0], "to the cloud");
    assert!(stage.sim.journal().len() > reads, "it was looked after all the same");
    stage.is_available("q", 2).await;

    stage.delete("q").await;
    stage.nothing_left().await;
}
