//! What may be changed: each row an object as it is, and what somebody would do to it.

use serde_json::{Value, json};

use super::Refusal;

/// A change that is tried: what is laid over the usual spec before, what is laid over that, and
/// where and why it is refused.
pub struct Case {
    pub kind: &'static str,
    pub before: Value,
    pub change: Value,
    pub refused: Refusal,
}

fn case(kind: &'static str, before: Value, change: Value) -> Case {
    Case { kind, before, change, refused: None }
}

impl Case {
    fn refused(mut self, field: &'static str, says: &'static str) -> Self {
        self.refused = Some((field, says));
        self
    }
}

pub fn cases() -> Vec<Case> {
    let mut cases = once();
    cases.extend(networks());
    cases.extend(machines());
    cases
}

/// What is set later and then stays.
fn once() -> Vec<Case> {
    let mut cases = Vec::new();
    let endpoint = |host: &str| json!({"host": host, "port": 6443});
    let id = |vm: u8| json!(format!("vco://be-mac-dc01-001/{vm}"));
    for (kind, field, first, second) in [
        ("VCOCluster", "customerId", json!("acme_1"), json!("acme_2")),
        ("VCOCluster", "cloudspaceId", json!("one"), json!("two")),
        ("VCOCluster", "controlPlaneEndpoint", endpoint("a"), endpoint("b")),
        ("VCOMachine", "providerID", id(1), id(2)),
    ] {
        let says = "cannot be changed or removed once it is set";
        let be = |value: &Value| json!({field: value});
        cases.push(case(kind, json!({}), be(&first)));
        cases.push(case(kind, be(&first), be(&first)));
        cases.push(case(kind, be(&first), be(&second)).refused(field, says));
        cases.push(case(kind, be(&first), be(&Value::Null)).refused(field, says));
    }
    let kind = "VCOCluster";
    let fixed = "location cannot be changed or removed";
    cases.push(case(kind, json!({}), json!({"location": "elsewhere"})).refused("location", fixed));
    let customer = json!({"customerId": "acme_1"});
    let made = "customerId cannot be changed once cloudspaceId is set";
    cases.push(case(kind, json!({}), customer.clone()));
    cases.push(case(kind, json!({"cloudspaceId": "x"}), customer).refused("customerId", made));
    cases.push(case(kind, json!({}), json!({"credentialSecretRef": {"name": "other"}})));
    cases.push(case(
        kind,
        json!({"controlPlaneEndpoint": endpoint("a")}),
        json!({"apiLoadBalancer": {"port": 443}}),
    ));
    cases
}

fn networks() -> Vec<Case> {
    let kind = "VCOCluster";
    let (adopt, says) =
        ("cloudspace.adopt", "cloudspace.adopt cannot be changed, added or removed");
    let adopting = |name: &str| json!({"cloudspace": {"adopt": {"name": name}}});
    let mut cases = vec![
        case(kind, json!({}), adopting("a")).refused(adopt, says),
        case(kind, adopting("a"), adopting("b")).refused(adopt, says),
        case(kind, adopting("a"), json!({"cloudspace": {"adopt": null}})).refused(adopt, says),
        case(kind, adopting("a"), json!({"cloudspace": null})).refused(adopt, says),
        case(kind, adopting("a"), json!({"cloudspaceId": "x"})),
        case(kind, adopting("a"), json!({"cloudspace": {"leftovers": "Remove"}})),
        case(kind, json!({"cloudspaceId": "x"}), json!({"cloudspace": {"leftovers": "Remove"}})),
    ];
    for (field, path, first, second) in [
        ("privateNetwork", "cloudspace.privateNetwork", json!("10.0.0.0/24"), json!("10.0.1.0/24")),
        ("localDomain", "cloudspace.localDomain", json!("a.b"), json!("c.d")),
        ("externalNetworkId", "cloudspace.externalNetworkId", json!(7), json!(8)),
    ] {
        let says = "cannot be changed once cloudspaceId is set";
        let be = |value: &Value| json!({"cloudspace": {field: value}});
        let made = |value: &Value| json!({"cloudspaceId": "x", "cloudspace": {field: value}});
        cases.push(case(kind, be(&first), be(&second)));
        cases.push(case(kind, be(&first), json!({"cloudspaceId": "x"})));
        cases.push(case(kind, made(&first), be(&second)).refused(path, says));
        cases.push(case(kind, made(&first), be(&Value::Null)).refused(path, says));
        cases.push(case(kind, json!({"cloudspaceId": "x"}), be(&first)).refused(path, says));
    }
    cases
}

/// A VM is what it was made of.
fn machines() -> Vec<Case> {
    let kind = "VCOMachine";
    let says = "cannot be changed, added or removed";
    let disk = |size: u8| json!([{"name": "etcd", "sizeGiB": size}]);
    let nic = |network: u8| json!([{"externalNetworkId": network}]);
    let mut cases = Vec::new();
    for (field, first, second) in [
        ("imageName", json!("k8s-v1"), json!("k8s-v2")),
        ("vcpus", json!(2), json!(4)),
        ("memoryMiB", json!(4096), json!(8192)),
        ("bootDiskGiB", json!(20), json!(40)),
        ("dataDisks", disk(1), disk(2)),
        ("privateIP", json!("10.0.0.7"), json!("10.0.0.8")),
        ("externalNICs", nic(1), nic(2)),
        ("antiAffinityGroup", json!("a"), json!("b")),
    ] {
        let be = |value: &Value| json!({field: value});
        cases.push(case(kind, be(&first), be(&first)));
        cases.push(case(kind, be(&first), be(&second)).refused(field, says));
    }
    let by_id = |id: u8| json!({"imageName": null, "imageId": id});
    cases.push(case(kind, by_id(1), by_id(2)).refused("imageId", says));
    cases.push(case(kind, json!({}), by_id(1)).refused("imageName", says));
    cases.push(case(kind, json!({}), json!({"dataDisks": disk(1)})).refused("dataDisks", says));
    cases.push(
        case(kind, json!({"privateIP": "10.0.0.7"}), json!({"privateIP": null}))
            .refused("privateIP", says),
    );
    cases
}
