//! Ingress: pools, port forwards, and load balancers that really carry connections.

use std::net::{IpAddr, SocketAddr};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::*;

/// A server that says its name to whoever comes, then echoes; where it is.
async fn server(at: &str, name: &'static str) -> SocketAddr {
    let listener = TcpListener::bind(at).await.unwrap();
    let addr = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            tokio::spawn(async move {
                let _ = client.write_all(name.as_bytes()).await;
                let (mut from, mut to) = client.split();
                let _ = tokio::io::copy(&mut from, &mut to).await;
            });
        }
    });
    addr
}

/// What one connection to the front end is told: one letter, or nothing where it fails.
async fn greeting(front: &str) -> (String, TcpStream) {
    let mut stream = TcpStream::connect(front).await.unwrap();
    let mut letter = [0; 1];
    let told = match stream.read_exact(&mut letter).await {
        Ok(_) => String::from_utf8_lossy(&letter).into_owned(),
        Err(_) => String::new(),
    };
    (told, stream)
}

fn balancer(pool: &str, port: u16, target: u16) -> Value {
    json!({
        "name": "lb", "type": "tcp", "front_end": {"port": port},
        "back_end": {"serverpool_id": pool, "target_port": target},
    })
}

/// A place whose pool `p` has these hosts.
async fn pooled(hosts: &[&str]) -> (Place, String) {
    let place = Place::new().await;
    let made = place.done("POST", "/ingress/server-pools?name=p&description=d").await;
    let pool = made["id"].as_str().unwrap().to_owned();
    for host in hosts {
        place.done("POST", &format!("/ingress/server-pools/{pool}/hosts?address={host}")).await;
    }
    (place, pool)
}

async fn front(place: &Place) -> String {
    let ip = place.get("").await["external_network_ip"].as_str().unwrap().to_owned();
    ip.split('/').next().unwrap().to_owned()
}

#[tokio::test]
async fn connections_are_spread_over_the_living_and_the_dead() {
    let (place, pool) = pooled(&["192.168.103.10", "192.168.103.11", "192.168.103.12"]).await;
    let (a, c) = (server("127.0.0.1:0", "a").await, server("127.0.0.1:0", "c").await);
    let dead = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    for (ip, to) in [("192.168.103.10", a), ("192.168.103.11", dead), ("192.168.103.12", c)] {
        place.sim.map_port(&place.id, ip, 6443, to);
    }
    let (code, made) =
        place.send("POST", "/ingress/load-balancers", &balancer(&pool, 6443, 6443)).await;
    assert_eq!(code, 200, "{made}");
    let at = format!("{}:6443", front(&place).await);
    let mut told = Vec::new();
    for _ in 0..6 {
        told.push(greeting(&at).await.0);
    }
    assert_eq!(told, ["a", "", "c", "a", "", "c"]);
    let (_, mut stream) = greeting(&at).await;
    stream.write_all(b"x").await.unwrap();
    let mut echo = [0; 1];
    stream.read_exact(&mut echo).await.unwrap();
    assert_eq!(&echo, b"x");

    let id = made["id"].as_str().unwrap();
    let shown = place.get(&format!("/ingress/load-balancers/{id}")).await;
    assert_eq!((&shown["type"], &shown["front_end"]["port"]), (&json!("tcp"), &json!(6443)));
    let (code, _) = place.send("POST", "/ingress/load-balancers", &balancer(&pool, 6443, 1)).await;
    assert_eq!(code, 409);
    assert_eq!(place.call("DELETE", &format!("/ingress/server-pools/{pool}")).await.0, 409);
    place.done("DELETE", &format!("/ingress/load-balancers/{id}")).await;
    assert_eq!(stream.read(&mut echo).await.unwrap_or(0), 0, "it was cut");
    assert!(TcpStream::connect(&at).await.is_err());
    place.done("DELETE", &format!("/ingress/server-pools/{pool}")).await;
}

