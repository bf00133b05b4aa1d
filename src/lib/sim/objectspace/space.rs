//! What is done to objectspaces as a whole: create, delete, restore, reset, link, annotate.

use serde_json::{Value, json};

use super::super::reply::Reply;
use super::super::rules::LockedData;
use super::super::world::World;
use super::operations::Op;
use super::record::{Link, Note, Objectspace, Pair, State};
use super::{Visit, failed, gone, locked, unserved, words};

/// `POST {C}/objectspaces`.
pub(super) async fn create(visit: &Visit<'_>, body: &Value) -> Result<Reply, Reply> {
    let space = describe(visit, body)?;
    let mut turn = visit.cloud.stores.turn(&space.objectspace_id).await;
    let ready = super::furnished(visit.cloud, &space, &mut turn).await;
    ready.map_err(|trouble| unserved(&trouble))?;
    let id = space.objectspace_id.clone();
    visit.cloud.lock().world.objectspaces.push(space);
    Ok(Reply::json(json!({ "objectspace_id": id })))
}

/// The objectspace that the call describes, if it may be made.
fn describe(visit: &Visit<'_>, body: &Value) -> Result<Objectspace, Reply> {
    let text = |name: &str| visit.call.arg(name).unwrap_or_default().to_owned();
    let (name, location) = (text("name"), text("location"));
    let customer_id = visit.call.in_path("customer_id").to_owned();
    let mut state = visit.cloud.lock();
    let world = &mut state.world;
    let down = world.find_site(&location).map(|site| site.down);
    let broken = visit.broken == Some(location.as_str());
    if down.ok_or_else(super::super::images::no_access)? || broken {
        return Err(Reply::error(503, format!("G8Error: location {location} does not answer")));
    }
    if name.trim().is_empty() {
        return Err(Reply::error(400, "ValidationError: name is empty"));
    }
    let (unique, binned) = (world.rules.unique_names, world.rules.binned_names_reserved);
    let rival = |o: &Objectspace| match o.state {
        State::Deployed => true,
        State::Deleted => binned,
        State::Destroyed => false,
    };
    let own = |o: &&Objectspace| o.customer_id == customer_id && o.location == location;
    if unique && world.objectspaces.iter().filter(own).any(|o| o.name == name && rival(o)) {
        return Err(Reply::error(409, format!("Objectspace with name {name} already exists")));
    }
    let ready = visit.cloud.clock.elapsed() + world.rules.objectspace_time;
    let created = visit.cloud.clock.unix();
    let domain = body["domain"].as_str().unwrap_or_default().to_owned();
    let mut space = Objectspace {
        customer_id,
        location,
        name,
        domain,
        created,
        ready,
        ..Objectspace::default()
    };
    space.complete(world.take_objectspace_number());
    if !space.domain.is_empty() {
        publish(world, &mut space, &body["cloudspace"])?;
    }
    Ok(space)
}

/// Links the cloudspace that publishes it, which is made if it is not named (vco-api.md 10.1).
fn publish(world: &mut World, space: &mut Objectspace, through: &Value) -> Result<(), Reply> {
    let given = through["cloudspace_id"].as_str().unwrap_or_default();
    let id = match (given, through["subnet"].as_str()) {
        ("", Some(subnet)) => {
            let name = format!("{}-space", space.name);
            world.add_cloudspace(&space.customer_id, &space.location, &name, subnet)
        }
        ("", None) => return Err(Reply::error(400, "ValidationError: no cloudspace, no subnet")),
        (id, _) => id.to_owned(),
    };
    link(world, space, &id)
}

/// Whether the cloudspace may reach the objectspace (vco-api.md 10.1, WEB), and then it does.
fn link(world: &World, space: &mut Objectspace, cloudspace: &str) -> Result<(), Reply> {
    let find = |id: &str| world.cloudspaces.iter().find(|c| c.cloudspace_id == id);
    let own = find(cloudspace).filter(|c| c.customer_id == space.customer_id);
    let new = own.ok_or_else(|| Reply::error(404, "Cloudspace not found"))?;
    if new.location != space.location {
        let why = "Cloudspace and objectspace are not at the same location";
        return Err(Reply::error(400, why));
    }
    if space.links.iter().any(|l| l.cloudspace_id == cloudspace) {
        return Err(Reply::error(409, "Objectspace is already connected"));
    }
    let network = new.range();
    let others = space.links.iter().filter_map(|l| find(&l.cloudspace_id)?.range());
    if network.is_some_and(|network| others.into_iter().any(|o| o.overlaps(network))) {
        return Err(Reply::error(400, "Private networks of connected cloudspaces overlap"));
    }
    // From the top of the range down, as machines (vco-api.md 4.2, G8S).
    let ip_address = world.free_private(new).pop().unwrap_or_default();
    space.links.push(Link { cloudspace_id: cloudspace.into(), ip_address });
    Ok(())
}

