//! Carries out one call that has passed every check: an arm an operation.

use std::sync::Arc;

use axum::body::Body;
use serde_json::{Value, json};

use super::call::Call;
use super::cloud::{Cloud, State};
use super::images;
use super::operations::{Op, Operation};
use super::past::Pasts;
use super::reply::{Payload, Reply};
use super::rules::EtagPlace;
use super::upload;
use super::visit::Visit;
use super::words;
use super::world::{Capabilities, Image};
use super::{disk, ingress, machine, network, objectspace};

/// What a fault changes about how a call is carried out.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Distortion<'a> {
    /// Lists are as they were before the last write.
    pub(super) stale: bool,
    /// The location that lists over several locations report in error.
    pub(super) broken: Option<&'a str>,
}

/// The body of a request: JSON was read already, raw bytes were not.
pub(super) enum Content {
    Json(Value),
    Raw(Body),
}

/// Carries the call out.
pub(super) async fn answer(
    cloud: &Arc<Cloud>,
    operation: &Operation,
    call: &Call,
    content: Content,
    distortion: Distortion<'_>,
) -> Reply {
    let done = match (operation.op, content) {
        (Op::CreateImage, _) => create_image(cloud, call).await,
        (Op::UploadPart, Content::Raw(body)) => upload_part(cloud, call, body).await,
        (Op::FinishUpload, Content::Json(body)) => finish_upload(cloud, call, &body),
        (Op::StartUpload, _) => start_upload(cloud, call),
        (Op::Store(op), Content::Json(body)) => {
            objectspace::answer(cloud, op, call, &body, distortion).await
        }
        (
            Op::Network(_) | Op::Machine(_) | Op::Disk(_) | Op::Ingress(_) | Op::RecycleBin,
            Content::Json(body),
        ) => in_world(cloud, operation, call, &body, distortion),
        (op, _) => Ok(at_once(&mut cloud.lock(), op, call, distortion, &cloud.iam_domain())),
    };
    done.unwrap_or_else(|reply| reply)
}

/// Whether the customer and the location of the path exist and work.
pub(super) fn access(state: &mut State, call: &Call, broken: Option<&str>) -> Result<(), Reply> {
    let has = |name: &str| call.operation.is_some_and(|o| o.path.contains(name));
    let customer = call.in_path("customer_id");
    if has("{customer_id}") && !state.world.customers.iter().any(|c| c.customer_id == customer) {
        return Err(Reply::error(404, "NotFound: Customer not found"));
    }
    if !has("{location}") {
        return Ok(());
    }
    let location = call.in_path("location");
    let site = state.world.find_site(location).ok_or_else(images::no_access)?;
    // The portal itself knows its locations; only what the back-end must answer fails.
    if (site.down || broken == Some(location)) && !call.is(Op::Location) {
        return Err(Reply::error(503, format!("G8Error: location {location} does not answer")));
    }
    Ok(())
}

/// The calls that need nothing but the state.
fn at_once(
    state: &mut State,
    op: Op,
    call: &Call,
    distortion: Distortion<'_>,
    iam_domain: &str,
) -> Reply {
    let (customer, location) = (call.in_path("customer_id"), call.in_path("location"));
    let world = &mut state.world;
    match op {
        Op::Me => Reply::json(words::me(world, iam_domain)),
        Op::OsNames => Reply::json(words::os_names()),
        Op::OsTypes => Reply::json(json!(super::operations::OS_TYPES)),
        Op::Locations => Reply::json(words::locations(world)),
        Op::Location => {
            let storage_only = world.find_site(location).is_some_and(|s| s.storage_only);
            Reply::json(json!({"location": location, "storage_only": storage_only}))
        }
        Op::Capacity => Reply::json(
            json!({"ou": 1000, "su": 1000, "cu": 1000, "piu": 100, "mu": 1000, "vcu": 1000}),
        ),
        Op::Images => list_images(state, call, distortion.stale),
        Op::Image => read_image(state, call),
        Op::DeleteImage => {
            let permanently = call.flag("permanently", false);
            images::delete(world, customer, location, call.number("image_id"), permanently)
        }
        Op::RestoreImage => images::restore(world, customer, location, call.number("image_id")),
        Op::CreateImage
        | Op::StartUpload
        | Op::UploadPart
        | Op::FinishUpload
        | Op::RecycleBin
        | Op::Network(_)
        | Op::Machine(_)
        | Op::Disk(_)
        | Op::Ingress(_)
        | Op::Store(_) => Reply::error(400, "required body missing"),
    }
}

