//! `capvco-e2e` as people run it.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command};

use crate::support::program::{Done, Program, e2e, finish, program};

/// The first `count` lines of a started program's stdout; the rest is left to it.
fn lines(child: &mut Child, count: usize) -> Vec<String> {
    let out = BufReader::new(child.stdout.as_mut().unwrap());
    out.lines().take(count).map(Result::unwrap).collect()
}

async fn terminate(child: Child) -> Done {
    let killed = Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
    assert!(killed.unwrap().success());
    finish(child).await
}

#[tokio::test]
async fn the_cloud_says_how_to_reach_it_and_ends_when_told() {
    let dir = tempfile::tempdir().unwrap();
    let (traffic, env) = (dir.path().join("traffic.jsonl"), dir.path().join("env"));
    let mut child = e2e()
        .words("cloud -locations xx-1,xx-2 -customer other_1 -latency 1ms -import-time 0s")
        .words("-write-latency 1ms -part-size 8MiB -rate-limit on -fault *@xx-2=500*inf")
        .arg("-traffic")
        .arg(&traffic)
        .arg("-env-file")
        .arg(&env)
        .spawn();
    let said = lines(&mut child, 4);
    let names = ["VCO_PORTAL_URL", "VCO_IAM_REFRESH_URL", "VCO_CUSTOMER_ID", "VCO_TOKEN"];
    let values: Vec<&str> = said
        .iter()
        .zip(names)
        .map(|(line, name)| line.strip_prefix(&format!("export {name}=")).unwrap())
        .collect();
    assert_eq!(values[2], "other_1");
    assert_eq!(std::fs::read_to_string(&env).unwrap().trim(), said.join("\n"));
    let call = |location: &str| {
        let path = format!("customers/other_1/locations/{location}/vm-images");
        let url = format!("{}/api/1/{path}", values[0]);
        let request = reqwest::Client::new().get(url).bearer_auth(values[3]);
        async move { request.send().await.unwrap().status().as_u16() }
    };
    crate::support::raw::install_tls();
    assert_eq!(call("xx-1").await, 200);
    assert_eq!(call("xx-2").await, 500);
    assert_eq!(std::fs::read_to_string(&traffic).unwrap().lines().count(), 2);
    let done = terminate(child).await.expect(0);
    assert_eq!(done.out, "", "nothing more came");
    assert!(!env.exists(), "what leads nowhere is not left there");
}

#[tokio::test]
async fn a_world_and_faults_come_from_files() {
    let dir = tempfile::tempdir().unwrap();
    let (world, faults) = (dir.path().join("world.yaml"), dir.path().join("faults.yaml"));
    std::fs::write(&world, "customers: [{customer_id: c_9, name: Nine}]\n").unwrap();
    std::fs::write(&faults, "- '*=500'\n- getImage=hang\n").unwrap();
    let mut child = e2e()
        .words("cloud --world")
        .arg(&world)
        .arg(format!("--fault=@{}", faults.display()))
        .spawn();
    assert!(lines(&mut child, 3)[2].ends_with("=c_9"));
    terminate(child).await.expect(0);
}

#[tokio::test]
async fn what_cannot_be_done_is_one_clear_error() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for (words, code, text) in [
        (&["cloud", "-listen", &address][..], 2, "cannot listen on"),
        (&["cloud", "-traffic", "/nowhere/t"], 2, "cannot write the traffic file /nowhere/t"),
        (&["cloud", "-env-file", "/nowhere/e"], 2, "cannot write /nowhere/e"),
        (&["cloud", "-fault", "boom"], 2, "boom"),
        (&["cloud", "-fault", "@/nowhere/f"], 2, "/nowhere/f"),
        (&["cloud", "-world", "/nowhere/w"], 2, "/nowhere/w"),
        (&["cloud", "-locations", "a/b"], 2, "a/b"),
        (&["cloud", "-nodes", "quick", "-node-tools", "/nowhere"], 3, "no folder /nowhere"),
        (&["image-server", "-name", "../x"], 2, "../x"),
        (&["image-server", "-dir", "/nowhere"], 2, "/nowhere"),
        (&[], 2, "Usage"),
    ] {
        let program = words.iter().fold(e2e(), Program::arg);
        let done = program.run().await.expect(code).says(text);
        assert_eq!(done.out, "", "{words:?}");
        assert!(done.err.matches("error:").count() <= 1, "{}", done.err);
    }
}

#[tokio::test]
async fn the_image_server_serves_what_it_made() {
    let mut child = e2e().words("image-server -size 3MiB -name node.qcow2").spawn();
    let said = lines(&mut child, 3);
    let value = |line: &str| line.split_once('=').unwrap().1.to_owned();
    let (url, file, md5) = (value(&said[0]), value(&said[1]), value(&said[2]));
    assert!(url.ends_with("/node.qcow2") && file.ends_with("/node.qcow2"));
    crate::support::raw::install_tls();
    let got = reqwest::get(&url).await.unwrap().bytes().await.unwrap();
    assert_eq!(got, std::fs::read(&file).unwrap());
    let sidecar = reqwest::get(format!("{url}.md5")).await.unwrap().text().await.unwrap();
    assert_eq!(sidecar.trim(), md5);
    terminate(child).await.expect(0);
    assert!(!std::path::Path::new(&file).exists(), "nothing is left");
}

#[tokio::test]
async fn machines_get_no_network_where_name_spaces_may_not_be_made_and_that_is_said() {
    // Even root may not make them without this right.
    let done = program("setpriv")
        .words("--bounding-set -sys_admin --")
        .arg(env!("CARGO_BIN_EXE_capvco-e2e"))
        .words("cloud --nodes full")
        .run()
        .await
        .expect(3)
        .says("machines cannot become nodes")
        .says("unshare --user --map-root-user --net sh");
    assert_eq!(done.out, "", "nothing was started");
}
