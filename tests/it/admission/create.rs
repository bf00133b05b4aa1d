//! What may be made: each row a spec, on its own and inside a template.

use serde_json::{Value, json};

use super::Refusal;

/// A spec that is tried: what is laid over the usual one, and where and why it is refused.
pub struct Case {
    pub kind: &'static str,
    pub over: Value,
    pub refused: Refusal,
}

fn good(kind: &'static str, over: Value) -> Case {
    Case { kind, over, refused: None }
}

fn bad(kind: &'static str, over: Value, field: &'static str, says: &'static str) -> Case {
    Case { kind, over, refused: Some((field, says)) }
}

pub fn cases() -> Vec<Case> {
    let mut cases = clusters();
    cases.extend(networks());
    cases.extend(endpoints_and_backups());
    cases.extend(machines());
    cases.extend(disks_and_addresses());
    cases
}

fn clusters() -> Vec<Case> {
    let kind = "VCOCluster";
    let of_name = "name must be lower-case letters";
    vec![
        good(kind, json!({})),
        good(kind, json!({"customerId": "acme_1", "antiAffinity": {"spread": 3}})),
        bad(kind, json!({"location": null}), "location", "Required value"),
        bad(kind, json!({"location": "a b"}), "location", "location must be the id"),
        bad(kind, json!({"location": "a/b"}), "location", "location must be the id"),
        bad(kind, json!({"customerId": "a,b"}), "customerId", "customerId must be the id"),
        bad(kind, json!({"credentialSecretRef": null}), "credentialSecretRef", "Required value"),
        bad(
            kind,
            json!({"credentialSecretRef": {"name": "A"}}),
            "credentialSecretRef.name",
            of_name,
        ),
        bad(
            kind,
            json!({"antiAffinity": {"spread": 0}}),
            "antiAffinity.spread",
            "greater than or equal to 1",
        ),
    ]
}

fn networks() -> Vec<Case> {
    let kind = "VCOCluster";
    let cloudspace = |inner: Value| json!({"cloudspace": inner});
    let network = |text: &str| cloudspace(json!({"privateNetwork": text}));
    let adopt = |more: Value| {
        let mut all = json!({"adopt": {"id": "x"}});
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        cloudspace(all)
    };
    let (is_network, one) =
        ("privateNetwork must be an IPv4 network", "exactly one of id and name");
    vec![
        good(kind, cloudspace(json!({}))),
        good(kind, network("192.168.103.0/24")),
        good(kind, network("10.0.0.0/8")),
        bad(kind, network("192.168.103.5/24"), "cloudspace.privateNetwork", is_network),
        bad(kind, network("192.168.103.0"), "cloudspace.privateNetwork", is_network),
        bad(kind, network("fd00:1:2::/64"), "cloudspace.privateNetwork", is_network),
        good(kind, cloudspace(json!({"localDomain": "k8s.internal", "externalNetworkId": 7}))),
        bad(
            kind,
            cloudspace(json!({"localDomain": "a..b"})),
            "cloudspace.localDomain",
            "localDomain must be",
        ),
        bad(
            kind,
            cloudspace(json!({"externalNetworkId": 0})),
            "cloudspace.externalNetworkId",
            "greater than or equal",
        ),
        bad(
            kind,
            cloudspace(json!({"leftovers": "Keep"})),
            "cloudspace.leftovers",
            "supported values",
        ),
        good(kind, adopt(json!({"leftovers": "Remove"}))),
        good(kind, cloudspace(json!({"adopt": {"name": "my net"}}))),
        bad(kind, cloudspace(json!({"adopt": {}})), "cloudspace.adopt", one),
        bad(kind, cloudspace(json!({"adopt": {"id": "x", "name": "y"}})), "cloudspace.adopt", one),
        bad(
            kind,
            cloudspace(json!({"adopt": {"id": "x y"}})),
            "cloudspace.adopt.id",
            "id must be the id",
        ),
        bad(
            kind,
            adopt(json!({"privateNetwork": "10.0.0.0/24"})),
            "cloudspace.privateNetwork",
            "remove one of the two",
        ),
        bad(
            kind,
            adopt(json!({"localDomain": "a.b"})),
            "cloudspace.localDomain",
            "remove one of the two",
        ),
        bad(
            kind,
            adopt(json!({"externalNetworkId": 7})),
            "cloudspace.externalNetworkId",
            "remove one of the two",
        ),
    ]
}

