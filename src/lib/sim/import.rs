//! Fetching an image from its URL, as the back-end does: HEAD, then GET (G8S).
//!
//! The only place of this room with an HTTP client. Errors are sentences: before the image is
//! made they become a 400, afterwards the reason why the import failed.

use std::sync::Arc;

use futures_util::StreamExt;
use md5::{Digest, Md5};
use reqwest::header::{CONTENT_LENGTH, LOCATION};
use reqwest::{Method, Response};
use rustls::{ClientConfig, RootCertStore};
use url::Url;

use super::error::Error;
use super::format::{self, Content};
use super::rules::Rules;
use super::upload::hex;

/// The cloud's own client.
#[derive(Debug, Clone)]
pub(super) struct Importer {
    client: reqwest::Client,
}

impl Importer {
    pub(super) fn new() -> Result<Self, Error> {
        let bad = |e: Box<dyn std::error::Error + Send + Sync>| Error::Client(e);
        let roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|e| bad(e.into()))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let client = reqwest::Client::builder()
            .tls_backend_preconfigured(tls)
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .build()
            .map_err(|e| bad(e.into()))?;
        Ok(Self { client })
    }

    /// The client itself, for others of this cloud.
    pub(super) fn client(&self) -> reqwest::Client {
        self.client.clone()
    }

    /// Whether the URL answers HEAD with 200 and a length.
    pub(super) async fn head(&self, url: &str, rules: &Rules) -> Result<(), String> {
        let response = self.send(Method::HEAD, url, rules).await?;
        let length = response.headers().get(CONTENT_LENGTH).and_then(|v| v.to_str().ok());
        match length.and_then(|text| text.parse::<u64>().ok()) {
            Some(_) => Ok(()),
            None => Err(format!("{url} does not say its Content-Length")),
        }
    }

    /// Downloads the image, without keeping it.
    pub(super) async fn fetch(
        &self,
        url: &str,
        md5_sum: &str,
        rules: &Rules,
    ) -> Result<Content, String> {
        let response = self.send(Method::GET, url, rules).await?;
        let expected = response.content_length();
        let (mut head, mut bytes, mut md5) = (Vec::new(), 0, Md5::new());
        let mut stream = response.bytes_stream();
        while let Some(chunk) = stream.next().await {
            let chunk = chunk.map_err(|e| format!("reading {url} after {bytes} bytes: {e}"))?;
            if head.len() < format::HEAD {
                head.extend_from_slice(&chunk[..chunk.len().min(format::HEAD - head.len())]);
            }
            if !md5_sum.is_empty() {
                md5.update(&chunk);
            }
            bytes += chunk.len() as u64;
        }
        if expected.is_some_and(|length| length != bytes) {
            return Err(format!("{url} ended after {bytes} bytes"));
        }
        let got = hex(&md5.finalize());
        if !md5_sum.is_empty() && !got.eq_ignore_ascii_case(md5_sum) {
            return Err(format!("md5_sum is {md5_sum}, {url} has {got}"));
        }
        format::recognise(&head, bytes, rules.raw_needs_boot_sector)
    }

    async fn send(&self, method: Method, url: &str, rules: &Rules) -> Result<Response, String> {
        let mut at = Url::parse(url).map_err(|e| format!("{url} is no URL: {e}"))?;
        for _ in 0..=rules.redirects {
            let request = self.client.request(method.clone(), at.clone());
            let response = request.send().await.map_err(|e| format!("{method} {at}: {e}"))?;
            let status = response.status();
            if status.as_u16() == 200 {
                return Ok(response);
            }
            let next = response.headers().get(LOCATION).and_then(|v| v.to_str().ok());
            match next.map(|next| at.join(next)) {
                Some(Ok(next)) if status.is_redirection() && rules.redirects > 0 => at = next,
                _ => return Err(format!("{method} {at} answered {}", status.as_u16())),
            }
        }
        Err(format!("{url} redirects more than {} times", rules.redirects))
    }
}
