//! What others have in a cloudspace that a cluster is to live in.

use capvco::sim::world::{Balancer, Cloudspace, Disk, Forward, Group, Host, Pool, Vm};
use capvco::sim::{Sim, World};

/// The name of their cloudspace.
pub const THEIRS: &str = "theirs";

/// A world in which somebody has a cloudspace with everything in it that a cluster has in one,
/// too, and a disk of its own.
pub fn inhabited(at: &str, image_id: u64) -> World {
    let mut world = World::small();
    world.cloudspaces.push(Cloudspace {
        customer_id: "acme_1".into(),
        location: at.into(),
        name: THEIRS.into(),
        vms: vec![Vm {
            vm_id: 9,
            name: "web".into(),
            description: "hands off".into(),
            image_id,
            ..Vm::default()
        }],
        groups: vec![Group { group_id: "web".into(), spread: -1, members: vec![9] }],
        pools: vec![Pool {
            serverpool_id: "p1".into(),
            name: "web".into(),
            hosts: vec![Host { host_id: "h1".into(), address: "192.168.103.254".into() }],
            ..Pool::default()
        }],
        balancers: vec![Balancer {
            loadbalancer_id: "lb1".into(),
            name: "web".into(),
            kind: "TCP".into(),
            port: 8080,
            serverpool_id: "p1".into(),
            target_port: 80,
            ..Balancer::default()
        }],
        forwards: vec![Forward {
            portforward_id: "pf1".into(),
            protocol: "tcp".into(),
            local_port: 22,
            public_port: 2222,
            vm_id: 9,
            ..Forward::default()
        }],
        ..Cloudspace::default()
    });
    let disk = |disk_id, vm_id| Disk {
        disk_id,
        customer_id: "acme_1".into(),
        name: "data".into(),
        vm_id,
        status: if vm_id == 0 { "CREATED".into() } else { "ASSIGNED".into() },
        order: 1,
        ..Disk::default()
    };
    world.site(at).disks.extend([disk(40, 9), disk(41, 0)]);
    world
}

/// The id of their cloudspace.
pub fn their_space(sim: &Sim) -> String {
    sim.world(|world| {
        let found = world.cloudspaces.iter().find(|space| space.name == THEIRS);
        found.unwrap().cloudspace_id.clone()
    })
}

/// Everything of theirs as text.
pub fn theirs(sim: &Sim, at: &str) -> Vec<String> {
    let space = their_space(sim);
    let in_space = ["vms/9", "groups/web", "pools/p1", "balancers/lb1", "forwards/pf1"];
    let in_space = in_space.map(|one| format!("/acme_1/cloudspaces/{space}/{one}"));
    let disks = [40, 41].map(|disk| format!("/acme_1/locations/{at}/disks/{disk}"));
    let all = in_space.iter().chain(&disks);
    sim.world(|world| all.map(|pointer| world.record(pointer).expect(pointer)).collect())
}
