//! Kubernetes itself is raised: by a patch and by a minor version, as the nodes' images say it.

use serde_json::json;

use super::stage::{AT, Stage, Wish};
use crate::support::together;

/// Adds an image of a version, and templates `NAME-VERSION` that use it.
fn offer(stage: &Stage, image_id: u64, version: &str) {
    stage.sim.world(|world| {
        let images = &mut world.site(AT).images;
        let mut image = images[0].clone();
        image.image_id = image_id;
        image.name = format!("ubuntu-24.04-k8s-{version}");
        images.push(image);
    });
    stage.put(&[json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "VCOMachineTemplate",
        "metadata": {"name": format!("v-{image_id}"), "namespace": stage.namespace},
        "spec": {"template": {"spec": {
            "imageId": image_id, "vcpus": 2, "memoryMiB": 4096, "bootDiskGiB": 20,
        }}},
    })]);
}

/// Raises control plane and workers, and waits until every node says so.
async fn raise(stage: &Stage, image_id: u64, version: &str) {
    let template = json!({"infrastructureRef": {"name": format!("v-{image_id}")}});
    let planes = json!({"spec": {"version": version, "machineTemplate": {"spec": template}}});
    stage.patch("KubeadmControlPlane", "v", planes).await;
    let are = async |stage: &Stage, control_plane: bool| {
        let label = "cluster.x-k8s.io/control-plane";
        let all = stage.machines("v").await;
        let mut of =
            all.iter().filter(|one| one["metadata"]["labels"][label].is_null() != control_plane);
        all.len() == 2 && of.all(|one| one["status"]["nodeInfo"]["kubeletVersion"] == version)
    };
    let what = format!("control plane of {version}");
    stage.until(&what, async |stage| are(stage, true).await).await;
    let mut workers = template;
    workers["version"] = json!(version);
    let workers = json!({"spec": {"template": {"spec": workers}}});
    stage.patch("MachineDeployment", "v-workers", workers).await;
    stage.until(&format!("worker of {version}"), async |stage| are(stage, false).await).await;
    stage.is_available("v", 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kubernetes_is_raised_by_a_patch_and_by_a_minor_version() {
    if together::took_place() {
        return;
    }
    let stage = Stage::new("clusters-version").await;
    offer(&stage, 150, "v1.36.3");
    offer(&stage, 151, "v1.37.1");
    let stage = stage.counted_from_now();
    stage.apply("v", Wish { version: "v1.36.2", ..Wish::default() });
    stage.is_available("v", 2).await;
    raise(&stage, 150, "v1.36.3").await;
    raise(&stage, 151, "v1.37.1").await;
    stage.delete("v").await;
    stage.nothing_left().await;
}
