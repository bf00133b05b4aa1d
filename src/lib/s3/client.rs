//! A bucket and the way to it.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_config::environment::EnvironmentVariableRegionProvider;
use aws_config::meta::region::RegionProviderChain;
use aws_config::profile::ProfileFileRegionProvider;
use aws_config::{BehaviorVersion, SdkConfig};
use aws_sdk_s3::Client;
use aws_sdk_s3::config::retry::RetryConfig;
use aws_sdk_s3::config::timeout::TimeoutConfig;
use aws_sdk_s3::config::{
    Credentials, Region, RequestChecksumCalculation, ResponseChecksumValidation,
    SharedCredentialsProvider, StalledStreamProtectionConfig,
};
use aws_smithy_async::time::TimeSource;
use aws_smithy_http_client::Connector;
use aws_smithy_http_client::proxy::ProxyConfig;
use aws_smithy_http_client::tls::{Provider, rustls_provider::CryptoMode};
use aws_smithy_runtime_api::client::http::{HttpConnectorSettings, SharedHttpConnector};
use aws_types::service_config::ServiceConfigKey;
use secrecy::ExposeSecret as _;

use super::checksum::Choice;
use super::config::Config;
use super::error::{Error, Kind};
use super::names::Names;
use super::pace::Pace;
use super::roots;
use super::settings::{self, Checked, off_thread};
use super::wire::Wire;
use crate::clock::Clock;

/// How long connecting may take, TLS included.
const CONNECT: Duration = Duration::from_secs(10);

/// A connection that idles longer may have been closed by the other side just as we use it.
const IDLE: Duration = Duration::from_secs(20);

/// What the SDK does unasked is that of this day's version.
fn behavior() -> BehaviorVersion {
    BehaviorVersion::v2026_01_12()
}

/// A bucket; clones share connections, the rate limit and what was learnt of the store.
#[derive(Clone)]
pub struct Bucket {
    inner: Arc<Inner>,
}

struct Inner {
    client: Client,
    name: String,
    region: String,
    endpoint: Option<String>,
    clock: Arc<dyn Clock>,
    wire: Wire,
    sums: Choice,
    stall_timeout: Duration,
    page: i32,
}

impl fmt::Debug for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bucket")
            .field("name", &self.inner.name)
            .field("endpoint", &self.inner.endpoint)
            .field("region", &self.inner.region)
            .finish_non_exhaustive()
    }
}

/// Signs with our clock's time; the SDK adds what it learns of the store's.
#[derive(Debug)]
struct OurTime(Arc<dyn Clock>);

impl TimeSource for OurTime {
    fn now(&self) -> SystemTime {
        UNIX_EPOCH + Duration::try_from_secs_f64(self.0.unix()).unwrap_or_default()
    }
}

