//! Ingress: port forwards, server pools and load balancers of a cloudspace.
//!
//! What may enter: facts with an evidence tag, as in the whole room. Invariants: a load balancer
//! of a cloudspace that works really listens on its front end (`front`), without any health
//! check; nothing listens for port forwards and UDP.
//!
//! To add an operation: a row in `operations`, an arm here, its body in `words`.

mod balancer;
mod forward;
pub(super) mod front;
pub(super) mod operations;
pub mod record;
mod words;

use serde_json::json;

use super::reply::Reply;
use super::visit::{Visit, result};
use super::world::{Cloudspace, Host, Pool};
use front::Fronts;
use operations::Op;

/// Carries out a call about ingress.
pub(super) fn answer(visit: &mut Visit<'_>, op: Op, fronts: &mut Fronts) -> Result<Reply, Reply> {
    match op {
        Op::Forwards | Op::AddForward | Op::Forward | Op::ChangeForward | Op::DeleteForward => {
            forward::answer(visit, op)
        }
        Op::Balancers
        | Op::AddBalancer
        | Op::Balancer
        | Op::ChangeBalancer
        | Op::DeleteBalancer => balancer::answer(visit, op, fronts),
        Op::Pools => Ok(result(visit.space()?.pools.iter().map(words::pool_row))),
        Op::AddPool => add_pool(visit),
        Op::Pool => {
            let space = visit.space()?;
            Ok(Reply::json(words::pool(&space.pools[pool_at(visit, space)?])))
        }
        Op::ChangePool => change_pool(visit),
        Op::DeletePool => delete_pool(visit),
        Op::Hosts => {
            let space = visit.space()?;
            let pool = &space.pools[pool_at(visit, space)?];
            Ok(result(pool.hosts.iter().map(words::host)))
        }
        Op::AddHost => add_host(visit),
        Op::RemoveHost => remove_host(visit),
    }
}

fn pool_at(visit: &Visit<'_>, space: &Cloudspace) -> Result<usize, Reply> {
    let id = visit.call.in_path("serverpool_id");
    let at = space.pools.iter().position(|p| p.serverpool_id == id);
    at.ok_or_else(|| Reply::error(404, "Server pool not found"))
}

fn pool_mut<'v>(visit: &'v mut Visit<'_>) -> Result<&'v mut Pool, Reply> {
    let at = pool_at(visit, visit.space()?)?;
    Ok(&mut visit.working()?.pools[at])
}

/// Names of pools may repeat: no rule is known.
fn add_pool(visit: &mut Visit<'_>) -> Result<Reply, Reply> {
    let (name, description) = (visit.text("name").to_owned(), visit.text("description").to_owned());
    if name.trim().is_empty() {
        return Err(Reply::error(400, "ValidationError: name is empty"));
    }
    let space = visit.working()?;
    let id = space.take_id("pool");
    let pool = Pool { serverpool_id: id.clone(), name, description, ..Pool::default() };
    space.pools.push(pool);
    Ok(Reply::json(json!({ "id": id })))
}

/// `PUT`: without `locked` it is false again (vco-api.md 7.2, inference).
fn change_pool(visit: &mut Visit<'_>) -> Result<Reply, Reply> {
    let given = |name: &str| visit.call.arg(name).map(str::to_owned);
    let (name, description, locked) = (given("name"), given("description"), visit.flag("locked"));
    let pool = pool_mut(visit)?;
    pool.name = name.unwrap_or_else(|| pool.name.clone());
    pool.description = description.unwrap_or_else(|| pool.description.clone());
    pool.locked = locked;
    Ok(Reply::success())
}

/// One that a load balancer uses stays: 409 (inference).
fn delete_pool(visit: &mut Visit<'_>) -> Result<Reply, Reply> {
    let at = pool_at(visit, visit.space()?)?;
    let space = visit.working()?;
    let id = &space.pools[at].serverpool_id;
    if space.balancers.iter().any(|b| b.serverpool_id == *id) {
        return Err(Reply::error(409, "Server pool is used by a load balancer"));
    }
    space.pools.remove(at);
    Ok(Reply::success())
}

/// An address may be in a pool twice: no rule is known.
fn add_host(visit: &mut Visit<'_>) -> Result<Reply, Reply> {
    let address = visit.text("address").to_owned();
    if address.trim().is_empty() {
        return Err(Reply::error(400, "ValidationError: address is empty"));
    }
    let at = pool_at(visit, visit.space()?)?;
    let space = visit.working()?;
    let host = Host { host_id: space.take_id("host"), address };
    let reply = words::host(&host);
    space.pools[at].hosts.push(host);
    Ok(Reply::json(reply))
}

fn remove_host(visit: &mut Visit<'_>) -> Result<Reply, Reply> {
    let id = visit.call.in_path("host_id").to_owned();
    let pool = pool_mut(visit)?;
    let at = pool.hosts.iter().position(|h| h.host_id == id);
    let at = at.ok_or_else(|| Reply::error(404, "Host not found"))?;
    pool.hosts.remove(at);
    Ok(Reply::success())
}
