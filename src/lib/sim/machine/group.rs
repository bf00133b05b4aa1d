//! Anti-affinity groups and who is in them.

use serde_json::{Value, json};

use super::super::reply::Reply;
use super::super::visit::{Visit, Which, result};
use super::super::world::{Cloudspace, Group};
use super::operations::Op;

/// `…/anti-affinity-groups` and `…/anti-affinity-groups/{group_id}`.
pub(super) fn answer(visit: &mut Visit<'_>, op: Op) -> Result<Reply, Reply> {
    let spread = visit.number("spread").unwrap_or(0);
    match op {
        Op::Groups => {
            let space = visit.space()?;
            Ok(result(space.groups.iter().map(|g| shown(space, g))))
        }
        Op::Group => {
            let space = visit.space()?;
            Ok(Reply::json(shown(space, &space.groups[at(visit, space)?])))
        }
        Op::AddGroup => {
            let group_id = visit.text("group_id").to_owned();
            valid(&group_id, spread)?;
            let space = visit.working()?;
            if space.groups.iter().any(|g| g.group_id == group_id) {
                return Err(Reply::error(409, format!("Group {group_id} already exists")));
            }
            space.groups.push(Group { group_id, spread, members: Vec::new() });
            Ok(Reply::success())
        }
        Op::ChangeGroup => {
            valid("-", spread)?;
            group(visit)?.spread = spread;
            Ok(Reply::success())
        }
        _ => {
            let at = at(visit, visit.space()?)?;
            visit.working()?.groups.remove(at);
            Ok(Reply::success())
        }
    }
}

fn valid(group_id: &str, spread: i64) -> Result<(), Reply> {
    if group_id.trim().is_empty() || (spread < 1 && spread != -1) {
        return Err(Reply::error(400, "ValidationError: group_id or spread is not valid"));
    }
    Ok(())
}

fn at(visit: &Visit<'_>, space: &Cloudspace) -> Result<usize, Reply> {
    let id = visit.call.in_path("group_id");
    let at = space.groups.iter().position(|g| g.group_id == id);
    at.ok_or_else(|| Reply::error(404, "Anti-affinity group not found"))
}

fn group<'v>(visit: &'v mut Visit<'_>) -> Result<&'v mut Group, Reply> {
    let at = at(visit, visit.space()?)?;
    Ok(&mut visit.working()?.groups[at])
}

/// INCOMPLETE was seen on a group without members (vco-api.md 5.6, PU); COMPLETE, where its
/// members are on as many hosts as they should be, is inference.
fn shown(space: &Cloudspace, group: &Group) -> Value {
    let members = space.vms.iter().filter(|vm| vm.is_up() && group.members.contains(&vm.vm_id));
    let stacks: std::collections::BTreeSet<u64> = members.clone().map(|vm| vm.stack_id).collect();
    let apart = stacks.len() == members.count();
    let enough = match u64::try_from(group.spread) {
        Ok(spread) => stacks.len() as u64 >= spread,
        Err(_) => apart && !stacks.is_empty(),
    };
    let status = if enough { "COMPLETE" } else { "INCOMPLETE" };
    json!({"group_id": group.group_id, "spread": group.spread, "status": status})
}

/// `…/anti-affinity-groups/{group_id}/vms…`: the list is under `vms` (vco-api.md 5.6).
pub(super) fn members(visit: &mut Visit<'_>, op: Op) -> Result<Reply, Reply> {
    if op == Op::Members {
        let space = visit.space()?;
        let group = &space.groups[at(visit, space)?];
        let members = group.members.iter().filter_map(|id| space.vm(*id));
        let rows = members.map(|vm| json!({"vm_id": vm.vm_id, "status": vm.shown()}));
        return Ok(Reply::json(json!({ "vms": rows.collect::<Vec<_>>() })));
    }
    at(visit, visit.space()?)?;
    if op == Op::Join {
        let id = visit.count("vm_id").unwrap_or(0);
        visit.numbered_vm_at(id, Which::Living)?;
        let group = group(visit)?;
        if !group.members.contains(&id) {
            group.members.push(id);
        }
        return Ok(Reply::success());
    }
    let id = visit.call.number("vm_id");
    let group = group(visit)?;
    let before = group.members.len();
    group.members.retain(|m| *m != id);
    let none = || Reply::error(404, "Virtual machine is not in the group");
    (group.members.len() < before).then(Reply::success).ok_or_else(none)
}
