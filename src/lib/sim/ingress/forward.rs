//! Port forwards: recorded, and held against each other.

use serde_json::json;

use super::super::reply::Reply;
use super::super::visit::{Visit, Which, result};
use super::super::world::{Cloudspace, Forward};
use super::operations::Op;
use super::words;

/// `…/portforwards…`.
pub(super) fn answer(visit: &mut Visit<'_>, op: Op) -> Result<Reply, Reply> {
    match op {
        Op::Forwards => {
            let space = visit.space()?;
            Ok(result(space.forwards.iter().map(|f| words::forward(space, f))))
        }
        Op::Forward => {
            let space = visit.space()?;
            Ok(Reply::json(words::forward(space, &space.forwards[at(visit, space)?])))
        }
        Op::AddForward => {
            let mut made = described(visit, "")?;
            let space = visit.working()?;
            made.portforward_id = space.take_id("pf");
            let id = made.portforward_id.clone();
            space.forwards.push(made);
            Ok(Reply::json(json!({ "portforward_id": id })))
        }
        Op::ChangeForward => {
            let at = at(visit, visit.space()?)?;
            let id = visit.call.in_path("portforward_id").to_owned();
            let mut made = described(visit, &id)?;
            let changes = visit.world.rules.forward_ids_change;
            let space = visit.working()?;
            made.portforward_id = if changes { space.take_id("pf") } else { id };
            space.forwards[at] = made;
            Ok(Reply::success())
        }
        _ => {
            let at = at(visit, visit.space()?)?;
            let space = visit.working()?;
            space.forwards.remove(at);
            Ok(result(space.forwards.iter().map(|f| words::old_forward(space, f))))
        }
    }
}

fn at(visit: &Visit<'_>, space: &Cloudspace) -> Result<usize, Reply> {
    let id = visit.call.in_path("portforward_id");
    let at = space.forwards.iter().position(|f| f.portforward_id == id);
    at.ok_or_else(|| Reply::error(404, "Port forward not found"))
}

/// The port forward that a call describes; `but` is the id of the one that it replaces.
fn described(visit: &mut Visit<'_>, but: &str) -> Result<Forward, Reply> {
    let space = visit.working()?.clone();
    let port = |name: &str| {
        let port = visit.count(name).and_then(|n| u16::try_from(n).ok()).filter(|n| *n > 0);
        port.ok_or_else(|| Reply::error(400, format!("ValidationError: {name} is no port")))
    };
    let till = visit.call.arg("till_public_port").map(|_| port("till_public_port")).transpose()?;
    let given = visit.text("public_ip").split('/').next().unwrap_or_default();
    let first = space.external_ip().unwrap_or_default();
    let public_ip = if given.is_empty() { first } else { given };
    if !space.uplinks.iter().any(|u| u.ip == public_ip) {
        return Err(Reply::error(400, "The cloudspace has no such external ip address"));
    }
    if visit.call.arg("nested_cs_id").is_some() {
        return Err(Reply::error(
            501,
            "NotImplementedError: the embedded cloud has no nested ones",
        ));
    }
    let vm_id = visit.count("vm_id").unwrap_or(0);
    let (_, index) = visit.numbered_vm_at(vm_id, Which::Living)?;
    let vm = &space.vms[index];
    if vm.private_ip.is_empty() || vm.doing.as_ref().is_some_and(|d| d.word == "DEPLOYING") {
        return Err(Reply::error(404, "Virtual machine has no ip address yet"));
    }
    let made = Forward {
        portforward_id: String::new(),
        protocol: visit.text("protocol").to_owned(),
        local_port: port("local_port")?,
        public_port: port("public_port")?,
        till_public_port: till,
        public_ip: public_ip.to_owned(),
        vm_id,
    };
    free(&space, &made, but)?;
    Ok(made)
}

/// The same address, port and protocol are taken once (409, vco-api.md 7.1, G8S).
fn free(space: &Cloudspace, made: &Forward, but: &str) -> Result<(), Reply> {
    let last = |f: &Forward| f.till_public_port.unwrap_or(f.public_port);
    if last(made) < made.public_port {
        return Err(Reply::error(400, "ValidationError: the range of ports ends before it begins"));
    }
    let meets = |f: &Forward| {
        f.public_ip == made.public_ip
            && f.protocol == made.protocol
            && f.public_port <= last(made)
            && made.public_port <= last(f)
    };
    let taken = space.forwards.iter().any(|f| f.portforward_id != but && meets(f));
    let why = || Reply::error(409, format!("Public port {} is in use", made.public_port));
    if taken { Err(why()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_of_an_address_is_taken_once() {
        let forward = |ip: &str, protocol: &str, from, till| Forward {
            portforward_id: "pf-1".into(),
            public_ip: ip.into(),
            protocol: protocol.into(),
            public_port: from,
            till_public_port: till,
            ..Forward::default()
        };
        let space = Cloudspace {
            forwards: vec![forward("a", "tcp", 8000, Some(8010))],
            ..Cloudspace::default()
        };
        for (made, status) in [
            (forward("a", "tcp", 8011, None), None),
            (forward("a", "tcp", 8010, None), Some(409)),
            (forward("a", "tcp", 7000, Some(9000)), Some(409)),
            (forward("a", "udp", 8005, None), None),
            (forward("b", "tcp", 8005, None), None),
            (forward("b", "tcp", 8005, Some(8004)), Some(400)),
        ] {
            let got = free(&space, &made, "").err().map(|reply| reply.status);
            assert_eq!(got, status, "{made:?}");
        }
        assert!(free(&space, &forward("a", "tcp", 8000, None), "pf-1").is_ok());
    }
}
