//! Cloudspaces: made, linked to the outside, limited, annotated, deleted.
//!
//! What may enter: facts with an evidence tag, as in the whole room. Invariants: an external
//! address belongs to one firewall or machine of a location; what is DESTROYED keeps nothing.
//!
//! To add an operation: a row in `operations`, an arm here, its body in `words`.

pub(super) mod operations;
pub mod quota;
pub(super) mod range;
pub mod record;
pub(super) mod words;

use serde_json::{Value, json};

use super::doing::{Staged as _, idle};
use super::reply::Reply;
use super::visit::{Noting, Visit, Which, object, result};
use super::world::{Cloudspace, Quota, Uplink, World};
use operations::Op;
use quota::Want;
use range::Range;

/// Carries out a call about cloudspaces.
pub(super) fn answer(visit: &mut Visit<'_>, op: Op) -> Result<Reply, Reply> {
    match op {
        Op::List => Ok(Reply::json(words::list(visit))),
        Op::Create => create(visit),
        Op::Read => read(visit),
        Op::Delete => delete(visit),
        Op::Restore => restore(visit),
        Op::Rename => rename(visit),
        Op::SetQuota => set_quota(visit),
        Op::FreeSubnets => Ok(free_subnets(visit)),
        Op::FreeAddresses => {
            let free = visit.world.free_private(visit.space()?);
            Ok(Reply::json(json!({ "ip_addresses": free })))
        }
        Op::Networks | Op::Network | Op::PublicAddresses => external(visit, op),
        Op::Uplinks => Ok(result(words::uplinks(visit.world, visit.space()?))),
        Op::AddUplink => add_uplink(visit),
        Op::ChangeUplink | Op::RemoveUplink => change_uplink(visit, op),
        Op::Notes => visit.notes(Noting::List, |v| Ok(&mut v.space_mut()?.notes)),
        Op::AddNote => visit.notes(Noting::Add, |v| Ok(&mut v.space_mut()?.notes)),
        Op::ChangeNote => visit.notes(Noting::Change, |v| Ok(&mut v.space_mut()?.notes)),
        Op::DeleteNote => visit.notes(Noting::Delete, |v| Ok(&mut v.space_mut()?.notes)),
        Op::CustomerQuota => Ok(Reply::json(words::customer_quota(visit.world, visit.customer()))),
        Op::SetCustomerQuota => set_customer_quota(visit),
        Op::Consumption => Ok(result(words::consumption(visit.world, visit.customer()))),
    }
}

fn create(visit: &mut Visit<'_>) -> Result<Reply, Reply> {
    let space = described(visit)?;
    let (id, takes) = (space.cloudspace_id.clone(), visit.world.rules.cloudspace_time);
    let mut space = space;
    space.begin("DEPLOYING", "DEPLOYED", visit.now, takes);
    visit.world.cloudspaces.push(space);
    Ok(Reply::json(json!({ "cloudspace_id": id })))
}

/// The cloudspace that a call describes, if it may be made (vco-api.md 4.1).
fn described(visit: &mut Visit<'_>) -> Result<Cloudspace, Reply> {
    let text = |key: &str| visit.body[key].as_str().unwrap_or_default().to_owned();
    let (name, location, network) = (text("name"), text("location"), text("private_network"));
    let firewall = object(visit.body, "firewall").cloned().unwrap_or_default();
    let customer_id = visit.customer().to_owned();
    let local_domain = text("local_domain");
    if visit.site(&location)?.storage_only {
        return Err(Reply::error(400, format!("Location {location} is storage only")));
    }
    visit.reach(&location)?;
    if firewall.contains_key("custom") || firewall.contains_key("parent_cloudspace_id") {
        let why = "NotImplementedError: the embedded cloud has no custom or nested firewalls";
        return Err(Reply::error(501, why));
    }
    free_name(visit.world, &customer_id, &name, "")?;
    if !network.is_empty() && Range::parse(&network).is_none() {
        return Err(Reply::error(400, format!("{network} is not a network address")));
    }
    let private = firewall.get("private").and_then(Value::as_bool).unwrap_or(false);
    let number = visit.world.take_cloudspace_number();
    let mut space = Cloudspace {
        cloudspace_id: Cloudspace::id_of(&location, number),
        number,
        customer_id,
        name,
        status: "VIRTUAL".into(),
        private_network: network,
        local_domain,
        private,
        quota: quota_of(visit.body),
        created: visit.unix,
        location,
        ..Cloudspace::default()
    };
    if !private {
        let wanted = firewall.get("external_network_id").and_then(Value::as_u64);
        space.uplinks.push(first_uplink(visit, &space, wanted)?);
    }
    Ok(space)
}

