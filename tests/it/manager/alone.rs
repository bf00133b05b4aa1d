//! One machine, from nothing to nothing.

use capvco::sim::World;
use serde_json::json;

use super::stage::{AT, Stage, condition, is_provisioned};

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_comes_as_it_was_asked_for_and_goes_without_a_trace() {
    let stage = Stage::new("manager-alone", World::small()).await;
    stage.cluster("c", json!({})).await;
    let cluster = stage.provisioned("c").await;
    let endpoint = &cluster["spec"]["controlPlaneEndpoint"];
    assert_eq!(endpoint["port"], 6443);
    assert_eq!(cluster["status"]["failureDomains"], json!([{"name": AT, "controlPlane": true}]));
    assert_eq!(condition(&cluster, "Ready"), ("True", "Ready"));

    let disks = json!([{"name": "etcd", "sizeGiB": 10, "iops": 4000}]);
    stage.machine("c", "c-1", true, json!({"dataDisks": disks})).await;
    let machine = stage.until("VCOMachine", "c-1", is_provisioned).await;
    let id = machine["status"]["vmId"].as_u64().unwrap();
    assert_eq!(machine["spec"]["providerID"], json!(format!("vco://{AT}/{id}")));
    assert_eq!(condition(&machine, "Ready"), ("True", "Ready"));
    assert_eq!(condition(&machine, "DisksAttached").0, "True");
    let address = machine["status"]["addresses"].as_array().unwrap().iter();
    let address = address.clone().find(|on| on["type"] == "InternalIP").unwrap()["address"].clone();
    let in_pool =
        |cluster: &serde_json::Value| cluster["status"]["network"]["members"] == json!([address]);
    stage.until("VCOCluster", "c", in_pool).await;

    assert_eq!(stage.calls("createVirtualMachine"), 1);
    stage.all_gone("c", &["c-1"]).await;
}
