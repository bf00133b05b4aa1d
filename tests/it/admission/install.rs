//! A release on a real API server: all of it is taken, the manager may do what it does, and
//! kubectl tells what there is.

use std::time::Duration;

use capvco::release::{Image, Release, components};
use serde_json::json;

use super::Desk;
use crate::support::peers::kube::KubePlane;
use crate::support::peers::until;

const MANAGER: &str = "--as=system:serviceaccount:capvco-system:capvco-manager";

fn installed() -> &'static KubePlane {
    let plane = KubePlane::shared();
    let image = "registry.example.com/capvco".parse::<Image>().unwrap();
    let release = Release::new(&image, "v0.1.0".parse().unwrap());
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), components(&release).unwrap()).unwrap();
    let path = file.path().to_str().unwrap();
    // Others may have put the CRDs there.
    plane.kubectl(&["apply", "--server-side", "--force-conflicts", "-f", path]).expect(0);
    plane
}

#[test]
fn the_manager_may_do_what_it_does_and_no_more() {
    let plane = installed();
    for (wanted, question) in [
        ("yes", "patch vcomachines.infrastructure.cluster.x-k8s.io -A"),
        ("yes", "patch vcoclusters.infrastructure.cluster.x-k8s.io --subresource=status -A"),
        ("yes", "update machines.cluster.x-k8s.io --subresource=finalizers -A"),
        ("yes", "watch clusters.cluster.x-k8s.io -A"),
        ("yes", "get secrets -n default"),
        ("yes", "create secrets -n default"),
        ("yes", "update leases.coordination.k8s.io -n capvco-system"),
        ("yes", "create events.events.k8s.io -n default"),
        ("no", "update secrets -n default"),
        ("no", "delete secrets -n default"),
        ("no", "delete vcomachines.infrastructure.cluster.x-k8s.io -A"),
        ("no", "patch machines.cluster.x-k8s.io -A"),
        ("no", "patch vcomachinetemplates.infrastructure.cluster.x-k8s.io -A"),
        ("no", "update leases.coordination.k8s.io -n kube-system"),
        ("no", "create pods -n capvco-system"),
    ] {
        let words = ["auth", "can-i", MANAGER].into_iter().chain(question.split_whitespace());
        let done = plane.kubectl(&words.collect::<Vec<_>>());
        assert_eq!(done.out.trim(), wanted, "{question}: {}", done.err);
    }
}

#[test]
fn kubectl_explains_every_field() {
    let plane = KubePlane::shared();
    for (field, says) in [
        ("vcom.spec.dataDisks.raidLevel", "raid1"),
        ("vcoc.spec.cloudspace.adopt", "never changed nor deleted"),
        ("vcomt.spec.template.spec.memoryMiB", "a multiple of 128"),
        ("vcoct.spec.template.spec.location", "be-mac-dc01-001"),
    ] {
        // A new kind is served a moment before it is told of.
        until(Duration::from_secs(30), || plane.kubectl(&["explain", field]).code == 0);
        let done = plane.kubectl(&["explain", field]).expect(0);
        let words: Vec<&str> = done.out.split_whitespace().collect();
        assert!(words.join(" ").contains(says), "{field}: {}", done.out);
    }
}

#[tokio::test]
async fn lists_say_why() {
    let desk = Desk::open();
    let condition = json!({
        "type": "Ready", "status": "False", "reason": "VMStarting", "message": "it starts",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    let machine = desk.made("VCOMachine", &json!({"providerID": "vco://be-1/7"})).await;
    let label = json!({"metadata": {"labels": {"cluster.x-k8s.io/cluster-name": "blue"}}});
    desk.change("VCOMachine", &machine, &label, false).await.unwrap();
    let status = json!({"vmId": 7, "vmState": "HALTED", "conditions": [condition]});
    desk.told("VCOMachine", &machine, &status).await;
    let endpoint = json!({"controlPlaneEndpoint": {"host": "198.51.100.7", "port": 6443}});
    let cluster = desk.made("VCOCluster", &endpoint).await;
    desk.change("VCOCluster", &cluster, &label, false).await.unwrap();
    desk.told("VCOCluster", &cluster, &json!({"conditions": [condition]})).await;
    for (kind, titles, cells) in [
        (
            "vcom",
            "NAME CLUSTER STATE REASON PROVIDERID VM AGE",
            "blue HALTED VMStarting vco://be-1/7 7",
        ),
        ("vcoc", "NAME CLUSTER READY REASON ENDPOINT AGE", "blue False VMStarting 198.51.100.7"),
    ] {
        let shown = KubePlane::shared().kubectl(&["get", kind, "-n", desk.space()]).expect(0).out;
        let rows: Vec<String> = shown
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        assert_eq!(rows[0], titles);
        assert!(rows[1].contains(cells), "{shown}");
    }
    let all = KubePlane::shared().kubectl(&["get", "cluster-api", "-n", desk.space()]).expect(0);
    assert!(all.out.contains(&machine) && all.out.contains(&cluster), "{}", all.out);
}
