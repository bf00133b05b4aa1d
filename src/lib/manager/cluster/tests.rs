//! What is done next for a cluster's network, and what is said: by tables.

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::members::Change;
use super::plan::{Action, Plan, Seen, Space, plan};
use super::status;
use crate::api::VCOCluster;
use crate::api::condition::{READY, Said};
use crate::api::names::CLUSTER_FINALIZER;
use crate::manager::doubt::Doubt;
use crate::manager::mark::ClusterId;
use crate::manager::step::Step;
use crate::vco::{Cloudspace, LoadBalancer, NewCloudspace, ServerPool};

fn id() -> ClusterId {
    "0123456789abcdef".parse().unwrap()
}

fn cluster(spec: &Value) -> VCOCluster {
    let mut whole = json!({"location": "be-1", "credentialSecretRef": {"name": "s"}});
    for (key, value) in spec.as_object().unwrap() {
        whole[key] = value.clone();
    }
    serde_json::from_value(json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "VCOCluster",
        "metadata": {"name": "c", "namespace": "n", "finalizers": [CLUSTER_FINALIZER]},
        "spec": whole,
    }))
    .unwrap()
}

fn space(status: &str, address: Option<&str>) -> Space {
    let row = json!({
        "cloudspace_id": "cs", "name": "x", "status": status, "location": "be-1",
        "external_network_ip": address,
    });
    Space::Found(Cloudspace::read(&row).unwrap())
}

fn pool(id: &str, hosts: &Value) -> ServerPool {
    ServerPool::read(&json!({"serverpool_id": id, "hosts": hosts})).unwrap()
}

fn balancer(id: &str, pool: &str) -> LoadBalancer {
    LoadBalancer {
        id: id.parse().unwrap(),
        name: None,
        description: None,
        kind: None,
        port: None,
        ip: None,
        pool: Some(pool.parse().unwrap()),
        target_port: None,
        locked: None,
    }
}

fn next(cluster: &VCOCluster, seen: &Seen) -> Plan {
    plan(cluster, Some(&id()), true, seen, &Doubt::default())
}

fn ready(plan: &Plan) -> (&str, &str) {
    let said = plan.said.iter().find(|said| said.kind == READY).unwrap();
    (said.status, said.reason)
}

fn with_space() -> VCOCluster {
    cluster(&json!({"cloudspaceId": "cs"}))
}

fn found(pools: Vec<ServerPool>, balancers: Vec<LoadBalancer>) -> Seen {
    let space = space("DEPLOYED", Some("1.2.3.4/29"));
    Seen { space, pools, balancers, ..Seen::default() }
}

#[test]
fn nothing_is_made_before_the_claim() {
    let new = NewCloudspace {
        name: "x".into(),
        location: "be-1".parse().unwrap(),
        private_network: None,
        local_domain: None,
        external_network_id: None,
    };
    let fresh = cluster(&json!({}));
    for at in [Space::None, Space::Wanted(new.clone()), space("DEPLOYED", None)] {
        let seen = Seen { space: at, ..Seen::default() };
        let plan = plan(&fresh, None, false, &seen, &Doubt::default());
        assert_eq!((plan.action, plan.provisioned), (Some(Action::Claim), false));
    }
    let seen = Seen { space: Space::Wanted(new.clone()), ..Seen::default() };
    assert_eq!(next(&fresh, &seen).action, Some(Action::CreateSpace(new)));
    // None yet, and one may have been made: it is looked for.
    let plan = next(&fresh, &Seen::default());
    assert!(plan.action.is_none() && matches!(plan.step, Step::After(_)));
}

#[test]
fn a_cloudspace_is_used_only_when_it_works() {
    for (at, want) in [
        (Space::Missing("cs".into()), "CloudspaceNotFound"),
        (Space::Several("x".into()), "CloudspaceAmbiguous"),
        (space("DEPLOYING", None), "CloudspaceCreating"),
        (space("DISABLED", None), "CloudspaceUnusable"),
        (space("DELETED", None), "CloudspaceUnusable"),
        (space("DEPLOYED", None), "NoExternalAddress"),
    ] {
        let text = format!("{at:?}");
        let plan = next(&with_space(), &Seen { space: at, ..Seen::default() });
        assert_eq!((&plan.action, plan.provisioned), (&None, false), "{text}");
        assert_eq!(ready(&plan), ("False", want), "{text}");
    }
    let unknown = cluster(&json!({}));
    let plan = next(&unknown, &found(vec![], vec![]));
    assert_eq!(plan.action, Some(Action::WriteSpace("cs".parse().unwrap())));
}