fn quota_of(body: &Value) -> Quota {
    let whole = |key: &str| body[key].as_i64().unwrap_or(-1);
    Quota {
        vcpu: whole("vcpu_quota"),
        memory: body["memory_quota"].as_f64().unwrap_or(-1.0),
        vdisk_space: whole("vdisk_space_quota"),
        public_ip: whole("public_ip_quota"),
        external_network: -1,
    }
}

/// The address of a new firewall: of the network that is named, else of the first.
fn first_uplink(
    visit: &mut Visit<'_>,
    space: &Cloudspace,
    wanted: Option<u64>,
) -> Result<Uplink, Reply> {
    if space.quota.public_ip == 0 {
        return Err(Reply::error(400, "The quota must allow at least one public ip"));
    }
    quota::room(visit.world, space, Want { ips: 1, ..Want::default() })?;
    let first = |w: &World| {
        let site = w.locations.iter().find(|s| s.location == space.location);
        site.and_then(|s| s.external_networks.first()).map(|n| n.external_network_id)
    };
    let none = || Reply::error(503, "No external ip address is free");
    let external_network_id = wanted.or_else(|| first(visit.world)).ok_or_else(none)?;
    known_network(visit, &space.location, external_network_id)?;
    let ip = visit.world.public_address(&space.location, external_network_id, "")?;
    Ok(Uplink { external_network_id, ip, metric: 1 })
}

fn known_network(visit: &mut Visit<'_>, location: &str, id: u64) -> Result<(), Reply> {
    let site = visit.site(location)?;
    let unknown = || Reply::error(404, "External network not found");
    site.external(id).map(|_| ()).ok_or_else(unknown)
}

/// Names are unique per customer, the recycle bin included (vco-api.md 4.1, G8S, G8D).
fn free_name(world: &World, customer: &str, name: &str, but: &str) -> Result<(), Reply> {
    if name.trim().is_empty() {
        return Err(Reply::error(400, "ValidationError: name is empty"));
    }
    let binned = world.rules.binned_names_reserved;
    let counts = |c: &&Cloudspace| {
        c.customer_id == customer
            && c.cloudspace_id != but
            && c.exists()
            && (binned || c.status != "DELETED")
    };
    let mut others = world.cloudspaces.iter().filter(counts);
    if world.rules.unique_cloud_names && others.any(|c| c.name == name) {
        return Err(Reply::error(409, format!("Cloudspace with name {name} already exists")));
    }
    Ok(())
}

fn read(visit: &mut Visit<'_>) -> Result<Reply, Reply> {
    let id = visit.call.in_path("cloudspace_id");
    let destroyed = visit.world.cloudspace(id).filter(|c| c.customer_id == visit.customer());
    if let Some(space) = destroyed.filter(|c| !c.exists() && visit.world.rules.destroyed_readable) {
        return Ok(Reply::json(words::detail(space, visit.world)));
    }
    let which = if visit.world.rules.bin_visible { Which::Binned } else { Which::Living };
    let at = visit.space_at(which)?;
    Ok(Reply::json(words::detail(&visit.world.cloudspaces[at], visit.world)))
}

