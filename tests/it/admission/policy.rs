//! What a CRD's rules cannot see: requests and annotations.

use std::time::Duration;

use serde_json::{Value, json};

use super::Desk;

const DRY_RUN: &str = "topology.cluster.x-k8s.io/dry-run";
const MANAGED_BY: &str = "cluster.x-k8s.io/managed-by";
const FIXED: &str = "spec.template.spec cannot be changed";
const KEPT: &str = "cluster.x-k8s.io/managed-by cannot be removed";

/// A change of a template: what, whether in a dry run, and whether it is let through.
fn of_templates(spec: &Value) -> Vec<(Value, bool, bool)> {
    let edit = json!({"spec": {"template": {"spec": spec}}});
    let mut marked = edit.clone();
    marked["metadata"] = json!({"annotations": {DRY_RUN: ""}});
    vec![
        (edit.clone(), false, false),
        (edit, true, false),
        (marked.clone(), false, false),
        (marked, true, true),
        (json!({"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}}), false, true),
        (json!({"spec": {"template": {"metadata": {"labels": {"a": "b"}}}}}), false, true),
    ]
}

pub async fn templates_change_in_the_dry_runs_of_cluster_api_alone(desk: &Desk) {
    for (kind, spec) in [
        ("VCOMachineTemplate", json!({"vcpus": 16})),
        ("VCOClusterTemplate", json!({"location": "elsewhere"})),
    ] {
        for (change, dry, goes) in of_templates(&spec) {
            let name = desk.made(kind, &json!({})).await;
            let done = desk.change(kind, &name, &change, dry).await;
            match (goes, done) {
                (true, Ok(_)) => {}
                (false, Err(said)) => assert!(said.contains(FIXED), "{kind} {change}: {said}"),
                (_, done) => panic!("{kind} {change}, dry run {dry}: {done:?}"),
            }
        }
    }
}

pub async fn who_manages_a_cluster_from_outside_stays(desk: &Desk) {
    for map in ["annotations", "labels"] {
        let mark = |value: Value| json!({"metadata": {map: {MANAGED_BY: value}}});
        let name = desk.made("VCOCluster", &json!({})).await;
        let change = async |change: Value| desk.change("VCOCluster", &name, &change, false).await;
        change(mark(json!("terraform"))).await.expect("it may be set later");
        change(mark(json!("other"))).await.expect("its value does not matter");
        change(json!({"metadata": {map: {"a": "b"}}})).await.expect("others may come");
        change(json!({"metadata": {map: {"a": null}}})).await.expect("and go");
        for removal in [mark(Value::Null), json!({"metadata": {map: null}})] {
            let said = change(removal).await.expect_err("it may not go");
            assert!(said.contains(KEPT), "{map}: {said}");
        }
    }
}

/// A policy is obeyed a moment after it was made.
pub async fn are_in_force(desk: &Desk) {
    let template = desk.made("VCOMachineTemplate", &json!({})).await;
    let cluster = desk.made("VCOCluster", &json!({})).await;
    let mark = |value: Value| json!({"metadata": {"labels": {MANAGED_BY: value}}});
    for turn in 0..200 {
        let edit = json!({"spec": {"template": {"spec": {"vcpus": 10 + turn % 2}}}});
        let edited = desk.change("VCOMachineTemplate", &template, &edit, false).await;
        desk.change("VCOCluster", &cluster, &mark(json!("x")), false).await.expect("it may be set");
        let gone = desk.change("VCOCluster", &cluster, &mark(Value::Null), false).await;
        if edited.is_err() && gone.is_err() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("the policies never refused anything");
}