fn list_images(state: &mut State, call: &Call, outdated: bool) -> Reply {
    let rules = state.world.rules.clone();
    let Some(site) = state.world.find_site(call.in_path("location")) else {
        return images::no_access();
    };
    let old = site.before_last_write.as_ref().filter(|_| outdated);
    let listed = old.unwrap_or(&site.images);
    let logo = call.flag("include_logo", false);
    Reply::json(words::images(listed, call.in_path("customer_id"), &rules, logo))
}

fn read_image(state: &mut State, call: &Call) -> Reply {
    let rules = state.world.rules.clone();
    let site = state.world.find_site(call.in_path("location"));
    let customer = call.in_path("customer_id");
    let logo = call.flag("include_logo", false);
    match site.and_then(|s| s.image(call.number("image_id"))) {
        Some(image) if image.is_visible(customer, &rules) => {
            Reply::json(words::image(image, &rules, logo))
        }
        Some(image) if image.customer_id == customer => images::gone(rules.gone_status),
        _ => Reply::error(404, "Image not found"),
    }
}

/// A call about what the world holds and nothing else does.
fn in_world(
    cloud: &Cloud,
    operation: &Operation,
    call: &Call,
    body: &Value,
    distortion: Distortion<'_>,
) -> Result<Reply, Reply> {
    let state = &mut *cloud.lock();
    let mut late;
    let world = if distortion.stale && lists(operation) {
        late = state.pasts.world(&state.world, call);
        &mut late
    } else {
        &mut state.world
    };
    let before = operation.writes.then(|| Pasts::before(world, call));
    let (now, unix) = (cloud.clock.elapsed(), cloud.clock.unix());
    let mut visit = Visit { world, call, body, now, unix, broken: distortion.broken };
    let reply = match operation.op {
        Op::Network(op) => network::answer(&mut visit, op),
        Op::Machine(op) => machine::answer(&mut visit, op),
        Op::Disk(op) => disk::answer(&mut visit, op),
        Op::Ingress(op) => ingress::answer(&mut visit, op, &mut state.fronts),
        _ => {
            let (customer, broken) = (call.in_path("customer_id"), distortion.broken);
            Ok(Reply::json(words::recycle_bin(visit.world, customer, broken)))
        }
    }?;
    if let Some(before) = before {
        state.pasts.remember(before);
    }
    Ok(reply)
}

/// Whether it is one of those that may lag behind.
fn lists(operation: &Operation) -> bool {
    operation.id.starts_with("list")
        || matches!(
            operation.id,
            "recycleBin"
                | "getCloudspaceNotes"
                | "getVirtualMachineNotes"
                | "getDiskNotes"
                | "getVirtualMachineAntiAffinityGroups"
                | "getPrivateNetworkIPAddresses"
                | "getExternalNetworkAddresses"
        )
}

/// The image that a create call describes.
fn described(call: &Call) -> Image {
    let text = |name: &str| call.arg(name).unwrap_or_default().to_owned();
    let number = |name: &str| call.arg(name).and_then(|n| n.parse().ok()).unwrap_or(0);
    let flag = |name: &str| call.flag(name, true);
    Image {
        customer_id: call.in_path("customer_id").to_owned(),
        name: text("name"),
        tags: text("tags"),
        os_type: text("os_type"),
        os_name: text("os_name"),
        boot_type: text("boot_type"),
        memory: number("memory"),
        boot_disk_size: number("boot_disk_size"),
        md5_sum: text("md5_sum"),
        capabilities: Capabilities {
            add_memory: flag("add_memory"),
            add_vcpu: flag("add_vcpu"),
            remove_vcpu: flag("remove_vcpu"),
            add_disk: flag("add_disk"),
            remove_disk: flag("remove_disk"),
            add_nic: flag("add_nic"),
            remove_nic: flag("remove_nic"),
        },
        ..Image::default()
    }
}

