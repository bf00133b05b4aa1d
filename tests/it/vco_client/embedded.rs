//! The client against the embedded cloud: every noun, every odd form of a reply, and limits
//! that are never met.

use super::*;
use crate::support::cloud::{cloud, own_image};
use crate::support::traffic_file;

use capvco::clock::Stepped;
use capvco::sim::rules::{CreateReply, EtagPlace, RefreshReply};
use capvco::sim::world::Status;
use capvco::sim::{Pace, Sim, World};
use capvco::vco::FilePart;

fn settings(sim: &Sim) -> Config {
    let mut config = Config::new(sim.portal_url(), TokenSource::Inline(sim.token().into()));
    config.iam_refresh = Some(sim.iam_refresh_url());
    config
}

pub(super) async fn customer_of(sim: &Sim) -> Customer {
    client(settings(sim)).customer().await.expect("the token names one customer")
}

pub(super) fn first() -> Location {
    "be-mac-dc01-001".parse().expect("it is a location")
}

/// One image in use, one in the bin.
fn furnished() -> World {
    let mut world = World::small();
    let used = own_image(&world, 200, "used", Status::Created);
    let binned = own_image(&world, 201, "binned", Status::Deleted);
    world.locations[0].images.extend([used, binned]);
    let place = world.locations[0].location.clone();
    world.add_vm(&place, 200, "web");
    world
}

#[tokio::test]
async fn every_noun_is_read_in_every_form() {
    type Odd = fn(&mut capvco::sim::Rules);
    let forms: [Odd; 5] = [
        |_| (),
        |rules| rules.nulls = true,
        |rules| rules.extra_keys = true,
        |rules| rules.ids_as_text = true,
        |rules| rules.numbers_as_floats = true,
    ];
    for odd in forms {
        let sim = cloud("vco_nouns", furnished()).await;
        let customer = customer_of(&sim).await;
        sim.world(|world| odd(&mut world.rules));
        let locations = customer.locations().await.unwrap();
        assert_eq!((locations.len(), &locations[0]), (3, &first()));
        let info = customer.location(&first()).await.unwrap();
        assert_ne!(info.storage_only, Some(true));
        let images = customer.images(&first()).await.unwrap();
        assert!(images.iter().any(|image| image.id == Some(ImageId(200))), "{images:?}");
        let image = customer.image(&first(), ImageId(200)).await.unwrap().unwrap();
        assert_eq!(image.name.as_deref(), Some("used"));
        assert_eq!(customer.image(&first(), ImageId(999)).await.unwrap(), None);
        let binned = customer.deleted_images().await.unwrap().at(&first()).unwrap();
        assert_eq!(binned.iter().map(|image| image.id).collect::<Vec<_>>(), [Some(ImageId(201))]);
        let spaces = customer.cloudspaces(&first()).await.unwrap();
        assert_eq!(spaces.len(), 1);
        let vms = customer.vms(&spaces[0].id).await.unwrap();
        assert_eq!((vms.len(), vms[0].image_id), (1, Some(ImageId(200))));
        assert!(!customer.os_names().await.unwrap().is_empty());
        let me = customer.client().me().await.unwrap();
        assert_eq!(me.customers.len(), 1);
        sim.stop().await;
    }
}

#[tokio::test]
async fn an_image_comes_and_goes() {
    let sim = cloud("vco_upload", World::small()).await;
    let customer = customer_of(&sim).await;
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), vec![7; 2_500_000]).unwrap();
    for etag in [EtagPlace::Header, EtagPlace::BodyObject, EtagPlace::BodyText] {
        for reply in
            [CreateReply::IdObject, CreateReply::BareId, CreateReply::Nothing, CreateReply::Text]
        {
            sim.world(|world| {
                world.rules.part_size = 1_000_000;
                world.rules.etag = etag;
                world.rules.create_reply = reply;
            });
            let upload = customer.start_upload(&first(), "k8s.raw").await.unwrap();
            let mut parts = Vec::new();
            for (number, len) in [(1, 1_000_000), (2, 1_000_000), (3, 500_000)] {
                let path = file.path().to_owned();
                let offset = u64::from(number - 1) * upload.part_size;
                let part = FilePart { path, offset, len };
                let sent = customer.upload_part(&first(), &upload, number, &part, &|_| ()).await;
                parts.push((number, sent.unwrap()));
            }
            let spec = NewImage { tags: Some("mark".to_owned()), ..spec() };
            let id = customer.finish_upload(&first(), &upload, &spec, &parts).await.unwrap();
            let told = matches!(reply, CreateReply::IdObject | CreateReply::BareId);
            assert_eq!(id.is_some(), told);
            let ours = |images: Vec<capvco::vco::Image>| {
                images.into_iter().find(|image| image.tags.as_deref() == Some("mark"))
            };
            let made = loop {
                let image = ours(customer.images(&first()).await.unwrap()).unwrap();
                if image.status.as_deref() == Some("CREATED") {
                    break image;
                }
            };
            assert!(id.is_none() || id == made.id);
            customer.delete_image(&first(), made.id.unwrap()).await.unwrap();
            customer.delete_image(&first(), made.id.unwrap()).await.unwrap();
            assert_eq!(ours(customer.images(&first()).await.unwrap()), None);
        }
    }
    sim.stop().await;
}