/// `GET`, `POST`, `DELETE {CS}/objectspaces`.
pub(super) fn links(visit: &Visit<'_>, op: Op) -> Result<Reply, Reply> {
    let (customer, id) = (visit.call.in_path("customer_id"), visit.call.in_path("cloudspace_id"));
    if op == Op::Links {
        let world = &visit.cloud.lock().world;
        let mut spaces = world.cloudspaces.iter();
        if !spaces.any(|c| c.cloudspace_id == id && c.customer_id == customer) {
            return Err(Reply::error(404, "Cloudspace not found"));
        }
        let url = visit.url(world);
        return Ok(Reply::json(words::linked(world, id, visit.shown(), &url)));
    }
    let mut space = visit.find(visit.call.arg("objectspace_id").unwrap_or_default(), false)?;
    if op == Op::Link {
        link(&visit.cloud.lock().world, &mut space, id)?;
    } else {
        let before = space.links.len();
        space.links.retain(|l| l.cloudspace_id != id);
        if space.links.len() == before {
            return Err(Reply::error(404, "Objectspace is not connected"));
        }
    }
    visit.change(&space, |there| there.links.clone_from(&space.links));
    Ok(Reply::success())
}

/// `DELETE {C}/objectspaces/{objectspace_id}`.
pub(super) async fn delete(visit: &Visit<'_>) -> Result<Reply, Reply> {
    let permanently = visit.call.flag("permanently", false);
    let mut turn = visit.cloud.stores.turn(visit.id()).await;
    let space = visit.find(visit.id(), permanently)?;
    if space.state == State::Deleted && !permanently {
        return Err(gone(visit.cloud.lock().world.rules.gone_status, "Objectspace"));
    }
    if !permanently {
        visit.cloud.stores.shut(visit.id());
        let now = visit.cloud.clock.unix();
        visit.change(&space, |space| {
            (space.state, space.deleted) = (State::Deleted, now);
            space.links.clear();
        });
        return Ok(Reply::success());
    }
    let kept = visit.cloud.lock().world.rules.locked_data == LockedData::Refused;
    let locking: Vec<_> = space.buckets.iter().filter(|b| b.locking).collect();
    if kept && !locking.is_empty() {
        let s3 = visit.s3(&space, &mut turn).await?;
        for bucket in locking.into_iter().filter(|b| b.state == State::Deployed) {
            if locked::locked(&s3, bucket).await.map_err(failed)? {
                if space.state == State::Deleted {
                    visit.cloud.stores.shut(visit.id());
                }
                return Err(still_locked(&bucket.name));
            }
        }
    }
    visit.cloud.stores.forget(visit.id(), &mut turn);
    visit.change(&space, |space| {
        space.state = State::Destroyed;
        space.links.clear();
    });
    Ok(Reply::success())
}

/// The refusal to destroy what is locked; status and words are inference (vco-api.md 10.2).
pub(super) fn still_locked(bucket: &str) -> Reply {
    Reply::error(409, format!("Bucket {bucket} holds objects that are locked"))
}

/// `PUT {C}/objectspaces/{objectspace_id}/restore`: only from the bin, else 400, as cloudspaces
/// have it (G8S).
pub(super) async fn restore(visit: &Visit<'_>) -> Result<Reply, Reply> {
    let mut turn = visit.cloud.stores.turn(visit.id()).await;
    let space = visit.find(visit.id(), true)?;
    if space.state != State::Deleted {
        return Err(Reply::error(400, "Only deleted objectspaces can be restored"));
    }
    visit.s3(&space, &mut turn).await?;
    visit.change(&space, |space| (space.state, space.deleted) = (State::Deployed, 0.0));
    Ok(Reply::success())
}

/// `PUT {C}/objectspaces/{objectspace_id}/reset`: whatever uses the old keys breaks at once.
pub(super) async fn reset(visit: &Visit<'_>) -> Result<Reply, Reply> {
    let (space, mut turn) = visit.working().await?;
    let s3 = visit.s3(&space, &mut turn).await?;
    let new = Pair::random();
    s3.create_user(&new, "admin").await.map_err(failed)?;
    s3.delete_user(&space.root.access_key).await.map_err(failed)?;
    let reply = json!({"access_key": new.access_key, "secret_key": new.secret});
    visit.change(&space, |space| space.root = new);
    Ok(Reply::json(reply))
}

/// `GET`, `POST`, `PUT`, `DELETE …/notes`.
pub(super) fn notes(visit: &Visit<'_>, op: Op, body: &Value) -> Result<Reply, Reply> {
    let mut space = visit.space()?;
    if op == Op::Notes {
        return Ok(Reply::json(words::notes(&space.notes, &visit.cloud.lock().world.username)));
    }
    let now = visit.cloud.clock.unix();
    let text = |key: &str| body[key].as_str().unwrap_or_default().to_owned();
    let (title, content) = (text("title"), text("content"));
    let id = visit.call.in_path("note_id");
    let at = space.notes.iter().position(|n| n.id == id);
    match (op, at) {
        (Op::AddNote, _) => {
            let numbers =
                space.notes.iter().filter_map(|n| n.id.strip_prefix("note-")?.parse().ok());
            let id = format!("note-{}", numbers.max().unwrap_or(0_u64) + 1);
            space.notes.push(Note { id, title, content, created: now, updated: now });
        }
        (Op::ChangeNote, Some(at)) => {
            let created = space.notes[at].created;
            space.notes[at] = Note { id: id.into(), title, content, created, updated: now };
        }
        (_, Some(at)) => drop(space.notes.remove(at)),
        (_, None) => return Err(Reply::error(404, "Note not found")),
    }
    visit.change(&space, |there| there.notes.clone_from(&space.notes));
    Ok(Reply::success())
}
