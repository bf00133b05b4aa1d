//! The embedded cloud: a whole VCO portal in a process, for tests, demos and people.
//!
//! A [`Sim`] listens on a loopback port and serves the portal's API under `/api/1` and the IAM's
//! token refresh, nothing else. It keeps its own structures and speaks the vendor's words
//! (`operations`): an undeclared path, parameter or field, or a missing required one, is
//! answered 400 and recorded, so a wrong client cannot pass. Images really work: a create call
//! asks HEAD and GET of the URL, an upload is spooled and hashed. So does S3: each objectspace is a
//! versitygw of its own; and so do load balancers: each is a TCP proxy on a loopback address.
//! What a machine's guest would do is for others to play: [`Sim::vm_events`], as `node` does.
//!
//! What may enter: facts of the cloud that have an evidence tag, each switchable in [`Rules`]
//! where the evidence is thin; scripted [`Fault`]s; nothing of the client. Invariants: one lock;
//! the journal holds the reply as it was made before a fault distorted it; with
//! [`Pace::Stepped`] nothing gets on by itself.
//!
//! Each part of the cloud is a room below (`network`, `machine`, `disk`, `ingress`,
//! `objectspace`): `record` is state and rules, `words` the replies, `operations` the table.
//!
//! To add an operation: a row in `operations`, an arm in `answer`, its body in `words`. To add a
//! fault: a variant of [`script::Kind`], and what it does in `cloud`.

mod answer;
mod auth;
mod call;
mod check;
mod cloud;
pub mod disk;
pub mod doing;
mod error;
pub mod events;
mod format;
mod images;
mod import;
pub mod ingress;
mod inventory;
mod journal;
mod limits;
pub mod machine;
mod mask;
pub mod network;
pub mod node;
pub mod objectspace;
mod operations;
mod pace;
mod partitions;
mod past;
mod process;
pub mod qcow2;
mod reply;
pub mod rules;
mod scratch;
pub mod script;
pub mod source;
mod upload;
mod visit;
mod wire;
mod words;
pub mod world;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub use error::Error;
pub use events::{Machine, VmAt, VmEvent, VmEvents};
pub use journal::Exchange;
pub use pace::Pace;
pub use rules::Rules;
pub use script::Fault;
pub use world::World;

use cloud::Cloud;
use wire::{Door, Peer};

/// A running cloud. Dropping it stops it.
#[must_use = "a cloud stops when it is dropped"]
pub struct Sim {
    cloud: Arc<Cloud>,
    server: JoinHandle<()>,
    token: String,
    customer: String,
}