async fn create_image(cloud: &Arc<Cloud>, call: &Call) -> Result<Reply, Reply> {
    let (image, location) = (described(call), call.in_path("location"));
    let url = call.arg("url").unwrap_or_default().to_owned();
    let rules = {
        let mut state = cloud.lock();
        images::may_create(&mut state.world, location, &image)?;
        state.world.rules.clone()
    };
    if rules.head {
        let looked = cloud.importer.head(&url, &rules).await;
        looked.map_err(|why| Reply::error(400, format!("Could not reach the image: {why}")))?;
    }
    let md5_sum = image.md5_sum.clone();
    let image_id = cloud.begin_import(location, image)?;
    let importer = cloud.importer.clone();
    let fetch_rules = rules.clone();
    let fetch = async move { importer.fetch(&url, &md5_sum, &fetch_rules).await };
    cloud.run_import(location, image_id, fetch);
    Ok(words::created(image_id, &rules))
}

fn start_upload(cloud: &Cloud, call: &Call) -> Result<Reply, Reply> {
    let mut state = cloud.lock();
    let part_size = state.world.rules.part_size;
    let (location, file_name) =
        (call.in_path("location"), call.arg("file_name").unwrap_or_default());
    let started = state.uploads.start(cloud.spool(), location, file_name, part_size);
    let (upload_id, object_name) = started.map_err(|_| Reply::broken(500))?;
    Ok(Reply::json(json!({
        "upload_id": upload_id, "object_name": object_name, "part_size": part_size,
    })))
}

async fn upload_part(cloud: &Cloud, call: &Call, body: Body) -> Result<Reply, Reply> {
    let (id, location) = (call.in_path("upload_id"), call.in_path("location"));
    let object = call.arg("object_name").unwrap_or_default();
    let placed = cloud.lock().uploads.place(id, location, object, call.in_path("part_id"));
    let (number, file) = placed?;
    let part = upload::receive(body, file).await.map_err(|e| match e.kind() {
        std::io::ErrorKind::UnexpectedEof => Reply::new(499, Payload::Nothing),
        _ => Reply::broken(500),
    })?;
    let etag = part.etag.clone();
    let mut state = cloud.lock();
    let place = state.world.rules.etag;
    state.uploads.arrived(id, number, part)?;
    Ok(with_etag(place, &etag))
}

fn with_etag(place: EtagPlace, etag: &str) -> Reply {
    let body = match place {
        EtagPlace::Header => Payload::Nothing,
        EtagPlace::BodyObject | EtagPlace::Both => Payload::Json(json!({ "etag": etag })),
        EtagPlace::BodyString => Payload::Json(Value::from(etag)),
        EtagPlace::BodyText => Payload::Text(etag.to_owned()),
    };
    let header = matches!(place, EtagPlace::Header | EtagPlace::Both);
    Reply { etag: header.then(|| format!("\"{etag}\"")), ..Reply::new(200, body) }
}

fn finish_upload(cloud: &Arc<Cloud>, call: &Call, body: &Value) -> Result<Reply, Reply> {
    let (image, location) = (described(call), call.in_path("location"));
    let id = call.in_path("upload_id");
    let (rules, md5_sum) = (cloud.lock().world.rules.clone(), image.md5_sum.clone());
    let files = cloud.lock().uploads.check(id, location, body, rules.check_part_sizes)?;
    let image_id = cloud.begin_import(location, image)?;
    let finished = cloud.lock().uploads.finish(id, files);
    let finished = finished.ok_or_else(|| Reply::error(404, "NoSuchUpload"))?;
    let read =
        tokio::task::spawn_blocking(move || finished.import(&md5_sum, rules.raw_needs_boot_sector));
    cloud.run_import(location, image_id, async move {
        read.await.unwrap_or_else(|e| Err(format!("reading the parts: {e}")))
    });
    Ok(words::created(image_id, &cloud.lock().world.rules))
}
