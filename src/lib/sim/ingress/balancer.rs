//! Load balancers: whether one may be made, and that it listens then.

use serde_json::{Value, json};

use super::super::reply::Reply;
use super::super::visit::{Visit, object, result};
use super::super::world::{Balancer, Cloudspace, Tls};
use super::front::Fronts;
use super::operations::Op;
use super::words;

/// `…/ingress/load-balancers…`.
pub(super) fn answer(visit: &mut Visit<'_>, op: Op, fronts: &mut Fronts) -> Result<Reply, Reply> {
    match op {
        Op::Balancers => {
            let space = visit.space()?;
            Ok(result(space.balancers.iter().map(|b| words::balancer_row(space, b))))
        }
        Op::Balancer => {
            let space = visit.space()?;
            Ok(Reply::json(words::balancer(&space.balancers[at(visit, space)?])))
        }
        Op::AddBalancer => {
            let mut made = described(visit, "")?;
            let space = visit.working()?;
            made.loadbalancer_id = space.take_id("lb");
            let id = made.loadbalancer_id.clone();
            space.balancers.push(made);
            listening(visit, fronts, &id, |space, at| drop(space.balancers.remove(at)))?;
            Ok(Reply::json(json!({ "id": id })))
        }
        Op::ChangeBalancer => {
            let at = at(visit, visit.space()?)?;
            let id = visit.call.in_path("loadbalancer_id").to_owned();
            let mut made = described(visit, &id)?;
            made.loadbalancer_id.clone_from(&id);
            let old = std::mem::replace(&mut visit.working()?.balancers[at], made);
            listening(visit, fronts, &id, |space, at| space.balancers[at] = old)?;
            Ok(Reply::success())
        }
        _ => {
            let at = at(visit, visit.space()?)?;
            visit.working()?.balancers.remove(at);
            Ok(Reply::success())
        }
    }
}

fn at(visit: &Visit<'_>, space: &Cloudspace) -> Result<usize, Reply> {
    let id = visit.call.in_path("loadbalancer_id");
    let at = space.balancers.iter().position(|b| b.loadbalancer_id == id);
    at.ok_or_else(|| Reply::error(404, "Load balancer not found"))
}

/// Opens the front end; where that fails, everything is as before, and the answer says why.
fn listening(
    visit: &mut Visit<'_>,
    fronts: &mut Fronts,
    id: &str,
    undo: impl FnOnce(&mut Cloudspace, usize),
) -> Result<(), Reply> {
    fronts.keep_up(visit.world);
    let Some(why) = fronts.failure(id).map(str::to_owned) else { return Ok(()) };
    let space = visit.working()?;
    if let Some(at) = space.balancers.iter().position(|b| b.loadbalancer_id == id) {
        undo(space, at);
    }
    fronts.keep_up(visit.world);
    Err(Reply::error(500, format!("G8Error: the front end cannot be opened: {why}")))
}

/// The load balancer that a call describes; `but` is the id of the one that it replaces.
fn described(visit: &mut Visit<'_>, but: &str) -> Result<Balancer, Reply> {
    let body = visit.body.clone();
    let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
    let (front, back) = (&body["front_end"], &body["back_end"]);
    let kind = text(&body, "type");
    if !["tcp", "udp"].contains(&kind.to_lowercase().as_str()) {
        return Err(Reply::error(400, "ValidationError: type is TCP or UDP"));
    }
    let port = |value: &Value| {
        let port = value.as_u64().and_then(|n| u16::try_from(n).ok()).filter(|n| *n > 0);
        port.ok_or_else(|| Reply::error(400, "ValidationError: a port is not valid"))
    };
    let tls = object(front, "tls").cloned().map(Value::Object).unwrap_or_default();
    let made = Balancer {
        loadbalancer_id: String::new(),
        name: text(&body, "name"),
        description: text(&body, "description"),
        locked: body["locked"].as_bool().unwrap_or(false),
        kind,
        port: port(&front["port"])?,
        ip_address: text(front, "ip_address"),
        tls: Tls {
            is_enabled: tls["is_enabled"].as_bool().unwrap_or(false),
            domain: text(&tls, "domain"),
            tls_termination: tls["tls_termination"].as_bool().unwrap_or(false),
        },
        serverpool_id: text(back, "serverpool_id"),
        target_port: port(&back["target_port"])?,
    };
    fits(visit.working()?, &made, but)?;
    Ok(made)
}

/// Whether the pool is there, the address is the cloudspace's, and the front end is free (409,
/// inference: the address can be listened on once).
fn fits(space: &Cloudspace, made: &Balancer, but: &str) -> Result<(), Reply> {
    if space.pool(&made.serverpool_id).is_none() {
        return Err(Reply::error(404, "Server pool not found"));
    }
    let addresses = addresses(space, made);
    if addresses.is_empty() {
        return Err(Reply::error(400, "The cloudspace has no such external ip address"));
    }
    let others = space.balancers.iter().filter(|b| b.loadbalancer_id != but);
    let mut same = others
        .filter(|b| b.port == made.port && b.kind.eq_ignore_ascii_case(&made.kind))
        .filter(|b| self::addresses(space, b).iter().any(|ip| addresses.contains(ip)));
    match same.next() {
        Some(rival) => {
            Err(Reply::error(409, format!("Port {} is used by {}", made.port, rival.name)))
        }
        None => Ok(()),
    }
}

/// The external addresses that a front end is on.
pub(super) fn addresses(space: &Cloudspace, balancer: &Balancer) -> Vec<String> {
    let wanted = balancer.ip_address.split('/').next().unwrap_or_default();
    let all = space.uplinks.iter().map(|u| u.ip.clone());
    all.filter(|ip| wanted.is_empty() || ip == wanted).collect()
}