impl Sim {
    /// Starts a cloud on a free loopback port.
    pub async fn start(world: World, pace: Pace) -> Result<Self, Error> {
        Self::start_at(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), world, pace).await
    }

    /// Starts a cloud on this address.
    pub async fn start_at(addr: SocketAddr, world: World, pace: Pace) -> Result<Self, Error> {
        let stop = CancellationToken::new();
        let opened = Door::open(addr, stop.clone()).await;
        let listen = |source| Error::Listen { addr, source };
        let door = opened.map_err(listen)?;
        let at = door.addr().map_err(listen)?;
        let customer = world.customers.first().map(|c| c.customer_id.clone()).unwrap_or_default();
        let cloud = Arc::new(Cloud::new(world, pace, at, stop.clone())?);
        let routes = Router::new().fallback(cloud::serve).with_state(Arc::clone(&cloud));
        let serve = axum::serve(door, routes.into_make_service_with_connect_info::<Peer>());
        let server = tokio::spawn(async move {
            tokio::select! { _ = serve.into_future() => {}, () = stop.cancelled() => {} }
        });
        tokio::spawn(cloud::keep_time(Arc::clone(&cloud)));
        let token = mint(&cloud, cloud.clock.unix() + 86_400.0, true);
        Ok(Self { cloud, server, token, customer })
    }

    /// Where the portal is; what `--portal-url` takes.
    #[must_use]
    pub fn portal_url(&self) -> String {
        format!("http://{}", self.cloud.addr)
    }

    /// Where tokens are refreshed; what `--iam-refresh-url` takes.
    #[must_use]
    pub fn iam_refresh_url(&self) -> String {
        format!("http://{}{}", self.cloud.addr, call::REFRESH_PATH)
    }

    /// The first customer's id at the start; empty in a world without customers.
    #[must_use]
    pub fn customer(&self) -> &str {
        &self.customer
    }

    /// A token that is good for a day on the world's clock and may be refreshed.
    #[must_use]
    pub fn token(&self) -> String {
        self.token.clone()
    }

    /// Another token, good until `exp`, in seconds since 1970 on the world's clock.
    #[must_use]
    pub fn mint_token(&self, exp: f64, refreshable: bool) -> String {
        mint(&self.cloud, exp, refreshable)
    }

    /// From now on this token is refused, its refresh too.
    pub fn revoke(&self, token: &str) {
        self.cloud.lock().keys.revoke(token);
    }

    /// Seconds since 1970 on the world's clock.
    #[must_use]
    pub fn unix(&self) -> f64 {
        self.cloud.clock.unix()
    }

    /// Reads or changes the state, with everything that is due concluded.
    pub fn world<R>(&self, f: impl FnOnce(&mut World) -> R) -> R {
        let result = f(&mut self.cloud.lock().world);
        // What follows from the change: listeners, events, actions that end.
        drop(self.cloud.lock());
        result
    }

    /// From now on tells what becomes of machines; those that run already come as started.
    #[must_use]
    pub fn vm_events(&self) -> VmEvents {
        let state = &mut *self.cloud.lock();
        let events = state.listeners.add();
        state.listeners.keep_up(&state.world);
        events
    }

    /// Says where an address of a cloudspace really is: load balancers dial `host` in its place,
    /// with the same ports. Without it they dial the address itself.
    pub fn map_address(&self, cloudspace_id: &str, ip: &str, host: IpAddr) {
        self.cloud.lock().fronts.map_host(cloudspace_id, ip, host);
        drop(self.cloud.lock());
    }

    /// The same for one port, which may be another one there.
    pub fn map_port(&self, cloudspace_id: &str, ip: &str, port: u16, to: SocketAddr) {
        self.cloud.lock().fronts.map_port(cloudspace_id, ip, port, to);
        drop(self.cloud.lock());
    }

    /// Adds a scripted fault after those that are there.
    pub fn fault(&self, fault: Fault) {
        self.cloud.lock().script.add(fault);
    }

    /// Forgets all scripted faults.
    pub fn no_faults(&self) {
        self.cloud.lock().script.clear();
    }

    /// With a stepped pace: moves the clock, then waits until everything that is due by now,
    /// imports included, has ended. With [`Pace::Auto`] it does nothing.
    pub async fn advance(&self, by: Duration) {
        self.cloud.pace.advance(by);
        self.cloud.settle().await;
    }

    /// The exchanges so far, in the order of their replies.
    #[must_use]
    pub fn journal(&self) -> Vec<Exchange> {
        self.cloud.journal.all()
    }

    /// From now on appends every exchange to this file, one JSON line each, flushed.
    pub fn write_traffic_to(&self, path: &Path) -> Result<(), Error> {
        self.cloud.journal.write_to(path)
    }

    /// Where an objectspace's S3 is, such as `http://127.0.0.1:40123`: path style, region
    /// `us-east-1`. The server is started if it does not run yet.
    ///
    /// # Errors
    /// There is no such objectspace, or no versitygw: a sentence that says what to do.
    pub async fn s3_url(&self, objectspace_id: &str) -> Result<String, Error> {
        let opened = objectspace::open(&self.cloud, objectspace_id).await;
        opened.map_err(|why| Error::Objectspace {
            id: objectspace_id.to_owned(),
            why: why.to_string(),
        })
    }

    /// From now on `to` hears of every S3 server that is started: the objectspace's id and name,
    /// the server's URL.
    pub fn announce_s3(&self, to: impl Fn(&str, &str, &str) + Send + Sync + 'static) {
        self.cloud.stores.announce(Arc::new(to));
    }

    /// Stops serving and breaks every open connection.
    pub async fn stop(mut self) {
        self.cloud.stop.cancel();
        // The task ends by itself now; it cannot fail.
        let _ = (&mut self.server).await;
        self.cloud.stores.close();
    }
}

impl Drop for Sim {
    fn drop(&mut self) {
        self.cloud.stop.cancel();
        self.cloud.stores.close();
        self.cloud.clear_spool();
    }
}

fn mint(cloud: &Cloud, exp: f64, refreshable: bool) -> String {
    let state = &mut *cloud.lock();
    state.keys.mint(&state.world.username, exp, refreshable)
}
