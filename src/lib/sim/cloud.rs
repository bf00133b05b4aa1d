//! The cloud behind the door: one state under one lock, and the way a request takes through it.
//!
//! The way is: scripted fault, latency, limits, token, table of operations, access, the call
//! itself, field mask, journal, distortion. What a call does goes on when its client leaves,
//! as it does in a real cloud.

use std::future::Future;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::Body;
use axum::extract::{ConnectInfo, Request, State as Shared};
use axum::http::Response;
use axum::http::request::Parts;
use futures_util::StreamExt;
use serde_json::{Value, json};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::answer::{self, Content, Distortion};
use super::auth::Keyring;
use super::call::Call;
use super::check;
use super::error::Error;
use super::events::Listeners;
use super::format;
use super::images::{self, Job};
use super::import::Importer;
use super::ingress::front::Fronts;
use super::journal::{Exchange, Journal};
use super::limits::Counts;
use super::mask::{self, Mask};
use super::objectspace::stores::Stores;
use super::operations::{Body as Declared, Op};
use super::pace::Pace;
use super::past::Pasts;
use super::reply::{Payload, Reply};
use super::scratch::Scratch;
use super::script::{Fault, Kind, Script};
use super::upload::Uploads;
use super::wire::Peer;
use super::words;
use super::world::{Image, World};
use crate::clock::{Clock, System};

/// A JSON body may have so many bytes.
const MOST_JSON: usize = 4 << 20;

/// Everything that changes.
pub(super) struct State {
    pub(super) world: World,
    pub(super) jobs: Vec<Job>,
    pub(super) script: Script,
    pub(super) keys: Keyring,
    pub(super) counts: Counts,
    pub(super) uploads: Uploads,
    pub(super) fronts: Fronts,
    pub(super) listeners: Listeners,
    pub(super) pasts: Pasts,
    /// When the next action ends, on the cloud's clock.
    due: Option<Duration>,
}

/// The cloud.
pub(super) struct Cloud {
    state: Mutex<State>,
    pub(super) journal: Journal,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) pace: Pace,
    pub(super) importer: Importer,
    pub(super) stores: Stores,
    spool: Scratch,
    pub(super) stop: CancellationToken,
    imported: Notify,
    begun: Notify,
    pub(super) addr: SocketAddr,
}

impl Cloud {
    pub(super) fn new(
        world: World,
        pace: Pace,
        addr: SocketAddr,
        stop: CancellationToken,
    ) -> Result<Self, Error> {
        let spool = Scratch::new("capvco-sim-")?;
        let mut world = world;
        world.complete(addr.port());
        let importer = Importer::new()?;
        let stores = Stores::new(world.versitygw.as_deref(), spool.path(), importer.client());
        let state = State {
            world,
            jobs: Vec::new(),
            script: Script::default(),
            keys: Keyring::default(),
            counts: Counts::default(),
            uploads: Uploads::default(),
            fronts: Fronts::new(Handle::current(), stop.clone()),
            listeners: Listeners::default(),
            pasts: Pasts::default(),
            due: None,
        };
        Ok(Self {
            state: Mutex::new(state),
            journal: Journal::default(),
            clock: pace.clock(),
            pace,
            importer,
            stores,
            spool,
            stop,
            imported: Notify::new(),
            begun: Notify::new(),
            addr,
        })
    }