impl Bucket {
    /// Prepares the way to a bucket; nothing is sent to it yet (but credentials may be fetched).
    ///
    /// # Errors
    /// [`Kind::Setting`] where the endpoint, region, CA file or name cannot be used.
    pub async fn open(config: Config, clock: Arc<dyn Clock>) -> Result<Self, Error> {
        settings::check(&config)?;
        let given = config.clone();
        let connector = off_thread(async move { connector(&given) }).await?;
        let pace = config.limit_rate.map(Pace::new);
        let wire = Wire::new(connector, clock.clone(), pace);
        let (given, way, time) = (config.clone(), wire.clone(), clock.clone());
        let shared = off_thread(async move { shared(&given, &way, &time).await }).await;
        let endpoint = config.endpoint.clone().or_else(|| endpoint_of(&shared));
        if let Some(url) = &endpoint {
            let origin = "AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL or the profile's endpoint_url";
            settings::endpoint(url, origin, &config.bucket)?;
        }
        let Some(region) = shared.region().map(ToString::to_string) else {
            return Err(Error::new("use", "the bucket's region", Kind::Setting).with_message(
                "it is not known: give --s3-region, AWS_REGION or a profile with one",
            ));
        };
        settings::region(&region, "AWS_REGION, AWS_DEFAULT_REGION or the profile")?;
        let mut sdk = aws_sdk_s3::config::Builder::from(&shared)
            .force_path_style(config.path_style.unwrap_or(endpoint.is_some()));
        if let Some(keys) = shared.credentials_provider() {
            sdk = sdk.credentials_provider(Checked(keys));
        }
        let inner = Inner {
            client: Client::from_conf(sdk.build()),
            name: config.bucket,
            region,
            endpoint,
            clock,
            wire,
            sums: Choice::new(config.checksum),
            stall_timeout: config.stall_timeout,
            page: 1000,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The bucket's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// The region that requests are signed for.
    #[must_use]
    pub fn region(&self) -> &str {
        &self.inner.region
    }

    /// The endpoint, where it is not AWS's own.
    #[must_use]
    pub fn endpoint(&self) -> Option<&str> {
        self.inner.endpoint.as_deref()
    }

    pub(super) fn client(&self) -> &Client {
        &self.inner.client
    }

    pub(super) fn clock(&self) -> &Arc<dyn Clock> {
        &self.inner.clock
    }

    pub(super) fn wire(&self) -> &Wire {
        &self.inner.wire
    }

    pub(super) fn sums(&self) -> &Choice {
        &self.inner.sums
    }

    pub(super) fn stall_timeout(&self) -> Duration {
        self.inner.stall_timeout
    }

    /// How many entries a page of a list has.
    pub(super) fn page(&self) -> i32 {
        self.inner.page
    }

    /// `s3://BUCKET/KEY`, for errors.
    pub(super) fn at(&self, key: &str) -> String {
        format!("s3://{}/{key}", self.inner.name)
    }

    /// Whether the bytes of a put are part of what is signed: over TLS nobody on the way can
    /// change them, and hashing costs as much as encrypting.
    pub(super) fn signs_bodies(&self) -> bool {
        self.inner.endpoint.as_ref().is_some_and(|url| url.starts_with("http://"))
    }

    /// The same bucket, whose lists come in pages of `entries`: for tests, and for stores that
    /// page badly.
    #[must_use]
    pub fn with_page_size(self, entries: i32) -> Self {
        let Inner { client, name, region, endpoint, clock, wire, stall_timeout, .. } = &*self.inner;
        Self {
            inner: Arc::new(Inner {
                client: client.clone(),
                name: name.clone(),
                region: region.clone(),
                endpoint: endpoint.clone(),
                clock: clock.clone(),
                wire: wire.clone(),
                sums: self.inner.sums.again(),
                stall_timeout: *stall_timeout,
                page: entries,
            }),
        }
    }
}

fn connector(config: &Config) -> Result<SharedHttpConnector, Error> {
    // As other programs do: what runs on this machine is not reached through a proxy.
    let proxy = if config.endpoint.as_deref().is_some_and(is_loopback) {
        ProxyConfig::disabled()
    } else {
        ProxyConfig::from_env()
    };
    let settings = HttpConnectorSettings::builder().connect_timeout(CONNECT).build();
    let connector = Connector::builder()
        .connector_settings(settings)
        .proxy_config(proxy)
        .pool_idle_timeout(IDLE)
        .tls_provider(Provider::Rustls(CryptoMode::Ring))
        .tls_context(roots::context(config.ca_file.as_deref())?)
        .build_with_resolver(Names::default());
    Ok(SharedHttpConnector::new(connector))
}

fn is_loopback(endpoint: &str) -> bool {
    let Ok(url) = url::Url::parse(endpoint) else { return false };
    match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost",
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// Region, endpoint, credentials as AWS's tools find them, and our own transport.
async fn shared(config: &Config, wire: &Wire, clock: &Arc<dyn Clock>) -> SdkConfig {
    let time = OurTime(clock.clone());
    let mut loader = aws_config::defaults(behavior())
        .http_client(wire.clone())
        .time_source(time)
        .timeout_config(TimeoutConfig::disabled())
        .retry_config(RetryConfig::disabled())
        .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
        .request_checksum_calculation(RequestChecksumCalculation::WhenRequired)
        .response_checksum_validation(ResponseChecksumValidation::WhenRequired);
    if let Some(region) = region(config).await {
        loader = loader.region(region);
    }
    if let Some(endpoint) = &config.endpoint {
        loader = loader.endpoint_url(endpoint.trim_end_matches('/'));
    }
    if let Some((id, secret)) = &config.keys {
        let keys = Credentials::new(id.clone(), secret.expose_secret(), None, None, "given");
        loader = loader.credentials_provider(SharedCredentialsProvider::new(keys));
    }
    if let Ok(name) = aws_sdk_s3::config::AppName::new(config.user_agent.replace('/', "_")) {
        loader = loader.app_name(name);
    }
    loader.load().await
}

/// The endpoint that files or environment name for S3, or for all services.
fn endpoint_of(shared: &SdkConfig) -> Option<String> {
    let key = ServiceConfigKey::builder().service_id("S3").env("AWS_ENDPOINT_URL");
    let key = key.profile("endpoint_url").build().ok()?;
    let own = shared.service_config().and_then(|config| config.load_config(key));
    own.or_else(|| shared.endpoint_url().map(str::to_owned))
}

/// The region asked for, or the surroundings', or where the endpoint is one's own, any.
async fn region(config: &Config) -> Option<Region> {
    if let Some(region) = &config.region {
        return Some(Region::new(region.clone()));
    }
    // Elsewhere the SDK's own chain asks the machine, too, which takes its time where there is
    // nobody to answer.
    config.endpoint.as_ref()?;
    RegionProviderChain::first_try(EnvironmentVariableRegionProvider::new())
        .or_else(ProfileFileRegionProvider::new())
        .or_else("us-east-1")
        .region()
        .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_here_needs_no_proxy() {
        for (endpoint, here) in [
            ("http://127.0.0.1:7070", true),
            ("http://[::1]:7070", true),
            ("https://localhost", true),
            ("https://s3.example", false),
            ("nonsense", false),
        ] {
            assert_eq!(is_loopback(endpoint), here, "{endpoint}");
        }
    }
}
