//! The embedded cloud's cloudspaces and what is in them, over real HTTP.

mod disks;
mod front_ends;
mod machines;
mod spaces;
mod worlds;

use capvco::sim::{Pace, Sim, World};
use reqwest::RequestBuilder;
use serde_json::{Value, json};

use crate::support::raw::{Raw, read};

pub const HERE: &str = "be-mac-dc01-001";
/// A location's paths.
pub const AT: &str = "{C}/locations/be-mac-dc01-001";
/// The query of a small machine, without its name.
pub const SMALL: &str = "description=d&vcpus=2&memory=2048&image_id=100&disk_size=10";

/// A cloud with one empty cloudspace, and its path.
pub struct Place {
    pub sim: Sim,
    pub raw: Raw,
    pub id: String,
}

impl Place {
    pub async fn new() -> Self {
        Self::at(Pace::Auto).await
    }

    pub async fn at(pace: Pace) -> Self {
        let sim = Sim::start(World::small(), pace).await.unwrap();
        let id = sim.world(|w| w.add_cloudspace("acme_1", HERE, "net", ""));
        let raw = Raw::new(&sim);
        Self { sim, raw, id }
    }

    fn path(&self, tail: &str) -> String {
        format!("{{C}}/cloudspaces/{}{tail}", self.id)
    }

    /// A call below the cloudspace; status and body.
    pub async fn call(&self, method: &str, tail: &str) -> (u16, Value) {
        self.raw.call(method, &self.path(tail)).await
    }

    pub fn request(&self, method: &str, tail: &str) -> RequestBuilder {
        self.raw.request(method, &self.path(tail))
    }

    pub async fn send(&self, method: &str, tail: &str, body: &Value) -> (u16, Value) {
        read(self.request(method, tail).json(body).send().await.unwrap()).await
    }

    pub async fn get(&self, tail: &str) -> Value {
        self.raw.get(&self.path(tail)).await
    }

    pub async fn done(&self, method: &str, tail: &str) -> Value {
        let (status, body) = self.call(method, tail).await;
        assert_eq!(status, 200, "{method} {tail}: {body}");
        body
    }

    /// Makes a small machine; its number.
    pub async fn machine(&self, name: &str, more: &str) -> u64 {
        let made = self.done("POST", &format!("/vms?name={name}&{SMALL}{more}")).await;
        made["vm_id"].as_u64().unwrap()
    }

    pub async fn status(&self, vm_id: u64) -> Value {
        self.get(&format!("/vms/{vm_id}")).await["status"].clone()
    }
}

/// The body of a new cloudspace.
pub fn space(name: &str) -> Value {
    json!({"name": name, "location": HERE, "firewall": {"private": false}})
}

/// One field of every row of a list.
pub fn column(list: &Value, field: &str) -> Vec<Value> {
    list["result"].as_array().unwrap().iter().map(|row| row[field].clone()).collect()
}