#[test]
fn the_way_to_the_api_comes_step_by_step() {
    let none = json!([]);
    let one = || pool("p1", &none);
    let action = |seen: &Seen| next(&with_space(), seen).action;
    let cs = || "cs".parse().unwrap();
    assert_eq!(action(&found(vec![], vec![])), Some(Action::CreatePool(cs())));
    let made = action(&found(vec![one()], vec![]));
    let Some(Action::CreateBalancer(_, new)) = made else { panic!("{made:?}") };
    assert_eq!((new.port, new.target_port, new.pool.as_str()), (6443, 6443, "p1"));
    assert_eq!(new.ip.as_deref(), Some("1.2.3.4"));
    let whole = found(vec![one()], vec![balancer("l1", "p1")]);
    assert_eq!(action(&whole), Some(Action::WriteEndpoint("1.2.3.4".into(), 6443)));
}

fn provisioned() -> VCOCluster {
    let endpoint = json!({"host": "1.2.3.4", "port": 6443});
    cluster(&json!({"cloudspaceId": "cs", "controlPlaneEndpoint": endpoint}))
}

#[test]
fn who_is_missing_joins_before_who_is_wrong_leaves() {
    let hosts = json!([{"host_id": "h1", "address": "10.0.0.1"}]);
    let mut seen = found(vec![pool("p1", &hosts)], vec![balancer("l1", "p1")]);
    let plan = next(&provisioned(), &seen);
    assert_eq!((ready(&plan), plan.step), (("True", "Ready"), Step::Settled));
    assert_eq!(plan.network.members, Some(vec!["10.0.0.1".to_owned()]));
    seen.change = Change { add: vec!["10.0.0.2".into()], remove: vec!["h1".parse().unwrap()] };
    let action = next(&provisioned(), &seen).action;
    assert!(matches!(action, Some(Action::AddMember(_, _, address)) if address == "10.0.0.2"));
    seen.change.add.clear();
    let plan = next(&provisioned(), &seen);
    assert!(matches!(plan.action, Some(Action::RemoveMember(..))));
    assert!(plan.provisioned, "a change of members is no trouble");
}

#[test]
fn what_is_there_twice_goes_and_is_no_trouble() {
    let (none, cs) = (json!([]), || "cs".parse().unwrap());
    let one = || pool("p1", &none);
    let two = found(vec![one()], vec![balancer("l1", "p1"), balancer("l2", "p1")]);
    let pools = found(vec![one(), pool("p2", &none)], vec![balancer("l1", "p1")]);
    let number = crate::id::DiskId(7);
    let disk = Seen { spare_disk: Some(number), ..found(vec![one()], vec![balancer("l1", "p1")]) };
    for (seen, want) in [
        (two, Action::DropBalancer(cs(), "l2".parse().unwrap())),
        (pools, Action::DropPool(cs(), "p2".parse().unwrap())),
        (disk, Action::DropDisk("be-1".parse().unwrap(), number)),
    ] {
        let plan = next(&provisioned(), &seen);
        assert_eq!((ready(&plan), &plan.action), (("True", "Ready"), &Some(want)));
        assert_eq!(plan.step, Step::Changed);
    }
}

#[test]
fn a_ready_cluster_does_not_flap_with_a_state_that_passes() {
    let mut known = provisioned();
    known.status =
        serde_json::from_value(json!({"initialization": {"provisioned": true}})).unwrap();
    let said = |status: &str| {
        let plan = next(&known, &Seen { space: space(status, None), ..Seen::default() });
        assert!(matches!(plan.step, Step::After(_)), "{status}");
        plan.said.iter().any(|said| said.kind == READY)
    };
    assert_eq!((said("MIGRATING"), said("RESUMING"), said("DISABLED")), (false, false, true));
}

