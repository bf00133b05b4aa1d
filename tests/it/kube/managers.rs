//! Cluster API's managers, and clusterctl without a network.

use capvco::release::{self, Release};
use serde_json::{Value, json};

use super::eventually;
use crate::support::peers::capi::{Clusterctl, Managers};
use crate::support::peers::kube::KubePlane;

fn cluster(namespace: &str, network: &str) -> Value {
    json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "Cluster",
        "metadata": {"name": "alone", "namespace": namespace},
        "spec": {
            "clusterNetwork": {"pods": {"cidrBlocks": [network]}},
            "infrastructureRef": {
                "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "VCOCluster", "name": "alone",
            },
        },
    })
}

/// What the API server says to `kubectl create`.
fn create(plane: &KubePlane, object: &Value, more: &[&str]) -> crate::support::program::Done {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), object.to_string()).unwrap();
    let args = ["create", "-o", "json", "-f", file.path().to_str().unwrap()];
    plane.kubectl(&[&args[..], more].concat())
}

/// Core: a cluster whose infrastructure is missing says so. Its other version is a conversion.
async fn core_works(plane: &KubePlane) {
    let namespace = plane.namespace();
    let refused = create(plane, &cluster(&namespace, "10.0.0.0/99"), &[]);
    refused.expect(1).says("invalid CIDR address: 10.0.0.0/99");
    create(plane, &cluster(&namespace, "10.0.0.0/16"), &[]).expect(0);
    let get = ["get", "clusters.v1beta2.cluster.x-k8s.io", "alone", "-o", "json", "-n", &namespace];
    let ready = || {
        let seen = plane.kubectl(&get).expect(0).json();
        let conditions = seen["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.into_iter().find(|condition| condition["type"] == "InfrastructureReady")
    };
    assert!(eventually(async || ready().is_some()).await, "no condition");
    let said = ready().unwrap();
    assert_eq!((&said["status"], &said["reason"]), (&json!("False"), &json!("ObjectDoesNotExist")));
    let mut older = get;
    older[1] = "clusters.v1beta1.cluster.x-k8s.io";
    let seen = plane.kubectl(&older).expect(0).json();
    let version = &seen["spec"]["infrastructureRef"]["apiVersion"];
    assert_eq!(*version, "infrastructure.cluster.x-k8s.io/v1beta1");
}

/// Bootstrap and control plane: what they are given is completed, and looked at.
fn kubeadm_works(plane: &KubePlane) {
    let template = json!({"spec": {"infrastructureRef": {
        "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "VCOMachineTemplate", "name": "a",
    }}});
    let planes = json!({
        "apiVersion": "controlplane.cluster.x-k8s.io/v1beta2",
        "kind": "KubeadmControlPlane",
        "metadata": {"name": "alone", "namespace": "default"},
        "spec": {
            "version": "v1.36.3",
            "machineTemplate": template,
            "kubeadmConfigSpec": {"initConfiguration": {"nodeRegistration": {"name": "a"}}},
        },
    });
    let made = create(plane, &planes, &["--dry-run=server"]).expect(0).json();
    assert_eq!(made["spec"]["replicas"], 1, "{made}");
    let file = json!({"path": "/a", "content": "a", "contentFrom": {
        "secret": {"name": "a", "key": "a"},
    }});
    let config = json!({
        "apiVersion": "bootstrap.cluster.x-k8s.io/v1beta2",
        "kind": "KubeadmConfig",
        "metadata": {"name": "alone", "namespace": "default"},
        "spec": {"files": [file]},
    });
    let refused = create(plane, &config, &["--dry-run=server"]);
    refused.expect(1).says("only one of content or contentFrom");
}

#[tokio::test]
async fn the_managers_of_cluster_api_do_their_work() {
    let plane = KubePlane::start();
    plane.put(&release::definitions());
    let _managers = Managers::start(&plane);
    core_works(&plane).await;
    kubeadm_works(&plane);
}

fn clusterctl(version: &str) -> Clusterctl {
    let image = "registry.example/capvco".parse().unwrap();
    let release = Release::new(&image, version.parse().unwrap());
    let components = release::components(&release).unwrap();
    Clusterctl::new(version, &components, &release::metadata().unwrap())
}

#[tokio::test]
async fn clusterctl_installs_our_release_without_a_network_and_the_managers_take_over() {
    let clusterctl = clusterctl("v0.1.0");
    let provider = ["generate", "provider", "--infrastructure", "vco:v0.1.0"];
    let shown = clusterctl.run(&provider, None).expect(0).out;
    assert!(shown.contains("image: registry.example/capvco:v0.1.0"), "{shown}");

    let plane = KubePlane::start();
    Clusterctl::prepare(&plane);
    let kubeconfig = plane.kubeconfig();
    let init = ["init", "--infrastructure", "vco:v0.1.0"];
    clusterctl.run(&init, Some(&kubeconfig)).expect(0).says("has been initialized successfully");
    let deployments = plane.kubectl(&["get", "deployments", "-A", "-o", "name"]).expect(0).out;
    assert_eq!(deployments.lines().count(), 4, "{deployments}");

    let _managers = Managers::start(&plane);
    core_works(&plane).await;
}
