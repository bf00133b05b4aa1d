//! Objectspaces of the embedded cloud: what the API says of them, and the real S3 in them.

mod buckets;
mod keys;
mod servers;
mod spaces;

use capvco::sim::world::Objectspace;
use capvco::sim::{Pace, Sim, World};
use serde_json::Value;
use tempfile::TempDir;

use crate::support::peers::s3::S3;
use crate::support::peers::tool;
use crate::support::raw::{Raw, read};

const HERE: &str = "be-mac-dc01-001";

/// A cloud with one objectspace, and who looks at it.
struct Place {
    sim: Sim,
    raw: Raw,
    id: String,
    home: TempDir,
}

fn world() -> World {
    World { versitygw: Some(tool("versitygw")), ..World::small() }
}

impl Place {
    async fn new() -> Self {
        let mut world = world();
        let id = world.add_objectspace(HERE, "backups");
        let sim = Sim::start(world, Pace::Auto).await.unwrap();
        let raw = Raw::new(&sim);
        Self { sim, raw, id, home: tempfile::tempdir().unwrap() }
    }

    /// A path below the objectspace.
    fn path(&self, below: &str) -> String {
        format!("{{C}}/objectspaces/{}{below}", self.id)
    }

    async fn call(&self, method: &str, below: &str) -> (u16, Value) {
        self.raw.call(method, &self.path(below)).await
    }

    async fn get(&self, below: &str) -> Value {
        self.raw.get(&self.path(below)).await
    }

    /// Calls, and counts on success.
    async fn ok(&self, method: &str, below: &str) -> Value {
        let (status, body) = self.call(method, below).await;
        assert_eq!(status, 200, "{method} {below}: {body}");
        body
    }

    async fn send(&self, method: &str, below: &str, body: &Value) -> (u16, Value) {
        let request = self.raw.request(method, &self.path(below)).json(body);
        read(request.send().await.unwrap()).await
    }

    /// S3 with these keys.
    async fn s3(&self, access_key: &str, secret: &str) -> S3 {
        let url = self.sim.s3_url(&self.id).await.unwrap();
        S3::at(&url, access_key, secret, self.home.path())
    }

    /// S3 with the root keys that the API gives away.
    async fn root(&self) -> S3 {
        let detail = self.get("").await;
        let text = |key: &str| detail[key].as_str().unwrap().to_owned();
        self.s3(&text("access_key"), &text("secret")).await
    }

    /// S3 with a new key to a bucket.
    async fn key(&self, bucket: &str, name: &str, access: &str) -> S3 {
        let path = format!("/buckets/{bucket}/access-management");
        let path = format!("{path}?access_name={name}&access_type={access}");
        let key = self.ok("POST", &path).await;
        let text = |key_: &str| key[key_].as_str().unwrap().to_owned();
        self.s3(&text("access_key"), &text("secret_key")).await
    }

    /// A file with this content.
    fn file(&self, name: &str, content: &str) -> String {
        let path = self.home.path().join(name);
        std::fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn record(&self) -> Objectspace {
        let find = |w: &mut World| {
            w.objectspaces.iter().find(|o| o.objectspace_id == self.id).cloned().unwrap()
        };
        self.sim.world(find)
    }
}

/// The texts of a field, one a row.
fn column(list: &Value, key: &str) -> Vec<String> {
    let rows = list["result"].as_array().unwrap();
    rows.iter().map(|row| row[key].as_str().unwrap().to_owned()).collect()
}
