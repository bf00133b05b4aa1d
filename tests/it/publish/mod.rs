//! `capvco-imagepublish` against an embedded cloud and an image server of the test's own.

mod again;
mod create;
mod fail;
mod inputs;
mod lost;
mod replace;
mod stop;
mod upload;

use std::time::Duration;

use capvco::sim::world::{Image, Status};
use capvco::sim::{Sim, World};
use md5::{Digest, Md5};
use sha2::Sha256;

use crate::support::cloud::cloud;
use crate::support::images::qcow2;
use crate::support::program::{Done, Program, imagepublish};
use crate::support::scripted::{Answer, Scripted};

const BE: &str = "be-mac-dc01-001";
const NL: &str = "nl-rmd-dc01-001";
const QT: &str = "qt-gen-dc01-003";

/// The name under which everything is published here.
const NAME: &str = "k8s-v1.35.8";

/// The image that is published, and another one of the same length.
fn image() -> Vec<u8> {
    qcow2(10 << 30)
}

fn other_image() -> Vec<u8> {
    let mut image = image();
    *image.last_mut().unwrap() = 1;
    image
}

fn hex(digest: &[u8]) -> String {
    let digit = |nibble: u8| char::from_digit(u32::from(nibble), 16).unwrap();
    digest.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

fn md5(bytes: &[u8]) -> String {
    hex(&Md5::digest(bytes))
}

fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// A server with `/k8s.qcow2`, `/other.qcow2`, and these small files.
async fn server(files: &[(&str, String)]) -> Scripted {
    let files: Vec<(String, String)> =
        files.iter().map(|(path, text)| ((*path).to_owned(), text.clone())).collect();
    Scripted::start(move |asked, _| match asked.path.as_str() {
        "/k8s.qcow2" => Answer::file(asked, &image()),
        "/other.qcow2" => Answer::file(asked, &other_image()),
        path => match files.iter().find(|(at, _)| at == path) {
            Some((_, text)) => Answer::ok(text.clone()),
            None => Answer::status("404 Not Found").with("Content-Length", 0),
        },
    })
    .await
}

/// A cloud in which an import takes this long.
async fn slow_cloud(test: &str, import: Duration) -> Sim {
    let mut world = World::small();
    world.rules.import_time = import;
    cloud(test, world).await
}

/// The program, with quick looks and no limit of its own.
fn program(sim: &Sim) -> Program {
    imagepublish().on(sim).env("VCO_RATE_LIMIT", "off").words("-poll-interval 100ms")
}

/// Publishes `path` of the server to these locations under [`NAME`].
fn publishing(sim: &Sim, server: &Scripted, path: &str, more: &str) -> Program {
    let url = server.url(path);
    let patience = if more.contains("-retry-for") { "" } else { "-retry-for 3s" };
    program(sim).words(&format!("-url {url} -name {NAME} {patience} {more}"))
}

async fn publish(sim: &Sim, server: &Scripted, path: &str, more: &str) -> Done {
    publishing(sim, server, path, more).run().await
}

/// The living images of [`NAME`] at a location: number, state, tags.
fn images(sim: &Sim, at: &str) -> Vec<Image> {
    sim.world(|world| world.site(at).named(NAME).into_iter().cloned().collect())
}

/// Fails the test unless exactly one living image of [`NAME`] is at the location, and usable.
#[track_caller]
fn only(sim: &Sim, at: &str) -> Image {
    let mut all = images(sim, at);
    assert_eq!(all.len(), 1, "{all:?}");
    let image = all.remove(0);
    assert_eq!(image.status, Status::Created, "{image:?}");
    image
}

/// How many calls of this method and path's end the cloud got.
fn calls(sim: &Sim, method: &str, end: &str) -> usize {
    sim.journal().iter().filter(|e| e.method == method && e.path.ends_with(end)).count()
}

/// The results of a JSON report, as `location:result` words.
fn results(done: &Done) -> String {
    let json = done.json();
    let rows = json["results"].as_array().unwrap();
    let word = |row: &serde_json::Value| {
        let text = |key: &str| row[key].as_str().unwrap().to_owned();
        format!("{}:{}", text("location"), text("result"))
    };
    rows.iter().map(word).collect::<Vec<_>>().join(" ")
}
