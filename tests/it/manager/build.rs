//! What a VM is made like, and what keeps it from being made.

use capvco::sim::World;
use capvco::sim::world::Image;
use serde_json::json;

use super::stage::{AT, IMAGE, Stage, condition, world_of_one_processor};

/// Where an exchange of this kind stands in the journal.
fn last(stage: &Stage, fits: impl Fn(&str, &str) -> bool) -> Option<usize> {
    stage.sim.journal().iter().rposition(|one| fits(&one.method, &one.path))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vm_has_everything_before_it_boots() {
    let stage = Stage::new("manager-before-boot", World::small()).await;
    stage.cluster("c", json!({"cloudspace": {"privateNetwork": "192.168.77.0/24"}})).await;
    stage.provisioned("c").await;
    let spec = json!({
        "privateIP": "192.168.77.50",
        "externalNICs": [{"externalNetworkId": 5}],
        "antiAffinityGroup": "web",
        "dataDisks": [{"name": "etcd", "sizeGiB": 7}],
    });
    stage.machine("c", "c-1", true, spec).await;
    let vm = stage.running("c-1").await;
    let started = last(&stage, |_, path| path.ends_with("/start")).unwrap();
    for part in ["/anti-affinity-groups", "/external-nics", "/disks"] {
        let given = last(&stage, |method, path| method != "GET" && path.contains(part));
        assert!(given.expect(part) < started, "{part}");
    }
    let space = stage.space("c").await;
    let made = stage.sim.world(|world| world.cloudspace(&space).unwrap().clone());
    let machine = made.vm(vm).unwrap();
    assert_eq!((machine.private_ip.as_str(), machine.nics.len()), ("192.168.77.50", 1));
    assert_eq!((machine.hostname.as_str(), machine.image_id), ("c-1", IMAGE));
    assert_eq!(machine.userdata.given["write_files"][0]["content"], "name: 'c-1'\n");
    let [group] = &made.groups[..] else { panic!("{:?}", made.groups) };
    assert!(group.group_id.ends_with("-web") && group.members == [vm], "{group:?}");
    let status = stage.get("VCOMachine", "c-1").await["status"].clone();
    let kinds: Vec<_> =
        status["addresses"].as_array().unwrap().iter().map(|one| &one["type"]).collect();
    assert_eq!(kinds, ["Hostname", "ExternalIP", "InternalIP"]);
    assert_eq!(status["failureDomain"], AT);
    stage.all_gone("c", &["c-1"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_keeps_a_vm_from_being_made_is_named() {
    let mut world = World::small();
    for name in ["one", "two", "two"] {
        let image = Image { customer_id: "acme_1".into(), name: name.into(), ..Image::default() };
        world.site(AT).add_image(image);
    }
    let mut stage = Stage::idle("manager-named", world).await;
    stage.cluster("c", json!({})).await;
    let named = |name: &str| json!({"imageName": name, "imageId": null});
    for (name, spec) in [
        ("good", named("one")),
        ("none", named("three")),
        ("several", named("two")),
        ("ignition", json!({})),
        ("elsewhere", json!({})),
        ("unwritten", json!({})),
    ] {
        stage.machine("c", name, true, spec).await;
    }
    stage.patch("Secret", "ignition", json!({"stringData": {"format": "ignition"}})).await;
    let elsewhere = json!({"spec": {"failureDomain": "nl-rmd-dc01-001"}});
    stage.patch("Machine", "elsewhere", elsewhere).await;
    stage.delete("Secret", "unwritten").await;
    stage.start();
    stage.provisioned("c").await;
    for (name, about, reason) in [
        ("none", "ImageResolved", "ImageNotFound"),
        ("several", "ImageResolved", "ImageAmbiguous"),
        ("ignition", "BootstrapDataReady", "BootstrapDataUnusable"),
        ("elsewhere", "VMProvisioned", "FailureDomainUnknown"),
        ("unwritten", "BootstrapDataReady", "WaitingForBootstrapData"),
    ] {
        let said = stage.until_said("VCOMachine", name, (about, "False", reason)).await;
        assert_eq!(condition(&said, "Ready"), ("False", reason));
        assert!(said["metadata"]["finalizers"].is_null(), "nothing was made for {name}");
    }
    stage.running("good").await;
    assert_eq!(stage.calls("createVirtualMachine"), 1);
    let all = ["good", "none", "several", "ignition", "elsewhere", "unwritten"];
    stage.all_gone("c", &all).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quota_that_is_raised_lets_the_machine_come() {
    let stage = Stage::new("manager-quota", world_of_one_processor()).await;
    stage.cluster("c", json!({})).await;
    stage.provisioned("c").await;
    stage.machine("c", "c-1", true, json!({})).await;
    stage.until_said("VCOMachine", "c-1", ("Ready", "False", "QuotaExceeded")).await;
    stage.sim.world(|world| world.allowances.clear());
    stage.running("c-1").await;
    stage.sim.world(|world| assert_eq!(world.cloudspaces[0].vms.len(), 1));
    stage.all_gone("c", &["c-1"]).await;
}
