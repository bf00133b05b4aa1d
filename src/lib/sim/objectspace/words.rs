//! The bodies of replies about objectspaces, in the vendor's words; pure.

use std::time::Duration;

use serde_json::{Value, json};

use super::super::words::statuses;
use super::super::world::{Cloudspace, World};
use super::record::{Bucket, Key, Note, Objectspace, State};

/// What the vendor's lists may leave out.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shown {
    pub(super) deleted: bool,
    pub(super) only_deleted: bool,
}

impl Shown {
    fn shows(self, state: State) -> bool {
        match state {
            State::Deployed => !self.only_deleted,
            State::Deleted => self.deleted || self.only_deleted,
            State::Destroyed => false,
        }
    }
}

/// A time as text: the format is not declared (vco-api.md 12.3), seconds by inference.
pub(in crate::sim) fn time(unix: f64) -> String {
    if unix > 0.0 { format!("{unix:.0}") } else { String::new() }
}

/// The address of S3 that a cloudspace is told: the private one, or, by rule, the real one.
fn address(ip_address: &str, url: Option<&str>) -> String {
    url.and_then(|url| url.strip_prefix("http://")).unwrap_or(ip_address).to_owned()
}

fn links(space: &Objectspace, world: &World, url: Option<&str>) -> Vec<Value> {
    let of = |id: &str| world.cloudspaces.iter().find(|c| c.cloudspace_id == id);
    let row = |(ip_address, c): (&str, &Cloudspace)| {
        json!({
            "name": c.name, "cloudspace_id": c.cloudspace_id,
            "ip_address": address(ip_address, url), "external_ip_address": "203.0.113.10",
            "status": c.status, "mode": "public",
        })
    };
    let links = space.links.iter();
    links.filter_map(|l| Some((l.ip_address.as_str(), of(&l.cloudspace_id)?))).map(row).collect()
}

/// `GET {C}/objectspaces`; `url` says where a server is, where replies are to say it.
pub(super) fn list(
    world: &World,
    customer: &str,
    shown: Shown,
    broken: Option<&str>,
    now: Duration,
    url: &impl Fn(&str) -> Option<String>,
) -> Value {
    let (statuses, good) = statuses(world, &[], broken);
    let mine = world.objectspaces.iter().filter(|o| o.customer_id == customer);
    let rows = mine.filter(|o| shown.shows(o.state) && good.contains(&o.location)).map(|o| {
        json!({
            "objectspace_id": o.objectspace_id, "objectspace_name": o.name,
            "status": o.status(now), "deletion_time": time(o.deleted), "location": o.location,
            "cloudspaces": links(o, world, url(&o.objectspace_id).as_deref()),
        })
    });
    json!({"locations": statuses, "result": rows.collect::<Vec<_>>()})
}

/// `GET {C}/objectspaces/{objectspace_id}`, root keys included (vco-api.md 10.1).
pub(super) fn detail(o: &Objectspace, world: &World, now: Duration, url: Option<&str>) -> Value {
    let limits = o.buckets.iter().filter(|b| b.state == State::Deployed);
    let limits = limits.map(|b| json!({"bucket_name": b.name, "limit": b.limit}));
    json!({
        "objectspace_id": o.objectspace_id, "objectspace_name": o.name, "status": o.status(now),
        "access_key": o.root.access_key, "secret": o.root.secret,
        "creation_time": time(o.created), "update_time": time(o.created.max(o.deleted)),
        "cloudspaces": links(o, world, url), "limits": limits.collect::<Vec<_>>(),
        "disk_id": 9000, "location": o.location, "domain": o.domain,
    })
}

/// `GET {CS}/objectspaces`.
pub(super) fn linked(
    world: &World,
    cloudspace: &str,
    shown: Shown,
    url: &impl Fn(&str) -> Option<String>,
) -> Value {
    let rows = world.objectspaces.iter().filter(|o| shown.shows(o.state)).filter_map(|o| {
        let link = o.links.iter().find(|l| l.cloudspace_id == cloudspace)?;
        Some(json!({
            "objectspace_id": o.objectspace_id, "objectspace_name": o.name,
            "ip_address": address(&link.ip_address, url(&o.objectspace_id).as_deref()),
        }))
    });
    json!({"result": rows.collect::<Vec<_>>()})
}

/// `GET …/buckets`.
pub(super) fn buckets(o: &Objectspace, shown: Shown) -> Value {
    let rows = o.buckets.iter().filter(|b| shown.shows(b.state)).map(|b| {
        json!({
            "bucket_name": b.name, "limit": b.limit, "deleted": b.state == State::Deleted,
            "deletion_time": time(b.deleted),
        })
    });
    json!({"result": rows.collect::<Vec<_>>()})
}

/// `GET …/buckets/{bucket_id}`.
pub(super) fn bucket(b: &Bucket) -> Value {
    json!({"name": b.name, "limit": b.limit, "deleted": b.state == State::Deleted})
}

/// A key, secret included (vco-api.md 10.3: at any time).
pub(super) fn key(key: &Key) -> Value {
    json!({
        "name": key.name, "access_type": key.access.as_str(),
        "access_key": key.pair.access_key, "secret_key": key.pair.secret,
    })
}

/// `GET …/notes`.
pub(in crate::sim) fn notes(notes: &[Note], username: &str) -> Value {
    let row = |n: &Note| {
        json!({
            "title": n.title, "content": n.content, "creation_time": n.created,
            "last_update_time": n.updated, "created_by": username, "modified_by": username,
            "id": n.id,
        })
    };
    json!({"result": notes.iter().map(row).collect::<Vec<_>>()})
}

/// The objectspaces and the buckets of `GET {C}/recycle-bin`.
pub(in crate::sim) fn binned(world: &World, customer: &str, good: &[String]) -> (Value, Value) {
    let mine = |o: &&Objectspace| o.customer_id == customer && good.contains(&o.location);
    let spaces = world.objectspaces.iter().filter(mine).filter(|o| o.state == State::Deleted);
    let spaces = spaces.map(|o| {
        json!({
            "objectspace_name": o.name, "objectspace_id": o.objectspace_id,
            "location": o.location, "deletion_time": time(o.deleted),
        })
    });
    let buckets = world.objectspaces.iter().filter(mine).flat_map(|o| {
        o.buckets.iter().filter(|b| b.state == State::Deleted).map(move |b| {
            json!({
                "bucket_name": b.name, "objectspace_name": o.name,
                "objectspace_id": o.objectspace_id, "objectspace_status": o.status(o.ready),
                "location": o.location, "deletion_time": time(b.deleted),
            })
        })
    });
    (spaces.collect(), buckets.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_leave_out_what_they_should() {
        for (state, plain, with, only) in [
            (State::Deployed, true, true, false),
            (State::Deleted, false, true, true),
            (State::Destroyed, false, false, false),
        ] {
            let shows = |deleted, only_deleted| Shown { deleted, only_deleted }.shows(state);
            assert_eq!(
                (shows(false, false), shows(true, false), shows(false, true)),
                (plain, with, only)
            );
        }
    }

    #[test]
    fn an_address_is_the_private_one_unless_it_is_to_be_the_real_one() {
        assert_eq!(address("192.168.103.254", None), "192.168.103.254");
        assert_eq!(address("192.168.103.254", Some("http://127.0.0.1:7")), "127.0.0.1:7");
    }
}
