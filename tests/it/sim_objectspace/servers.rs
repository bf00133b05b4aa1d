//! The servers behind objectspaces: real processes, none of which is left behind.

use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::*;
use crate::support::peers::until;
use crate::support::program::e2e;

/// Whether somebody listens at a URL such as `http://127.0.0.1:40123`.
fn listens(url: &str) -> bool {
    TcpStream::connect(url.trim_start_matches("http://")).is_ok()
}

#[tokio::test]
async fn servers_end_with_the_cloud_however_it_ends() {
    let place = Place::new().await;
    let url = place.sim.s3_url(&place.id).await.unwrap();
    assert!(listens(&url));
    assert_eq!(place.sim.s3_url(&place.id).await.unwrap(), url);
    drop(place);
    assert!(!listens(&url), "dropped");

    let place = Place::new().await;
    let url = place.sim.s3_url(&place.id).await.unwrap();
    place.sim.stop().await;
    assert!(!listens(&url), "stopped");

    let (send, receive) = std::sync::mpsc::channel();
    let panicked = tokio::spawn(async move {
        let place = Place::new().await;
        send.send(place.sim.s3_url(&place.id).await.unwrap()).unwrap();
        panic!("a test fails");
    });
    assert!(panicked.await.is_err());
    assert!(!listens(&receive.recv().unwrap()), "panicked");
}

#[tokio::test]
async fn a_server_that_died_is_started_again_with_its_data() {
    let place = Place::new().await;
    place.ok("POST", "/buckets/etcd").await;
    let root = place.root().await;
    root.s5cmd(&["cp", &place.file("a", "hello"), "s3://etcd/a"]).expect(0);
    let port = root.endpoint().rsplit(':').next().unwrap().to_owned();
    // By its own command line, which has its port.
    let address = format!("127.0.0.1:{port}");
    let found = std::process::Command::new("pgrep").args(["-f", &address]).output();
    let ids = String::from_utf8(found.unwrap().stdout).unwrap();
    let server = |id: &&str| {
        std::fs::read_to_string(format!("/proc/{id}/comm")).is_ok_and(|c| c.trim() == "versitygw")
    };
    let id = ids.lines().find(server).expect("the server runs");
    let killed = std::process::Command::new("kill").args(["-9", id]).status();
    assert!(killed.unwrap().success());
    assert!(until(Duration::from_secs(10), || !listens(root.endpoint())));
    let again = place.root().await;
    assert_eq!(again.s5cmd(&["cat", "s3://etcd/a"]).expect(0).out, "hello");
}

#[tokio::test]
async fn a_killed_program_leaves_no_server() {
    let dir = tempfile::tempdir().unwrap();
    let world = dir.path().join("world.yaml");
    let text = "objectspaces: [{customer_id: acme_1, location: be-mac-dc01-001, name: backups}]\n";
    std::fs::write(&world, text).unwrap();
    for signal in ["-KILL", "-TERM"] {
        let mut child = e2e()
            .words("cloud --world")
            .arg(&world)
            .arg("--versitygw")
            .arg(tool("versitygw"))
            .env("TMPDIR", dir.path())
            .spawn();
        let said = std::io::BufReader::new(child.stderr.as_mut().unwrap());
        let mut lines = std::io::BufRead::lines(said).map(Result::unwrap);
        let line = lines.find(|line| line.contains("backups")).expect("it says where S3 is");
        let url = line.split_whitespace().find(|word| word.starts_with("http://")).unwrap();
        assert!(listens(url), "{line}");
        let id = child.id().to_string();
        let killed = std::process::Command::new("kill").args([signal, &id]).status();
        assert!(killed.unwrap().success());
        child.wait().unwrap();
        assert!(until(Duration::from_secs(10), || !listens(url)), "{signal}: {url}");
    }
}

#[tokio::test]
async fn without_versitygw_the_reply_says_what_to_do() {
    let sim = Sim::start(World::small(), Pace::Auto).await.unwrap();
    drop(sim);
    let world = World { versitygw: Some("/nowhere/versitygw".into()), ..World::small() };
    let sim = Sim::start(world, Pace::Auto).await.unwrap();
    let raw = Raw::new(&sim);
    let new = format!("{{C}}/objectspaces?name=backups&location={HERE}");
    let (status, said) = raw.call("POST", &new).await;
    assert_eq!(status, 501);
    assert!(said["message"].as_str().unwrap().contains("scripts/test-tools s3"), "{said}");
    assert!(raw.get("{C}/objectspaces").await["result"].as_array().unwrap().is_empty());
    let id = sim.world(|w| w.add_objectspace(HERE, "there"));
    let why = sim.s3_url(&id).await.unwrap_err().to_string();
    assert!(why.contains(&id) && why.contains("scripts/test-tools s3"), "{why}");
}

#[tokio::test]
async fn a_program_that_is_no_server_says_so() {
    let world = World { versitygw: Some("/bin/false".into()), ..World::small() };
    let sim = Sim::start(world, Pace::Auto).await.unwrap();
    let id = sim.world(|w| w.add_objectspace(HERE, "there"));
    let why = sim.s3_url(&id).await.unwrap_err().to_string();
    assert!(why.contains("does not run"), "{why}");
}

#[tokio::test]
async fn new_servers_are_announced_and_furnished() {
    let mut world = world();
    let id = world.add_objectspace(HERE, "backups");
    let heard = Arc::new(Mutex::new(Vec::new()));
    let text = "{name: etcd, locking: true, keys: [{name: k, access: rw}]}";
    let bucket = capvco::yaml::from_str(text, "test").unwrap();
    world.objectspaces[0].buckets.push(bucket);
    let sim = Sim::start(world, Pace::Auto).await.unwrap();
    let (to, raw) = (Arc::clone(&heard), Raw::new(&sim));
    sim.announce_s3(move |id, name, url| {
        assert_eq!(name, "backups");
        to.lock().unwrap().push((id.to_owned(), url.to_owned()));
    });
    let place = Place { sim, raw, id, home: tempfile::tempdir().unwrap() };
    let url = place.sim.s3_url(&place.id).await.unwrap();
    assert_eq!(*heard.lock().unwrap(), [(place.id.clone(), url)]);
    let key = place.record().bucket("etcd").unwrap().key("k").unwrap().pair.clone();
    let key = place.s3(&key.access_key, &key.secret).await;
    key.s5cmd(&["cp", &place.file("a", "hello"), "s3://etcd/a"]).expect(0);
}
