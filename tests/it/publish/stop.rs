//! Runs that end early: Ctrl-C and `-timeout`.

use std::time::Duration;

use capvco::sim::world::Status;

use super::{BE, NL, images, only, publish, publishing, results, server, slow_cloud};
use crate::support::program::{Done, finish};

pub async fn interrupted(
    sim: &capvco::sim::Sim,
    mut program: crate::support::program::Program,
    ready: impl Fn(&capvco::sim::Sim) -> bool,
) -> Done {
    let child = program.spawn();
    for _ in 0..200 {
        if ready(sim) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let pid = child.id().to_string();
    let kill = std::process::Command::new("kill").args(["-INT", &pid]).status().unwrap();
    assert!(kill.success());
    finish(child).await
}

#[cfg(unix)]
#[tokio::test]
async fn ctrl_c_stops_waiting_and_the_same_command_joins() {
    let sim = slow_cloud("publish-ctrl-c", Duration::from_secs(3)).await;
    let server = server(&[]).await;
    let more = format!("-locations {BE},{NL} -output json");
    let program = publishing(&sim, &server, "/k8s.qcow2", &more);
    let under_way = |sim: &capvco::sim::Sim| {
        images(sim, BE).len() + images(sim, NL).len() == 2 && super::calls(sim, "GET", "/101") > 0
    };
    let done = interrupted(&sim, program, under_way).await.expect(5);
    assert_eq!(results(&done), format!("{BE}:interrupted {NL}:interrupted"));
    let row = done.json()["results"][0].clone();
    assert_eq!(row["image_id"], 101, "{row}");
    assert!(row["error"].as_str().unwrap().contains("image 101 is in flight (CREATING)"), "{row}");
    assert!(row["hint"].as_str().unwrap().contains("the same command joins it"), "{row}");
    assert_eq!(done.err.matches("image 101").count(), 1, "said once: {}", done.err);
    let done = publish(&sim, &server, "/k8s.qcow2", &more).await.expect(0);
    assert_eq!(results(&done), format!("{BE}:joined {NL}:joined"));
    only(&sim, BE);
}

#[cfg(unix)]
#[tokio::test]
async fn ctrl_c_while_a_create_is_under_way_finds_out_what_became_of_it() {
    let sim = slow_cloud("publish-ctrl-c-create", Duration::from_mins(1)).await;
    sim.fault("createCustomerImage=hang-after".parse().unwrap());
    let server = server(&[]).await;
    let more = format!("-locations {BE} -output json");
    let program = publishing(&sim, &server, "/k8s.qcow2", &more);
    let done = interrupted(&sim, program, |sim| !images(sim, BE).is_empty()).await.expect(5);
    assert_eq!(done.json()["results"][0]["image_id"], 101, "{}", done.out);
    assert_eq!(images(&sim, BE)[0].status, Status::Creating);
}

#[cfg(unix)]
#[tokio::test]
async fn ctrl_c_before_anything_was_sent_says_so() {
    let sim = slow_cloud("publish-ctrl-c-early", Duration::ZERO).await;
    sim.fault("listCustomerImages=hang*9".parse().unwrap());
    let server = server(&[]).await;
    let program = publishing(&sim, &server, "/k8s.qcow2", &format!("-locations {BE}"));
    let looking = |sim: &capvco::sim::Sim| super::calls(sim, "GET", "/recycle-bin") > 0;
    let done = interrupted(&sim, program, looking).await.expect(1);
    done.says("interrupted before anything was sent");
}

#[tokio::test]
async fn the_time_of_the_whole_run_is_bounded() {
    let sim = slow_cloud("publish-timeout", Duration::from_mins(1)).await;
    let server = server(&[]).await;
    let more = format!("-locations {BE} -timeout 2s -output json");
    let done = publish(&sim, &server, "/k8s.qcow2", &more).await.expect(5);
    assert_eq!(results(&done), format!("{BE}:failed"));
    done.says("-timeout (2 s) ran out; image 101 is in flight").says("the same command joins it");
    sim.fault("listCustomerImages=hang*inf".parse().unwrap());
    let done = publish(&sim, &server, "/k8s.qcow2", &more).await.expect(4);
    done.says("nothing was sent");
}
