//! Front ends: real TCP listeners that spread connections over a pool, round robin, without any
//! health check: who is dead gets its share, and these connections fail (vco-api.md 7.3).

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use super::super::world::{Balancer, Cloudspace, World};
use super::balancer::addresses;

/// A load balancer and one of the addresses that it listens on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    cloudspace_id: String,
    loadbalancer_id: String,
    at: SocketAddr,
}

/// A host as connections see it.
#[derive(Debug, Clone)]
struct Target {
    host_id: String,
    to: (String, u16),
    /// Ends the connections to it.
    cut: CancellationToken,
}

/// One listener.
#[derive(Debug)]
struct Front {
    targets: Mutex<Vec<Target>>,
    next: AtomicUsize,
    /// Ends the listener and its connections.
    stop: CancellationToken,
}

/// All listeners of a cloud, and where the addresses behind them really are.
#[derive(Debug)]
pub(in crate::sim) struct Fronts {
    open: BTreeMap<Key, Arc<Front>>,
    failed: BTreeMap<Key, String>,
    hosts: BTreeMap<(String, String), IpAddr>,
    ports: BTreeMap<(String, String, u16), SocketAddr>,
    runtime: Handle,
    stop: CancellationToken,
}

impl Fronts {
    pub(in crate::sim) fn new(runtime: Handle, stop: CancellationToken) -> Self {
        let (open, failed) = (BTreeMap::new(), BTreeMap::new());
        let (hosts, ports) = (BTreeMap::new(), BTreeMap::new());
        Self { open, failed, hosts, ports, runtime, stop }
    }

    /// From now on this address of a cloudspace is at `host`, with the same ports.
    pub(in crate::sim) fn map_host(&mut self, cloudspace: &str, ip: &str, host: IpAddr) {
        self.hosts.insert((cloudspace.to_owned(), ip.to_owned()), host);
    }

    /// From now on this port of an address of a cloudspace is at `to`.
    pub(in crate::sim) fn map_port(
        &mut self,
        cloudspace: &str,
        ip: &str,
        port: u16,
        to: SocketAddr,
    ) {
        self.ports.insert((cloudspace.to_owned(), ip.to_owned(), port), to);
    }

    /// Why a load balancer does not listen, if it should and does not.
    pub(super) fn failure(&self, loadbalancer_id: &str) -> Option<&str> {
        let mine = |(key, _): &(&Key, &String)| key.loadbalancer_id == loadbalancer_id;
        self.failed.iter().find(mine).map(|(_, why)| why.as_str())
    }

    /// Opens and closes listeners until they are what the world says.
    pub(in crate::sim) fn keep_up(&mut self, world: &World) {
        let wanted = wanted(world);
        let gone = |key: &Key| !wanted.iter().any(|(wanted, ..)| wanted == key);
        self.failed.retain(|key, _| !gone(key));
        self.open.retain(|key, front| {
            if gone(key) {
                front.stop.cancel();
            }
            !gone(key)
        });
        for (key, space, balancer) in wanted {
            let targets = self.targets(space, balancer);
            if let Some(front) = self.open.get(&key) {
                front.aim(targets, world.rules.cut_removed_hosts);
            } else if !self.failed.contains_key(&key) {
                self.open(key, targets);
            }
        }
    }

    fn open(&mut self, key: Key, targets: Vec<Target>) {
        let listening = TcpListener::bind(key.at)
            .and_then(|listener| listener.set_nonblocking(true).map(|()| listener));
        match listening {
            Ok(listener) => {
                let front = Arc::new(Front {
                    targets: Mutex::new(targets),
                    next: AtomicUsize::new(0),
                    stop: self.stop.child_token(),
                });
                self.runtime.spawn(Arc::clone(&front).listen(listener));
                self.open.insert(key, front);
            }
            Err(error) => {
                let (id, at) = (&key.loadbalancer_id, key.at);
                tracing::warn!(
                    target: "capvco::sim", %error,
                    "the embedded cloud's load balancer {id} cannot listen on {at}"
                );
                let why = format!("{at}: {error}");
                self.failed.insert(key, why);
            }
        }
    }

    fn targets(&self, space: &Cloudspace, balancer: &Balancer) -> Vec<Target> {
        let hosts = space.pool(&balancer.serverpool_id).into_iter().flat_map(|p| &p.hosts);
        let target = |host: &super::super::world::Host| Target {
            host_id: host.host_id.clone(),
            to: self.real(&space.cloudspace_id, &host.address, balancer.target_port),
            cut: self.stop.child_token(),
        };
        hosts.map(target).collect()
    }

    /// Where an address really is: the address itself, unless somebody said otherwise.
    fn real(&self, cloudspace: &str, ip: &str, port: u16) -> (String, u16) {
        let key = (cloudspace.to_owned(), ip.to_owned());
        if let Some(to) = self.ports.get(&(key.0.clone(), key.1.clone(), port)) {
            return (to.ip().to_string(), to.port());
        }
        let host = self.hosts.get(&key).map_or_else(|| ip.to_owned(), IpAddr::to_string);
        (host, port)
    }
}

/// The listeners that should be: of load balancers for TCP in cloudspaces that work.
fn wanted(world: &World) -> Vec<(Key, &Cloudspace, &Balancer)> {
    let mut all = Vec::new();
    for space in world.cloudspaces.iter().filter(|c| c.works()) {
        for balancer in space.balancers.iter().filter(|b| b.kind.eq_ignore_ascii_case("tcp")) {
            for ip in addresses(space, balancer) {
                let Ok(ip) = ip.parse::<IpAddr>() else { continue };
                let key = Key {
                    cloudspace_id: space.cloudspace_id.clone(),
                    loadbalancer_id: balancer.loadbalancer_id.clone(),
                    at: SocketAddr::new(ip, balancer.port),
                };
                all.push((key, space, balancer));
            }
        }
    }
    all
}

impl Front {
    /// Takes new targets. Connections to those that are no more go on, or are cut, by rule.
    fn aim(&self, mut new: Vec<Target>, cut: bool) {
        let mut targets = self.targets.lock().unwrap_or_else(PoisonError::into_inner);
        for old in targets.iter() {
            let same = new.iter_mut().find(|n| n.host_id == old.host_id && n.to == old.to);
            match same {
                Some(same) => same.cut = old.cut.clone(),
                None if cut => old.cut.cancel(),
                None => {}
            }
        }
        *targets = new;
    }

    fn pick(&self) -> Option<Target> {
        let targets = self.targets.lock().unwrap_or_else(PoisonError::into_inner);
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        targets.get(turn % targets.len().max(1)).cloned()
    }

    async fn listen(self: Arc<Self>, listener: TcpListener) {
        let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
        loop {
            let client = tokio::select! {
                client = listener.accept() => client,
                () = self.stop.cancelled() => return,
            };
            if let (Ok((client, _)), Some(target)) = (client, self.pick()) {
                tokio::spawn(carry(client, target, self.stop.clone()));
            }
        }
    }
}

/// Carries one connection, to its end or until it is cut.
async fn carry(mut client: TcpStream, target: Target, stop: CancellationToken) {
    let (host, port) = &target.to;
    let work = async {
        let mut server = TcpStream::connect((host.as_str(), *port)).await?;
        tokio::io::copy_bidirectional(&mut client, &mut server).await
    };
    tokio::select! {
        // How it ends is for the two sides to see.
        _ = work => {}
        () = target.cut.cancelled() => {}
        () = stop.cancelled() => {}
    }
}