    /// The state, with everything that is due concluded, and told to those who listen.
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let state_now = &mut *state;
        let now = self.clock.elapsed();
        images::settle(&mut state_now.world, &mut state_now.jobs, now);
        let due = state_now.world.settle(now);
        if due != state_now.due {
            state_now.due = due;
            self.begun.notify_one();
        }
        state_now.listeners.keep_up(&state_now.world);
        state_now.fronts.keep_up(&state_now.world);
        state
    }

    pub(super) fn spool(&self) -> &Path {
        self.spool.path()
    }

    /// Removes what uploads have left behind, even where a request still holds the cloud.
    pub(super) fn clear_spool(&self) {
        // Only space is at stake.
        let _ = std::fs::remove_dir_all(self.spool.path());
    }

    /// The IAM has the portal's own address here.
    pub(super) fn iam_domain(&self) -> String {
        self.addr.to_string()
    }

    /// Makes an image, CREATING, whose import [`Cloud::run_import`] will run.
    pub(super) fn begin_import(&self, location: &str, image: Image) -> Result<u64, Reply> {
        let mut state = self.lock();
        let image_id = images::create(&mut state.world, location, image)?;
        let due = self.clock.elapsed() + images::import_time(&mut state.world, location);
        let location = location.to_owned();
        state.jobs.push(Job { location, image_id, due, outcome: None });
        Ok(image_id)
    }

    /// Runs an import beside everything else, until it ends or the cloud stops.
    pub(super) fn run_import(
        self: &Arc<Self>,
        location: &str,
        image_id: u64,
        import: impl Future<Output = Result<format::Content, String>> + Send + 'static,
    ) {
        let (cloud, location) = (Arc::clone(self), location.to_owned());
        tokio::spawn(async move {
            let outcome = tokio::select! {
                outcome = import => outcome,
                () = cloud.stop.cancelled() => return,
            };
            let mut state = cloud.state.lock().unwrap_or_else(PoisonError::into_inner);
            let mine = |j: &&mut Job| j.location == location && j.image_id == image_id;
            if let Some(job) = state.jobs.iter_mut().find(mine) {
                job.outcome = Some(outcome);
            }
            drop(state);
            cloud.imported.notify_waiters();
        });
    }

    /// With a stepped clock, waits until every import that is due has ended, so that moving the
    /// clock has one outcome only. An import that hangs is left alone after ten real seconds.
    pub(super) async fn settle(&self) {
        if !self.pace.is_stepped() {
            return;
        }
        let patience = System::new().sleep(Duration::from_secs(10));
        tokio::select! { () = self.all_due() => {}, () = patience => {} }
    }

    async fn all_due(&self) {
        loop {
            let imported = self.imported.notified();
            tokio::pin!(imported);
            imported.as_mut().enable();
            let now = self.clock.elapsed();
            if !self.lock().jobs.iter().any(|job| job.due <= now) {
                return;
            }
            imported.await;
        }
    }
}

