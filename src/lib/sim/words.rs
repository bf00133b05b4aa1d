//! The bodies of replies, in the vendor's words; pure.

use serde_json::{Map, Value, json};

use super::operations::{OS_NAMES, OS_TYPES, os_type_of};
use super::reply::{Payload, Reply};
use super::rules::{CreateReply, Rules, SizeUnit};
use super::world::{Customer, Image, Status, World};

const GIB: u64 = 1 << 30;

/// `GET /me`.
pub(super) fn me(world: &World, iam_domain: &str) -> Value {
    let customer = |c: &Customer| {
        json!({
            "customer_id": c.customer_id, "name": c.name, "address": "1 Cloud Street",
            "phone_number": "+32 1 234 56 78", "status": "ENABLED",
        })
    };
    let customers: Vec<Value> = world.customers.iter().map(customer).collect();
    json!({
        "username": world.username, "firstname": "Robin", "lastname": "Example",
        "email": "operator@example.com", "emails": ["operator@example.com"], "is_admin": false,
        "iam_domain": iam_domain, "vco_website": "https://example.com", "vco_name": "Example",
        "vco_support_email": "support@example.com", "customers": customers,
        "admin_of_customers": customers,
    })
}

/// `GET {C}/locations`: a pricing document (vco-api.md 2).
pub(super) fn locations(world: &World) -> Value {
    let resources = json!({
        "su": 50.0, "ou": 20.0, "mu": 3.0, "vcu": 5.0, "tu": 1.0, "wu": 1.0, "nu": 4.0,
        "piu": 2.5, "vgu": 0.0, "fsu": 0.0,
    });
    let row = |name: &str| json!({"location": name, "resources": resources});
    let rows: Vec<Value> = world.locations.iter().map(|s| row(&s.location)).collect();
    json!({"currency": "EUR", "locations": rows})
}

/// `GET /customers/vm-images/os-names`.
pub(super) fn os_names() -> Value {
    let of = |family: &str| {
        let names: Vec<_> = OS_NAMES.iter().filter(|n| os_type_of(n) == family).collect();
        json!({"os_type": family, "os_names": names})
    };
    json!({"result": OS_TYPES.iter().map(|t| of(t)).collect::<Vec<_>>()})
}

fn size(image: &Image, rules: &Rules) -> u64 {
    match rules.size_unit {
        SizeUnit::Bytes => image.bytes,
        SizeUnit::Gib => image.virtual_bytes.div_ceil(GIB),
    }
}

/// One row of `GET {L}/vm-images`: fewer fields than [`image`] has (vco-api.md 3.1).
fn image_row(image: &Image, rules: &Rules, logo: bool) -> Value {
    let mut row = json!({
        "image_id": image.image_id, "status": image.status.to_string(), "name": image.name,
        "description": "", "os_type": image.os_type, "boot_disk_size": image.boot_disk_size,
        "size": size(image, rules), "memory": image.memory, "tags": image.tags,
        "public": image.public, "categories": "", "docs_url": "",
    });
    with_logo(&mut row, logo);
    row
}

fn with_logo(row: &mut Value, logo: bool) {
    if logo {
        row["logo"] = Value::String(String::new());
    }
}

/// `GET {L}/vm-images`: public images and the customer's own.
pub(super) fn images(images: &[Image], customer: &str, rules: &Rules, logo: bool) -> Value {
    let visible = images.iter().filter(|i| i.is_visible(customer, rules));
    json!({"result": visible.map(|i| image_row(i, rules, logo)).collect::<Vec<_>>()})
}