#[tokio::test]
async fn what_is_in_the_bin_can_be_restored() {
    let sim = cloud("vco_restore", furnished()).await;
    let customer = customer_of(&sim).await;
    customer.restore_image(&first(), ImageId(201)).await.unwrap();
    assert!(customer.deleted_images().await.unwrap().at(&first()).unwrap().is_empty());
    let error = customer.delete_image(&first(), ImageId(200)).await.unwrap_err();
    assert_eq!(error.class(), Class::Conflict, "a VM uses it: {error}");
    sim.world(|world| world.locations[0].down = true);
    let error = customer.deleted_images().await.unwrap().at(&first()).unwrap_err();
    assert_eq!(error.kind(), Kind::Incomplete);
    sim.stop().await;
}

#[tokio::test]
async fn the_iam_is_found_and_its_token_used() {
    for reply in [RefreshReply::Bare, RefreshReply::Quoted] {
        let sim = cloud("vco_refresh", World::small()).await;
        sim.world(|world| world.rules.refresh_reply = reply);
        let old = sim.mint_token(sim.unix() + 30.0, true);
        let mut config = settings(&sim);
        config.iam_refresh = None;
        config.token = TokenSource::Inline(old.into());
        config.customer = sim.customer().parse().ok();
        let customer = client(config).customer().await.unwrap();
        customer.locations().await.unwrap();
        let refreshes = sim.journal().iter().filter(|e| e.path.contains("/jwt/refresh")).count();
        assert_eq!(refreshes, 1);
        sim.stop().await;
    }
}

/// Moves a stepped clock along, a simulated second in 10 ms, while `work` goes on.
async fn while_time_passes<T>(clock: &Stepped, work: impl Future<Output = T>) -> T {
    let mut work = std::pin::pin!(work);
    loop {
        tokio::select! {
            done = &mut work => return done,
            () = tokio::time::sleep(Duration::from_millis(1)) => {
                clock.advance(Duration::from_millis(100));
            }
        }
    }
}

async fn limited(world: World, portal_calls: usize) -> (Sim, Arc<Stepped>, Customer) {
    let (pace, clock) = Pace::stepped();
    let sim = Sim::start(world, pace).await.expect("a free port");
    sim.write_traffic_to(&traffic_file("vco_limits")).expect("the traffic can be written");
    let mut config = settings(&sim);
    config.customer = sim.customer().parse().ok();
    let made = Client::new(config, clock.clone()).expect("the settings are right");
    let customer = made.customer().await.expect("it is configured");
    sim.world(|world| {
        world.rules.limits.on = true;
        world.rules.limits.portal_calls = portal_calls;
    });
    (sim, clock, customer)
}

#[tokio::test]
async fn a_locations_limits_are_never_met() {
    let (sim, clock, customer) = limited(World::small(), 100_000).await;
    let place = first();
    let calls = (0..130).map(|_| customer.images(&place));
    for outcome in while_time_passes(&clock, futures_util::future::join_all(calls)).await {
        outcome.unwrap();
    }
    let statuses: Vec<u16> = sim.journal().iter().map(|exchange| exchange.status).collect();
    assert_eq!(statuses, [200; 130]);
    // 20 calls in 5 s: the last of 130 may start after 30 s.
    let took = clock.elapsed();
    assert!(took >= Duration::from_secs(30), "{took:?}");
    sim.stop().await;
}

#[tokio::test]
async fn the_portals_limit_is_learnt_and_no_429_surfaces() {
    let names: Vec<String> = (0..120).map(|n| format!("be-{n}")).collect();
    let world = World::of("acme_1", &names.iter().map(String::as_str).collect::<Vec<_>>());
    let (sim, clock, customer) = limited(world, 40).await;
    let places: Vec<Location> = names.iter().map(|name| name.parse().unwrap()).collect();
    let calls = places.iter().flat_map(|place| (0..3).map(|_| customer.images(place)));
    let calls = futures_util::future::join_all(calls.collect::<Vec<_>>());
    for outcome in while_time_passes(&clock, calls).await {
        outcome.unwrap();
    }
    let refused = sim.journal().iter().filter(|exchange| exchange.status == 429).count();
    // The first 320 were under way before the first refusal; after that the limit is known.
    assert!(refused < 420, "{refused} calls were refused");
    sim.stop().await;
}
