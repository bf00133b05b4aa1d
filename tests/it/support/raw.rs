//! A client of the embedded cloud that knows nothing: tests of the cloud itself speak with it.

use capvco::sim::Sim;
use reqwest::{Method, RequestBuilder, Response};
use serde_json::Value;

/// The TLS provider, once a process; every test that makes an HTTP client needs it.
pub fn install_tls() {
    // An error means that another test was first.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// A client with a token.
pub struct Raw {
    http: reqwest::Client,
    api: String,
    customer: String,
    pub token: String,
}

impl Raw {
    /// A client of this cloud, whose traffic it lets be written down.
    pub fn new(sim: &Sim) -> Self {
        sim.write_traffic_to(&super::traffic_file("sim")).expect("the traffic file can be written");
        Self::unrecorded(sim)
    }

    /// A client for calls that even a deliberately wrong client would not make.
    pub fn unrecorded(sim: &Sim) -> Self {
        install_tls();
        let http = reqwest::Client::builder().no_proxy().build().expect("a client can be made");
        let api = format!("{}/api/1", sim.portal_url());
        let customer = format!("/customers/{}", sim.customer());
        Self { http, api, customer, token: sim.token() }
    }

    /// A request to a path below the API; `{C}` stands for the customer, `{L}` for the images
    /// of the first location.
    pub fn request(&self, method: &str, path: &str) -> RequestBuilder {
        let images = format!("{}/locations/be-mac-dc01-001/vm-images", self.customer);
        let path = path.replace("{C}", &self.customer).replace("{L}", &images);
        let method: Method = method.parse().expect("a method");
        self.http.request(method, format!("{}{path}", self.api)).bearer_auth(&self.token)
    }

    /// The same, sent; the status and the body, parsed if it is JSON.
    pub async fn call(&self, method: &str, path: &str) -> (u16, Value) {
        read(self.request(method, path).send().await.expect("a reply")).await
    }

    /// The same, marked as wrong on purpose.
    pub async fn wrong(&self, method: &str, path: &str) -> (u16, Value) {
        let request = self.request(method, path).header("x-capvco-deliberate", "1");
        read(request.send().await.expect("a reply")).await
    }

    pub async fn get(&self, path: &str) -> Value {
        let (status, body) = self.call("GET", path).await;
        assert_eq!(status, 200, "{path}: {body}");
        body
    }
}

/// A response's status and body.
pub async fn read(response: Response) -> (u16, Value) {
    let status = response.status().as_u16();
    let text = response.text().await.expect("a whole body");
    let body = match text.as_str() {
        "" => Value::Null,
        text => serde_json::from_str(text).unwrap_or_else(|_| Value::from(text)),
    };
    (status, body)
}