/// `DELETE`: not while machines are there (409), nor while it is DEPLOYING (400, G8S).
fn delete(visit: &mut Visit<'_>) -> Result<Reply, Reply> {
    let permanently = visit.flag("permanently");
    let at = visit.space_at(Which::Binned)?;
    let (gone, now, unix) = (visit.gone("Cloudspace"), visit.now, visit.unix);
    let takes = visit.world.rules.delete_time;
    let space = &mut visit.world.cloudspaces[at];
    idle("Cloudspace", space.doing.as_ref())?;
    if space.status == "DELETED" && !permanently {
        return Err(gone);
    }
    if space.status == "DEPLOYING" {
        return Err(Reply::error(400, "Cloudspace is DEPLOYING"));
    }
    if space.vms.iter().any(super::world::Vm::lives) {
        return Err(Reply::error(409, "Cloudspace still has virtual machines"));
    }
    space.deleted = unix;
    if permanently {
        space.begin("DESTROYING", "DESTROYED", now, takes);
        destroy(visit.world, at);
    } else {
        space.begin("DELETING", "DELETED", now, takes);
    }
    Ok(Reply::success())
}

/// What goes with a cloudspace for good: all that is in it, the recycle bin included (G8S).
fn destroy(world: &mut World, at: usize) {
    let space = &mut world.cloudspaces[at];
    let location = space.location.clone();
    let ids: Vec<u64> = space.vms.iter().map(|vm| vm.vm_id).collect();
    for vm in &mut space.vms {
        "DESTROYED".clone_into(&mut vm.status);
    }
    space.uplinks.clear();
    space.notes.clear();
    space.groups.clear();
    space.pools.clear();
    space.balancers.clear();
    space.forwards.clear();
    let Some(site) = world.find_site(&location) else { return };
    for disk in site.disks.iter_mut().filter(|d| ids.contains(&d.vm_id) && d.is_binned()) {
        "DESTROYED".clone_into(&mut disk.status);
    }
}

/// `PUT …/restore`: only from the bin, else 400 (G8S).
fn restore(visit: &mut Visit<'_>) -> Result<Reply, Reply> {
    let at = visit.space_at(Which::Binned)?;
    let space = &mut visit.world.cloudspaces[at];
    if space.status != "DELETED" || space.doing.is_some() {
        return Err(Reply::error(400, "Only deleted cloudspaces can be restored"));
    }
    space.deleted = 0.0;
    let takes = visit.world.rules.cloudspace_time;
    space.begin("RESTORING", "DEPLOYED", visit.now, takes);
    Ok(Reply::success())
}

fn rename(visit: &mut Visit<'_>) -> Result<Reply, Reply> {
    let name = visit.text("name").to_owned();
    let at = visit.space_at(Which::Living)?;
    let id = visit.call.in_path("cloudspace_id");
    free_name(visit.world, visit.customer(), &name, id)?;
    visit.world.cloudspaces[at].name = name;
    Ok(Reply::success())
}

/// `PUT …/quota`: what is left out is unlimited (vco-api.md 4.1).
fn set_quota(visit: &mut Visit<'_>) -> Result<Reply, Reply> {
    let whole = |name: &str| visit.number(name).unwrap_or(-1);
    let quota = Quota {
        vcpu: whole("vcpu_quota"),
        memory: visit.text("memory_quota").parse().unwrap_or(-1.0),
        vdisk_space: whole("vdisk_space_quota"),
        public_ip: whole("public_ip_quota"),
        external_network: whole("external_network_quota"),
    };
    visit.space_mut()?.quota = quota;
    Ok(Reply::success())
}

fn set_customer_quota(visit: &mut Visit<'_>) -> Result<Reply, Reply> {
    let customer = visit.customer().to_owned();
    for row in visit.body["locations"].as_array().into_iter().flatten() {
        let location = row["name"].as_str().unwrap_or_default();
        if visit.world.find_site(location).is_none() {
            return Err(Reply::error(404, format!("Location {location} not found")));
        }
        let mine = |a: &quota::Allowance| a.customer_id == customer && a.location == location;
        visit.world.allowances.retain(|a| !mine(a));
        visit.world.allowances.push(quota::Allowance::read(&customer, location, &row["resources"]));
    }
    if let Some(text) = visit.body["resource_limit_message"].as_str() {
        text.clone_into(&mut visit.world.resource_limit_message);
    }
    Ok(Reply::new(200, super::reply::Payload::Nothing))
}

