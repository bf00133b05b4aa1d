//! Everything that exists, as a value that can be compared and written down; no secrets in it.

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::objectspace::record::State;
use super::world::{Cloudspace, Disk, Image, Status, World};

impl World {
    /// Everything that exists, the recycle bin included, by customer. It is the same for the
    /// same things, whatever their order; counters and what is DESTROYED are not in it, and of
    /// secrets only whether they changed.
    ///
    /// ```json
    /// {"acme_1": {
    ///     "cloudspaces": {"<id>": {…, "vms": {"101": {…}}}},
    ///     "locations": {"be-mac-dc01-001": {"disks": {"7": {…}}, "images": {…}}},
    ///     "objectspaces": {…}}}
    /// ```
    #[must_use]
    pub fn inventory(&self) -> Value {
        let mut all = Map::new();
        for customer in &self.customers {
            all.insert(customer.customer_id.clone(), self.inventory_of(&customer.customer_id));
        }
        Value::Object(all)
    }

    /// One thing of the inventory as text, for comparing it byte by byte; `pointer` is a JSON
    /// pointer such as `/acme_1/cloudspaces/<id>/vms/101`.
    #[must_use]
    pub fn record(&self, pointer: &str) -> Option<String> {
        self.inventory().pointer(pointer).map(Value::to_string)
    }

    fn inventory_of(&self, customer: &str) -> Value {
        let spaces = self.cloudspaces.iter();
        let spaces = spaces.filter(|c| c.customer_id == customer && c.exists());
        let stores = self.objectspaces.iter();
        let stores = stores.filter(|o| o.customer_id == customer && o.state != State::Destroyed);
        let stores = stores.map(|o| {
            let buckets = o.buckets.iter().filter(|b| b.state != State::Destroyed);
            let buckets =
                buckets.map(|b| (b.name.clone(), json!({"limit": b.limit, "keys": b.keys.len()})));
            let value = json!({
                "name": o.name, "location": o.location, "state": format!("{:?}", o.state),
                "buckets": buckets.collect::<Map<_, _>>(), "notes": o.notes,
            });
            (o.objectspace_id.clone(), value)
        });
        let locations = self.locations.iter().map(|site| {
            let disks = site.disks.iter().filter(|d| d.customer_id == customer && d.exists());
            let disks = disks.map(|d: &Disk| (d.disk_id.to_string(), plain(d)));
            let images = site.images.iter();
            let images =
                images.filter(|i| i.customer_id == customer && i.status != Status::Destroyed);
            let images = images.map(|i| (i.image_id.to_string(), image(i)));
            let here = json!({
                "disks": disks.collect::<Map<_, _>>(), "images": images.collect::<Map<_, _>>(),
            });
            (site.location.clone(), here)
        });
        json!({
            "cloudspaces": spaces.map(|c| (c.cloudspace_id.clone(), space(c))).collect::<Map<_, _>>(),
            "locations": locations.collect::<Map<_, _>>(),
            "objectspaces": stores.collect::<Map<_, _>>(),
        })
    }
}

fn plain(record: &impl Serialize) -> Value {
    serde_json::to_value(record).unwrap_or_default()
}

/// A cloudspace, whose lists become maps, so that their order does not matter.
fn space(c: &Cloudspace) -> Value {
    let mut value = plain(c);
    let vms = c.vms.iter().filter(|vm| vm.exists());
    value["vms"] = Value::Object(vms.map(|vm| (vm.vm_id.to_string(), plain(vm))).collect());
    for (list, id) in [
        ("groups", "group_id"),
        ("pools", "serverpool_id"),
        ("balancers", "loadbalancer_id"),
        ("forwards", "portforward_id"),
        ("notes", "id"),
    ] {
        let items = value[list].as_array().cloned().unwrap_or_default();
        let named = |item: Value| (item[id].as_str().unwrap_or_default().to_owned(), item);
        value[list] = Value::Object(items.into_iter().map(named).collect());
    }
    value
}

fn image(i: &Image) -> Value {
    json!({
        "name": i.name, "status": i.status.to_string(), "tags": i.tags, "os_type": i.os_type,
        "os_name": i.os_name, "boot_type": i.boot_type, "memory": i.memory,
        "boot_disk_size": i.boot_disk_size, "bytes": i.bytes, "public": i.public,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_tells_changes_and_keeps_secrets() {
        let mut world = World::small();
        let (id, vm_id) = world.add_vm("be-mac-dc01-001", 100, "a");
        let before = world.inventory();
        assert_eq!(before, world.clone().inventory());
        let pointer = format!("/acme_1/cloudspaces/{id}/vms/{vm_id}");
        let record = world.record(&pointer).unwrap();
        let vm = &mut world.cloudspace_mut(&id).unwrap().vms[0];
        assert!(!vm.account.password.is_empty());
        assert!(
            !record.contains(&vm.account.password)
                && !format!("{vm:?}").contains(&vm.account.password)
        );
        vm.userdata.given.insert("bootcmd".into(), json!(["s3cret"]));
        assert!(!format!("{vm:?}").contains("s3cret"));
        assert_ne!(world.record(&pointer).unwrap(), record);
        world.cloudspace_mut(&id).unwrap().vms[0].status = "DESTROYED".into();
        assert_eq!(world.record(&pointer), None);
        assert_ne!(world.inventory(), before);
    }
}