#[test]
fn what_the_cloud_refuses_is_said_of_the_credentials_alone() {
    let seen = found(vec![pool("p1", &json!([]))], vec![balancer("l1", "p1")]);
    let plan = next(&provisioned(), &seen).with(Some(("AccessDenied", "m".to_owned())));
    assert_eq!(ready(&plan), ("True", "Ready"));
    let said: Vec<_> = plan.said.iter().filter(|on| on.kind == "CredentialsValid").collect();
    assert_eq!((said.len(), said[0].reason), (1, "AccessDenied"));
    assert!(matches!(plan.step, Step::After(_)), "it is looked at again before long");
}

#[test]
fn without_a_load_balancer_somebody_has_to_give_the_endpoint() {
    let spec = |endpoint: Value| {
        let off = json!({"enabled": false});
        let mut spec = json!({"cloudspaceId": "cs", "apiLoadBalancer": off});
        if !endpoint.is_null() {
            spec["controlPlaneEndpoint"] = endpoint;
        }
        cluster(&spec)
    };
    let seen = Seen { space: space("DEPLOYED", None), ..Seen::default() };
    assert_eq!(ready(&next(&spec(json!(null)), &seen)), ("False", "WaitingForEndpoint"));
    let plan = next(&spec(json!({"host": "api.example.com", "port": 443})), &seen);
    assert!(plan.provisioned && plan.action.is_none());
}

#[test]
fn domains_and_provisioned_are_never_taken_away() {
    let now = |second| Timestamp::from_second(second).unwrap();
    let plan = next(&provisioned(), &found(vec![pool("p", &json!([]))], vec![balancer("l", "p")]));
    let network = plan.network.clone();
    let first = status::status(&provisioned(), plan.said, Some((network, true)), now(5));
    let domains = first.failure_domains.as_ref().unwrap();
    assert_eq!((domains[0].name.as_str(), domains[0].control_plane), ("be-1", Some(true)));
    let mut known = provisioned();
    known.status = Some(first.clone());
    assert!(status::provisioned(&known) && !status::provisioned(&provisioned()));
    let trouble = vec![Said::not("CloudspaceReady", "CloudUnreachable", "m")];
    let after = status::status(&known, trouble, Some((plan.network, false)), now(9));
    assert_eq!(after.failure_domains, first.failure_domains);
    assert_eq!(after.initialization, first.initialization);
    let of = |status: &crate::api::cluster::VCOClusterStatus, kind: &str| {
        let all = status.conditions.clone().unwrap();
        all.into_iter().find(|one| one.type_ == kind).unwrap()
    };
    assert_eq!(of(&after, READY), of(&first, READY));
    assert_eq!(status::status(&known, Vec::new(), None, now(9)), first);
}

#[test]
fn an_id_that_was_changed_is_none_and_one_that_is_missing_is_known_by_the_name() {
    let (own, other) = ("0123456789abcdef", "fedcba9876543210");
    for (annotated, named, adopted, id) in [
        (Some(own), None, false, Some(own)),
        (Some(own), Some(own), false, Some(own)),
        (None, Some(own), false, Some(own)),
        (Some("XYZ"), Some(own), false, Some(own)),
        (Some(other), Some(own), false, None),
        // A cloudspace that was adopted may bear another cluster's id.
        (Some(own), Some(other), true, Some(own)),
        (None, Some(other), true, None),
    ] {
        let mut object = serde_json::json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "VCOCluster",
            "metadata": {"name": "c", "namespace": "n", "annotations": {}},
            "spec": {"location": "be-1", "credentialSecretRef": {"name": "s"}},
        });
        if let Some(annotated) = annotated {
            object["metadata"]["annotations"][super::CLUSTER_ID_ANNOTATION] = annotated.into();
        }
        if adopted {
            object["spec"]["cloudspace"] = serde_json::json!({"adopt": {"id": "x"}});
        }
        if let Some(named) = named {
            let name = format!("capvco-{named}-c");
            object["status"] = serde_json::json!({"network": {"cloudspaceName": name}});
        }
        let cluster: super::VCOCluster = serde_json::from_value(object).unwrap();
        let found = super::id_of(&cluster).map(|id| id.to_string());
        assert_eq!(found.as_deref(), id, "{annotated:?} {named:?} {adopted}");
    }
}