/// Ends every action when it is due, whether anybody calls or not.
pub(super) async fn keep_time(cloud: Arc<Cloud>) {
    loop {
        let due = cloud.lock().due;
        let sleep = async {
            match due {
                Some(due) => cloud.clock.sleep(due.saturating_sub(cloud.clock.elapsed())).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = sleep => {}
            () = cloud.begun.notified() => {}
            () = cloud.stop.cancelled() => return,
        }
    }
}

/// Serves one request.
pub(super) async fn serve(
    Shared(cloud): Shared<Arc<Cloud>>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    request: Request,
) -> Response<Body> {
    let (head, body) = request.into_parts();
    let mut call = Call::read(&head);
    let raw = call.operation.is_some_and(|o| matches!(o.body, Declared::Bytes));
    let (content, bytes) = if raw {
        check_raw(&mut call);
        (Content::Raw(body), sent(&head))
    } else {
        let (value, bytes) = read_json(&mut call, body).await;
        (Content::Json(value), bytes)
    };
    let location = call.location();
    let fault = cloud.lock().script.next(call.operation_id(), location.as_deref());
    let work = carry_out(Arc::clone(&cloud), call, content, bytes, fault.clone());
    let reply = tokio::spawn(work).await.unwrap_or_else(|_| Reply::broken(500));
    deliver(&cloud, &peer, reply, fault.map(|f| f.kind)).await.into_response()
}

/// Does what the call asks for and writes it down.
async fn carry_out(
    cloud: Arc<Cloud>,
    call: Call,
    content: Content,
    request_bytes: u64,
    fault: Option<Fault>,
) -> Reply {
    let started = cloud.clock.unix();
    let mut exchange = Exchange { request_bytes, started, ..Exchange::default() };
    if let Content::Json(value) = &content {
        exchange.request_body = value.clone();
    }
    let reply = decide(&cloud, &call, content, fault.as_ref()).await;
    write_down(&cloud, exchange, call, &reply, fault);
    reply
}

/// How many bytes the client says it sends.
fn sent(head: &Parts) -> u64 {
    let length = head.headers.get("content-length").and_then(|v| v.to_str().ok());
    length.and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn check_raw(call: &mut Call) {
    if call.content_type.as_deref().is_some_and(|t| t != "application/octet-stream") {
        call.problems.push("a part is sent as application/octet-stream".into());
    }
}

async fn read_json(call: &mut Call, body: Body) -> (Value, u64) {
    let Ok(bytes) = axum::body::to_bytes(body, MOST_JSON).await else {
        call.problems.push("the body could not be read".into());
        return (Value::Null, 0);
    };
    let value = match serde_json::from_slice(&bytes) {
        _ if bytes.is_empty() => Value::Null,
        Ok(value) => value,
        Err(_) => {
            call.problems.push("the body is no JSON".into());
            Value::String(String::from_utf8_lossy(&bytes).into_owned())
        }
    };
    if let Some(operation) = call.operation {
        call.problems.extend(check::body(operation, &value));
    }
    call.told = value["location"].as_str().map(str::to_owned);
    (value, bytes.len() as u64)
}

fn write_down(
    cloud: &Cloud,
    mut exchange: Exchange,
    call: Call,
    reply: &Reply,
    fault: Option<Fault>,
) {
    let kind = fault.map(|f| f.kind);
    // Where the fault stands in for the call, the cloud itself replied nothing.
    let stood_in = kind.as_ref().is_some_and(|k| !k.happens());
    exchange.response_body = if stood_in { Value::Null } else { reply.as_journaled() };
    mask::hide(&mut exchange.response_body);
    mask::hide(&mut exchange.request_body);
    exchange.operation = call.operation_id().into();
    exchange.location = call.location();
    exchange.method = call.method;
    exchange.path = call.path;
    exchange.query = mask::hidden(call.query);
    exchange.status = reply.status;
    exchange.deliberate = call.deliberate;
    exchange.problems = call.problems;
    exchange.x_fields = call.x_fields;
    exchange.fault = kind.map(|k| k.to_string());
    exchange.ended = cloud.clock.unix();
    cloud.journal.record(exchange);
}

/// The reply that the cloud makes, before a fault distorts it.
async fn decide(cloud: &Arc<Cloud>, call: &Call, content: Content, fault: Option<&Fault>) -> Reply {
    let Some(reply) = fault.and_then(|f| stand_in(&f.kind)) else {
        let location = call.location();
        let location = location.as_deref();
        let begun = {
            let mut state = cloud.lock();
            let limits = state.world.rules.limits.clone();
            state.counts.begin(location, cloud.clock.elapsed(), &limits).map_err(|wait| {
                limits.retry_after.then(|| wait.as_secs() + u64::from(wait.subsec_nanos() > 0))
            })
        };
        if let Err(retry_after) = begun {
            drain(content).await;
            return Reply::too_many(retry_after);
        }
        let reply = admitted(cloud, call, content, fault).await;
        cloud.lock().counts.end(location);
        return reply;
    };
    drain(content).await;
    reply
}

/// What is answered instead of carrying the call out.
fn stand_in(kind: &Kind) -> Option<Reply> {
    Some(match kind {
        Kind::KillBefore | Kind::Hang => Reply::new(0, Payload::Nothing),
        Kind::TooMany(seconds) => Reply::too_many(*seconds),
        Kind::Status(401) => Reply::error(401, "Unauthorized"),
        Kind::Status(403) => Reply::error(403, "Forbidden"),
        Kind::Status(503) => Reply::error(503, "Service Unavailable"),
        Kind::Status(status) if *status < 500 => Reply::error(*status, "Refused by script"),
        Kind::Status(status) => Reply::broken(*status),
        Kind::Html400 => Reply::html(400, "400 Bad Request"),
        Kind::HtmlPage(status) => Reply::html(*status, &format!("{status} from a proxy")),
        Kind::SuccessFalse => Reply::json(json!({"success": false})),
        _ => return None,
    })
}

/// Reads what is left of a part that nobody wants, so that the client sees the reply.
async fn drain(content: Content) {
    if let Content::Raw(body) = content {
        let mut stream = body.into_data_stream();
        while let Some(Ok(_)) = stream.next().await {}
    }
}

/// A call that the limits let through.
async fn admitted(
    cloud: &Arc<Cloud>,
    call: &Call,
    content: Content,
    fault: Option<&Fault>,
) -> Reply {
    wait(cloud, call).await;
    cloud.settle().await;
    if call.is_refresh() {
        let state = &mut *cloud.lock();
        let (world, now) = (&state.world, cloud.clock.unix());
        let header = call.authorization.as_deref();
        return state.keys.refresh(header, now, &world.username, &world.rules);
    }
    let here = call.location();
    let distortion = Distortion {
        stale: fault.is_some_and(|f| f.kind == Kind::StaleList),
        broken: fault
            .filter(|f| f.kind == Kind::LocationError)
            .and_then(|f| f.location.as_deref())
            .or_else(|| here.as_deref().filter(|_| is_location_error(fault))),
    };
    let refusal = refusal(&mut cloud.lock(), call, distortion.broken, cloud.clock.unix());
    let mut reply = match (refusal, call.operation) {
        (None, Some(operation)) => {
            answer::answer(cloud, operation, call, content, distortion).await
        }
        (Some(reply), _) => {
            drain(content).await;
            reply
        }
        (None, None) => Reply::error(404, "Not Found"),
    };
    apply_mask(call, &mut reply);
    reply
}

fn is_location_error(fault: Option<&Fault>) -> bool {
    fault.is_some_and(|f| f.kind == Kind::LocationError)
}

async fn wait(cloud: &Cloud, call: &Call) {
    let writes = call.operation.is_some_and(|o| o.writes);
    let time = {
        let rules = &cloud.lock().world.rules;
        rules.latency + if writes { rules.write_latency } else { Duration::ZERO }
    };
    if !time.is_zero() {
        cloud.clock.sleep(time).await;
    }
}

/// Why the call is not carried out, if it is not.
fn refusal(state: &mut State, call: &Call, broken: Option<&str>, now: f64) -> Option<Reply> {
    if call.is_outside() {
        return Some(Reply::error(404, "Not Found"));
    }
    if let Some(reply) = state.keys.refusal(call.authorization.as_deref(), now) {
        return Some(reply);
    }
    if !call.problems.is_empty() {
        return Some(Reply::error(400, call.problems.join("; ")));
    }
    if let Some(mask) = &call.x_fields
        && let Err(why) = Mask::parse(mask)
    {
        return Some(Reply::error(400, format!("Parse error: {why}")));
    }
    answer::access(state, call, broken).err()
}

fn apply_mask(call: &Call, reply: &mut Reply) {
    if let (200, Payload::Json(value)) = (reply.status, &mut reply.body)
        && !call.is(Op::CreateImage)
        && let Some(Ok(mask)) = call.x_fields.as_deref().map(Mask::parse)
    {
        mask.apply(value);
    }
}

/// Sends the reply, or what a fault and the rules make of it.
async fn deliver(cloud: &Cloud, peer: &Peer, reply: Reply, kind: Option<Kind>) -> Reply {
    let mut reply = reply;
    match kind {
        Some(Kind::KillBefore | Kind::KillAfter) => {
            peer.reset();
            return std::future::pending().await;
        }
        Some(Kind::LostReply) => {
            peer.close();
            return std::future::pending().await;
        }
        Some(Kind::Hang | Kind::HangAfter) => return std::future::pending().await,
        Some(Kind::Slow(time)) => cloud.clock.sleep(time).await,
        Some(Kind::StatusAfter(status)) => return Reply::broken(status),
        Some(Kind::CutJson) => cut(&mut reply),
        _ => {}
    }
    if let Payload::Json(value) = &mut reply.body {
        let rules = cloud.lock().world.rules.clone();
        let wanted = |rule: bool, fault: &Kind| rule || kind.as_ref() == Some(fault);
        if wanted(rules.nulls, &Kind::Nulls) {
            words::nulls(value);
        }
        if wanted(rules.ids_as_text, &Kind::IdsAsText) {
            words::ids_as_text(value);
        }
        if wanted(rules.numbers_as_floats, &Kind::Floats) {
            words::floats(value);
        }
        if wanted(rules.extra_keys, &Kind::ExtraKeys) {
            words::extra_keys(value);
        }
    }
    reply
}

/// Ends the JSON in the middle; what has no JSON gets the beginning of some.
fn cut(reply: &mut Reply) {
    let text = match &reply.body {
        Payload::Json(value) => value.to_string(),
        _ => r#"{"success": true}"#.to_owned(),
    };
    let half = text.chars().take(text.chars().count().div_ceil(2));
    reply.body = Payload::CutJson(half.collect());
}