/// Free networks of 256 addresses: none that overlaps one of the customer's (vco-api.md 4.2).
fn free_subnets(visit: &Visit<'_>) -> Reply {
    let wanted = usize::try_from(visit.count("number_of_networks").unwrap_or(1)).unwrap_or(1);
    let mine = visit.world.cloudspaces.iter();
    let mine = mine.filter(|c| c.customer_id == visit.customer() && c.exists());
    let taken: Vec<Range> = mine.filter_map(Cloudspace::range).collect();
    let low = (103..=254).chain(0..103).map(|n| format!("192.168.{n}.0/24"));
    let all = low.chain((0..=255).map(|n| format!("10.77.{n}.0/24")));
    let free = all.filter(|text| {
        Range::parse(text).is_some_and(|range| !taken.iter().any(|t| t.overlaps(range)))
    });
    result(free.take(wanted).map(|text| json!({ "ip_address": text })))
}

/// `GET {L}/external-networks…`.
fn external(visit: &mut Visit<'_>, op: Op) -> Result<Reply, Reply> {
    let location = visit.call.in_path("location").to_owned();
    if op == Op::Networks {
        let networks = &visit.site(&location)?.external_networks;
        return Ok(result(networks.iter().map(words::network)));
    }
    let id = visit.call.number("external_network_id");
    known_network(visit, &location, id)?;
    if op == Op::PublicAddresses {
        let free = visit.world.free_public(&location, id);
        return Ok(Reply::json(json!({ "ip_addresses": free })));
    }
    let network = visit.site(&location)?.external(id).map(words::network);
    Ok(Reply::json(network.unwrap_or_default()))
}

/// `POST {CS}/external-networks`: an empty address means any (vco-api.md 4.3, PU).
fn add_uplink(visit: &mut Visit<'_>) -> Result<Reply, Reply> {
    let space = visit.working()?.clone();
    let id = visit.text("external_network_id").parse().unwrap_or(0);
    known_network(visit, &space.location, id)?;
    if visit.text("external_network_type") != "external" {
        return Err(Reply::error(501, "NotImplementedError: the embedded cloud has no others"));
    }
    quota::room(visit.world, &space, Want { ips: 1, ..Want::default() })?;
    let wanted = visit.text("external_network_ip");
    let ip = visit.world.public_address(&space.location, id, wanted)?;
    // Without one, it has the lowest priority (vco-api.md 4.3).
    let last = space.uplinks.iter().map(|u| u.metric).max().unwrap_or(0) + 1;
    let metric = visit.count("metric").unwrap_or(last);
    let uplink = Uplink { external_network_id: id, ip, metric };
    let shown = words::with_length(visit.world, &space.location, &uplink);
    visit.working()?.uplinks.push(uplink);
    Ok(Reply::json(json!({
        "success": true, "external_network_id": id, "external_network_ip": shown, "metric": metric,
    })))
}

/// `PUT` and `DELETE {CS}/external-networks`: the pair of network and address is the id; the
/// address may have its prefix length or not (vco-api.md 4.3, inference).
fn change_uplink(visit: &mut Visit<'_>, op: Op) -> Result<Reply, Reply> {
    let id: u64 = visit.text("external_network_id").parse().unwrap_or(0);
    let given = visit.text("external_network_ip");
    let ip = given.split('/').next().unwrap_or_default().to_owned();
    let metric = visit.count("metric").unwrap_or(1);
    let space = visit.working()?;
    let mine = |u: &Uplink| u.external_network_id == id && u.ip == ip;
    let unknown = || Reply::error(404, "Cloudspace has no such external network");
    let at = space.uplinks.iter().position(mine).ok_or_else(unknown)?;
    if op == Op::ChangeUplink {
        space.uplinks[at].metric = metric;
    } else if space.uplinks.len() == 1 {
        return Err(Reply::error(400, "The last external network cannot be removed"));
    } else {
        space.uplinks.remove(at);
    }
    Ok(Reply::success())
}
