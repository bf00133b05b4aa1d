//! `capvco-e2e cloud`: an embedded cloud until somebody stops it.

use std::sync::Arc;

use capvco::cli::{Session, env};
use capvco::fault::Fault as Classed;
use capvco::report::Verdict;
use capvco::sim::node::Nodes;
use capvco::sim::{self, Pace, Sim, World, script, world};

use crate::args::{CloudFlags, Faults, Flavour, OnOff};
use crate::exports::EnvFile;

/// Runs the verb.
pub async fn run(flags: CloudFlags, session: &Session) -> Result<Verdict, Box<dyn Classed>> {
    let mut file = EnvFile::awaited(flags.env_file.as_deref());
    let sim = start(&flags).await?;
    let nodes = match flags.nodes {
        Flavour::Full => Some(Nodes::full(&sim, flags.node_tools.as_deref())?),
        Flavour::Quick => Some(Nodes::quick(&sim, flags.node_tools.as_deref()).await?),
        Flavour::Off => None,
    };
    let (portal, iam, token) = (sim.portal_url(), sim.iam_refresh_url(), sim.token());
    let mut settings = vec![
        (env::PORTAL_URL, portal.as_str()),
        (env::IAM_REFRESH_URL, &iam),
        (env::CUSTOMER_ID, sim.customer()),
        (env::TOKEN, &token),
    ];
    let etcd = nodes.as_ref().and_then(Nodes::etcd);
    let keys = etcd.map(|etcd| etcd.folder.display().to_string()).unwrap_or_default();
    if let Some(etcd) = etcd {
        settings.extend([("E2E_ETCD", etcd.endpoint.as_str()), ("E2E_ETCD_KEYS", &keys)]);
    }
    open_objectspaces(&sim, session).await?;
    file.hand_over(session, &settings)?;
    session.cancel.cancelled().await;
    drop(file);
    if let Some(nodes) = nodes {
        nodes.stop().await;
    }
    sim.stop().await;
    Ok(Verdict::Done)
}

/// Says where each S3 server is, and starts those of objectspaces that are there already.
async fn open_objectspaces(sim: &Sim, session: &Session) -> Result<(), sim::Error> {
    let progress = Arc::clone(&session.progress);
    sim.announce_s3(move |id, name, url| {
        progress.say(&format!("objectspace {name} ({id}): S3 is at {url}"));
    });
    let there = sim.world(|world| world.objectspaces.clone());
    for space in there {
        sim.s3_url(&space.objectspace_id).await?;
    }
    Ok(())
}

async fn start(flags: &CloudFlags) -> Result<Sim, sim::Error> {
    let faults = faults(&flags.fault)?;
    let sim = Sim::start_at(flags.listen, world(flags)?, Pace::Auto).await?;
    if let Some(path) = &flags.traffic {
        sim.write_traffic_to(path)?;
    }
    for fault in faults {
        sim.fault(fault);
    }
    Ok(sim)
}

fn faults(given: &[Faults]) -> Result<Vec<sim::Fault>, sim::Error> {
    let mut all = Vec::new();
    for faults in given {
        match faults {
            Faults::One(fault) => all.push(fault.clone()),
            Faults::File(path) => all.extend(script::load(path)?),
        }
    }
    Ok(all)
}

/// The world of the file, or the usual one, with what the flags say about it.
fn world(flags: &CloudFlags) -> Result<World, sim::Error> {
    let mut world = flags.world.as_deref().map_or_else(|| Ok(World::small()), World::load)?;
    if let Some(id) = &flags.customer {
        let customer = world::Customer { customer_id: id.to_string(), name: "Acme".into() };
        world.customers = vec![customer];
    }
    if !flags.locations.is_empty() {
        let names: Vec<&str> = flags.locations.iter().map(capvco::id::Location::as_str).collect();
        world.locations = World::of("", &names).locations;
    }
    let rules = &mut world.rules;
    let set = |rule: &mut _, flag: Option<_>| *rule = flag.unwrap_or(*rule);
    set(&mut rules.latency, flags.latency);
    set(&mut rules.write_latency, flags.write_latency);
    set(&mut rules.import_time, flags.import_time);
    // Where this program runs there is no cloudspace to be inside of.
    rules.reachable_addresses = true;
    rules.part_size = flags.part_size.unwrap_or(rules.part_size);
    rules.limits.on = flags.rate_limit.map_or(rules.limits.on, |l| l == OnOff::On);
    world.versitygw = flags.versitygw.clone().or(world.versitygw);
    Ok(world)
}