/// `GET {L}/vm-images/{image_id}`.
pub(super) fn image(image: &Image, rules: &Rules, logo: bool) -> Value {
    let can = &image.capabilities;
    let mut row = json!({
        "image_id": image.image_id, "status": image.status.to_string(), "name": image.name,
        "description": "", "os_type": image.os_type, "os_name": image.os_name,
        "boot_disk_size": image.boot_disk_size, "boot_type": image.boot_type,
        "size": size(image, rules), "memory": image.memory, "tags": image.tags,
        "capabilities": {
            "add_memory": can.add_memory, "add_vcpu": can.add_vcpu,
            "remove_vcpu": can.remove_vcpu, "add_disk": can.add_disk,
            "remove_disk": can.remove_disk, "add_nic": can.add_nic, "remove_nic": can.remove_nic,
        },
        "meneja_image_id": "", "categories": [], "docs_url": "", "user_data_templates": [],
    });
    with_logo(&mut row, logo);
    row
}

/// What creating an image answers.
pub(super) fn created(image_id: u64, rules: &Rules) -> Reply {
    match rules.create_reply {
        CreateReply::IdObject => Reply::json(json!({ "image_id": image_id })),
        CreateReply::BareId => Reply::json(Value::from(image_id)),
        CreateReply::Nothing => Reply::new(200, Payload::Nothing),
        CreateReply::Text => Reply::json(Value::from("The image is being created")),
        CreateReply::Success => Reply::success(),
    }
}

/// The `locations` of a list over several locations (vco-api.md 12.4), `broken` in error.
pub(super) fn statuses(
    world: &World,
    names: &[String],
    broken: Option<&str>,
) -> (Value, Vec<String>) {
    let chosen = |name: &str| names.is_empty() || names.iter().any(|n| n == name);
    let (mut rows, mut good) = (Vec::new(), Vec::new());
    for site in world.locations.iter().filter(|s| chosen(&s.location)) {
        let bad = site.down || broken == Some(site.location.as_str());
        rows.push(json!({
            "location": site.location, "status": if bad { "ERROR" } else { "OK" },
        }));
        if !bad {
            good.push(site.location.clone());
        }
    }
    (Value::Array(rows), good)
}

/// `GET {C}/recycle-bin`, as far as this cloud has things that can be in it.
pub(super) fn recycle_bin(world: &World, customer: &str, broken: Option<&str>) -> Value {
    let (statuses, good) = statuses(world, &[], broken);
    let sites = world.locations.iter().filter(|s| good.contains(&s.location));
    let binned = |i: &&Image| i.status == Status::Deleted && i.customer_id == customer;
    let rows = sites.flat_map(|site| {
        site.images.iter().filter(binned).map(|i| {
            json!({
                "image_id": i.image_id, "status": i.status.to_string(), "image_name": i.name,
                "description": "", "os_type": i.os_type, "boot_disk_size": i.boot_disk_size,
                "size": size(i, &world.rules), "memory": i.memory, "tags": i.tags,
                "location": site.location,
            })
        })
    });
    let images: Vec<Value> = rows.collect();
    let (objectspaces, buckets) = super::objectspace::words::binned(world, customer, &good);
    json!({"locations": statuses, "result": {
        "objectspaces": objectspaces,
        "cloudspaces": super::network::words::binned(world, customer, &good),
        "vms": super::machine::words::binned(world, customer, &good),
        "buckets": buckets, "disks": super::disk::words::binned(world, customer, &good),
        "cdrom_images": [], "images": images, "vgpus": [],
    }})
}

/// The keys that stay when every optional field is null: what a client cannot do without.
const KEPT: &[&str] = &[
    "result",
    "locations",
    "location",
    "status",
    "success",
    "name",
    "image_name",
    "image_id",
    "images",
    "customers",
    "customer_id",
    "upload_id",
    "object_name",
    "part_size",
    "os_type",
    "os_names",
    "etag",
    "cloudspace_id",
    "vm_id",
    "message",
    "jwt",
    "token",
    "access_token",
    "tags",
    "public",
    "objectspace_id",
    "objectspace_name",
    "bucket_name",
    "key",
    "disk_id",
    "disk_name",
    "disks",
    "vms",
    "cloudspaces",
    "cloudspace_name",
    "vm_name",
    "id",
    "ip_addresses",
    "ip_address",
    "group_id",
    "serverpool_id",
    "host_id",
    "hosts",
    "address",
    "loadbalancer_id",
    "portforward_id",
    "external_network_id",
    "network_interfaces",
    "title",
    "content",
];