fn endpoints_and_backups() -> Vec<Case> {
    let kind = "VCOCluster";
    let at = |host: &str| json!({"controlPlaneEndpoint": {"host": host, "port": 6443}});
    let balancer = |inner: Value| json!({"apiLoadBalancer": inner});
    let backup = |endpoint: &str, bucket: &str, age: &str| {
        let s3 = json!({"endpoint": endpoint, "bucket": bucket});
        json!({"backup": {"s3": s3, "secretRef": {"name": "keys"}, "maxAge": age}})
    };
    let (url, host) = ("https://s3.example.com", "controlPlaneEndpoint.host");
    vec![
        good(kind, at("api.example.com")),
        good(kind, at("198.51.100.7")),
        good(kind, at("2001:db8::7")),
        bad(kind, at("https://api.example.com"), host, "without scheme, port and path"),
        bad(kind, at("api.example.com:6443"), host, "without scheme, port and path"),
        bad(
            kind,
            json!({"controlPlaneEndpoint": {"host": "h", "port": 0}}),
            "controlPlaneEndpoint.port",
            "greater than",
        ),
        bad(
            kind,
            json!({"controlPlaneEndpoint": {"host": "h"}}),
            "controlPlaneEndpoint.port",
            "Required value",
        ),
        bad(kind, json!({"controlPlaneEndpoint": {}}), host, "Required value"),
        good(kind, balancer(json!({"enabled": false}))),
        good(
            kind,
            json!({"apiLoadBalancer": {"enabled": false}, "controlPlaneEndpoint": {"host": "h", "port": 443}}),
        ),
        good(kind, balancer(json!({"ipAddress": "198.51.100.7", "port": 443}))),
        bad(
            kind,
            balancer(json!({"ipAddress": "::1"})),
            "apiLoadBalancer.ipAddress",
            "must be an IPv4 address",
        ),
        bad(
            kind,
            balancer(json!({"port": 65_536})),
            "apiLoadBalancer.port",
            "less than or equal to 65535",
        ),
        good(kind, backup(url, "etcd-backups", "8h")),
        good(kind, backup("http://10.0.0.1:9000", "b.c", "1h30m")),
        bad(
            kind,
            backup("ftp://x.example.com", "abc", "8h"),
            "backup.s3.endpoint",
            "endpoint must be a URL",
        ),
        bad(
            kind,
            backup("s3.example.com", "abc", "8h"),
            "backup.s3.endpoint",
            "endpoint must be a URL",
        ),
        bad(kind, backup(url, "A_B", "8h"), "backup.s3.bucket", "bucket must be lower-case"),
        bad(
            kind,
            backup(url, "abc", "8 hours"),
            "backup.maxAge",
            "maxAge must be a length of time",
        ),
    ]
}

fn machines() -> Vec<Case> {
    let kind = "VCOMachine";
    let one = "exactly one of imageId and imageName";
    vec![
        good(kind, json!({})),
        good(kind, json!({"imageName": null, "imageId": 7})),
        bad(kind, json!({"imageId": 7}), "", one),
        bad(kind, json!({"imageName": null}), "", one),
        bad(kind, json!({"vcpus": 0}), "vcpus", "greater than or equal to 1"),
        bad(kind, json!({"vcpus": 65}), "vcpus", "less than or equal to 64"),
        good(kind, json!({"memoryMiB": 131_072})),
        bad(kind, json!({"memoryMiB": 1000}), "memoryMiB", "must be a multiple of 128"),
        bad(kind, json!({"memoryMiB": 131_200}), "memoryMiB", "less than or equal to 131072"),
        bad(kind, json!({"bootDiskGiB": 2001}), "bootDiskGiB", "less than or equal to 2000"),
        good(kind, json!({"antiAffinityGroup": "workers-1"})),
        bad(
            kind,
            json!({"antiAffinityGroup": "a_b"}),
            "antiAffinityGroup",
            "antiAffinityGroup must be lower-case",
        ),
        bad(
            kind,
            json!({"antiAffinityGroup": "-a"}),
            "antiAffinityGroup",
            "antiAffinityGroup must be lower-case",
        ),
    ]
}

fn disks_and_addresses() -> Vec<Case> {
    let kind = "VCOMachine";
    let disks = |disks: Value| json!({"dataDisks": disks});
    let disk = |more: Value| {
        let mut all = json!({"name": "etcd", "sizeGiB": 10});
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        disks(json!([all]))
    };
    let nic =
        |address: &str| json!({"externalNICs": [{"externalNetworkId": 7, "ipAddress": address}]});
    let raid = "raidLevel is for disks of type PHYSICAL";
    vec![
        good(kind, disk(json!({}))),
        good(kind, disk(json!({"type": "DATA", "iops": 5000}))),
        good(kind, disk(json!({"type": "PHYSICAL"}))),
        good(kind, disk(json!({"type": "PHYSICAL", "raidLevel": "raid1"}))),
        bad(
            kind,
            disk(json!({"type": "DATA", "raidLevel": "raid1"})),
            "dataDisks[0].raidLevel",
            raid,
        ),
        bad(kind, disk(json!({"raidLevel": "no raid"})), "dataDisks[0].raidLevel", raid),
        bad(kind, disk(json!({"type": "BOOT"})), "dataDisks[0].type", "supported values"),
        bad(kind, disk(json!({"name": "Etcd"})), "dataDisks[0].name", "name must be lower-case"),
        bad(kind, disk(json!({"iops": 10})), "dataDisks[0].iops", "greater than or equal to 100"),
        good(kind, disks(json!([{"name": "a", "sizeGiB": 1}, {"name": "b", "sizeGiB": 1}]))),
        bad(
            kind,
            disks(json!([{"name": "a", "sizeGiB": 1}, {"name": "a", "sizeGiB": 2}])),
            "dataDisks[1]",
            "Duplicate value",
        ),
        good(kind, json!({"privateIP": "192.168.103.10"})),
        bad(
            kind,
            json!({"privateIP": "192.168.103.256"}),
            "privateIP",
            "privateIP must be an IPv4 address",
        ),
        bad(
            kind,
            json!({"privateIP": "fd00::1:2:3"}),
            "privateIP",
            "privateIP must be an IPv4 address",
        ),
        good(kind, nic("198.51.100.9")),
        bad(
            kind,
            nic("198.51.100"),
            "externalNICs[0].ipAddress",
            "ipAddress must be an IPv4 address",
        ),
    ]
}