#[tokio::test]
async fn a_removed_host_keeps_its_connections_or_loses_them_by_rule() {
    for cut in [false, true] {
        let (place, pool) = pooled(&["192.168.103.10"]).await;
        place.sim.world(|w| w.rules.cut_removed_hosts = cut);
        let a = server("127.0.0.1:0", "a").await;
        place.sim.map_address(&place.id, "192.168.103.10", a.ip());
        place.send("POST", "/ingress/load-balancers", &balancer(&pool, 6443, a.port())).await;
        let at = format!("{}:6443", front(&place).await);
        let (told, mut stream) = greeting(&at).await;
        assert_eq!(told, "a");
        let hosts = place.get(&format!("/ingress/server-pools/{pool}/hosts")).await;
        let host = hosts["result"][0]["host_id"].as_str().unwrap();
        place.done("DELETE", &format!("/ingress/server-pools/{pool}/hosts/{host}")).await;
        let mut echo = [0; 1];
        let _ = stream.write_all(b"x").await;
        let goes_on = stream.read(&mut echo).await.is_ok_and(|n| n == 1);
        assert_eq!(goes_on, !cut);
        assert_eq!(greeting(&at).await.0, "", "the pool is empty");
    }
}

#[tokio::test]
async fn a_load_balancer_listens_or_is_refused() {
    let (place, pool) = pooled(&[]).await;
    let path = "/ingress/load-balancers";
    for (change, code) in [
        (json!({"type": "sctp"}), 400),
        (json!({"front_end": {"port": 70_000}}), 400),
        (json!({"front_end": {"port": 1, "ip_address": "198.51.100.1"}}), 400),
        (json!({"back_end": {"serverpool_id": "none", "target_port": 1}}), 404),
    ] {
        let mut body = balancer(&pool, 7000, 1);
        body.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        assert_eq!(place.send("POST", path, &body).await.0, code, "{body}");
    }
    let ip: IpAddr = front(&place).await.parse().unwrap();
    let taken = TcpListener::bind((ip, 7001)).await.unwrap();
    let (code, why) = place.send("POST", path, &balancer(&pool, 7001, 1)).await;
    assert_eq!(code, 500, "somebody else listens there: {why}");
    assert_eq!(place.get(path).await["result"], json!([]));
    drop(taken);
    let (code, made) = place.send("POST", path, &balancer(&pool, 7001, 1)).await;
    assert_eq!(code, 200);
    let id = made["id"].as_str().unwrap();
    let changed = place.send("PUT", &format!("{path}/{id}"), &balancer(&pool, 7002, 1)).await;
    assert_eq!(changed.0, 200);
    assert!(TcpStream::connect((ip, 7002)).await.is_ok());
    assert_eq!(column(&place.get(path).await, "serverpool_name"), ["p"]);
    place.done("DELETE", "").await;
    assert!(TcpStream::connect((ip, 7002)).await.is_err(), "the bin's cloudspace does not serve");
}

#[tokio::test]
async fn a_front_ends_with_its_cloud() {
    let (place, pool) = pooled(&[]).await;
    place.send("POST", "/ingress/load-balancers", &balancer(&pool, 7000, 1)).await;
    let at = format!("{}:7000", front(&place).await);
    assert!(TcpStream::connect(&at).await.is_ok());
    drop(place);
    let mut tries = 0..200;
    while TcpStream::connect(&at).await.is_ok() {
        assert!(tries.next().is_some(), "it still listens");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn pools_are_changed_and_port_forwards_change_their_ids() {
    let (place, pool) = pooled(&["a.example"]).await;
    let path = format!("/ingress/server-pools/{pool}");
    place.done("PUT", &format!("{path}?name=q&locked=true")).await;
    let shown = place.get(&path).await;
    assert_eq!(
        (&shown["name"], &shown["description"], &shown["locked"]),
        (&json!("q"), &json!("d"), &json!(true))
    );
    place.done("PUT", &path).await;
    assert_eq!(place.get("/ingress/server-pools").await["result"][0]["locked"], false);

    let vm = place.machine("a", "").await;
    let query = format!("local_port=22&protocol=tcp&vm_id={vm}");
    let made = place.done("POST", &format!("/portforwards?{query}&public_port=2222")).await;
    let id = made["portforward_id"].as_str().unwrap();
    let (code, _) = place.call("POST", &format!("/portforwards?{query}&public_port=2222")).await;
    assert_eq!(code, 409);
    let shown = place.get(&format!("/portforwards/{id}")).await;
    assert_eq!(
        (&shown["local_ip"], &shown["till_public_port"]),
        (&json!("192.168.103.254"), &Value::Null)
    );
    place.done("PUT", &format!("/portforwards/{id}?{query}&public_port=2223")).await;
    assert_eq!(place.call("GET", &format!("/portforwards/{id}")).await.0, 404);
    let list = place.get("/portforwards").await;
    let id = list["result"][0]["portforward_id"].as_str().unwrap();
    let left = place.done("DELETE", &format!("/portforwards/{id}")).await;
    assert_eq!(left["result"], json!([]));
}