/// Applies `change` to every object in a document, the outermost last.
fn each_object(value: &mut Value, change: &impl Fn(&mut Map<String, Value>)) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| each_object(item, change)),
        Value::Object(map) => {
            map.values_mut().for_each(|item| each_object(item, change));
            change(map);
        }
        _ => {}
    }
}

/// Every field that a client can do without becomes null (vco-api.md 12.8, PU).
pub(super) fn nulls(value: &mut Value) {
    each_object(value, &|map| {
        for (key, value) in map.iter_mut() {
            if !KEPT.contains(&key.as_str()) {
                *value = Value::Null;
            }
        }
    });
}

/// Every object gets a key that nobody declared (vco-api.md 12.8, OC).
pub(super) fn extra_keys(value: &mut Value) {
    each_object(value, &|map| {
        map.insert("is_freemium".into(), json!({"since": 1.5, "why": [null]}));
    });
}

/// Ids that are numbers become text (vco-api.md 13.1).
pub(super) fn ids_as_text(value: &mut Value) {
    if value.is_u64() {
        *value = Value::String(value.to_string());
    }
    each_object(value, &|map| {
        for (_, id) in map.iter_mut().filter(|(k, v)| k.ends_with("_id") && v.is_u64()) {
            *id = Value::String(id.to_string());
        }
    });
}

/// Whole numbers become floats (vco-api.md 12.3).
pub(super) fn floats(value: &mut Value) {
    match value {
        Value::Number(_) => {
            if let Some(float) = value.as_f64() {
                *value = Value::from(float);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(floats),
        Value::Object(map) => map.values_mut().for_each(floats),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Change = fn(&mut Value);

    #[test]
    fn distortions() {
        let original = json!({"result": [{"image_id": 7, "size": 3, "name": "n", "x": [1]}]});
        let cases: [(Change, Value); 3] = [
            (nulls, json!({"result": [{"image_id": 7, "size": null, "name": "n", "x": null}]})),
            (ids_as_text, json!({"result": [{"image_id": "7", "size": 3, "name": "n", "x": [1]}]})),
            (floats, json!({"result": [{"image_id": 7.0, "size": 3.0, "name": "n", "x": [1.0]}]})),
        ];
        for (change, want) in cases {
            let mut value = original.clone();
            change(&mut value);
            assert_eq!(value, want);
        }
        let mut value = original;
        extra_keys(&mut value);
        assert!(value["is_freemium"].is_object() && value["result"][0]["is_freemium"].is_object());
    }

    #[test]
    fn a_location_in_error_says_so_and_loses_its_things() {
        let mut world = World::small();
        let binned =
            Image { customer_id: "acme_1".into(), status: Status::Deleted, ..Image::default() };
        for at in 0..2 {
            world.locations[at].add_image(binned.clone());
        }
        let count = |bin: &Value| bin["result"]["images"].as_array().unwrap().len();
        assert_eq!(count(&recycle_bin(&world, "acme_1", None)), 2);
        assert_eq!(count(&recycle_bin(&world, "other_1", None)), 0);
        let bin = recycle_bin(&world, "acme_1", Some("be-mac-dc01-001"));
        assert_eq!(count(&bin), 1);
        assert_eq!(bin["locations"][0]["status"], "ERROR");
        world.locations[0].down = true;
        let (rows, good) = statuses(&world, &["be-mac-dc01-001".into()], None);
        assert_eq!((rows.as_array().unwrap().len(), good.len()), (1, 0));
    }

    #[test]
    fn sizes_have_the_unit_of_the_rule() {
        let image = Image { bytes: 5, virtual_bytes: GIB + 1, ..Image::default() };
        let mut rules = Rules::default();
        assert_eq!(size(&image, &rules), 5);
        rules.size_unit = SizeUnit::Gib;
        assert_eq!(size(&image, &rules), 2);
    }
}
