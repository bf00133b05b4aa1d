//! Which bucket, where, with whose keys, and how patiently.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use secrecy::SecretString;

/// What is sent with every put and every part, so that the store can see that the bytes arrived
/// whole. All of them travel as plain headers computed over the buffered bytes: trailers of
/// `aws-chunked` uploads are refused by many stores (awslabs/aws-sdk-rust#1240).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Checksum {
    /// CRC32C; MD5 from then on where the store refuses that.
    #[default]
    Auto,
    /// `x-amz-checksum-crc32c`.
    Crc32c,
    /// `x-amz-checksum-sha256`.
    Sha256,
    /// `Content-MD5`, which every store knows.
    Md5,
    /// None. AWS refuses a put with a lock then.
    None,
}

/// A bucket and the way to it.
#[derive(Clone)]
pub struct Config {
    /// `https://HOST[:PORT]`; without it AWS's own for the region, or `AWS_ENDPOINT_URL_S3` and
    /// `AWS_ENDPOINT_URL` of the environment or the profile.
    pub endpoint: Option<String>,
    /// Without it `AWS_REGION` or the profile's; `us-east-1` where the endpoint is one's own.
    pub region: Option<String>,
    /// The bucket.
    pub bucket: String,
    /// `https://HOST/BUCKET/KEY` rather than `https://BUCKET.HOST/KEY`; without it on where the
    /// endpoint is one's own.
    pub path_style: Option<bool>,
    /// More certificate authorities to trust, PEM.
    pub ca_file: Option<PathBuf>,
    /// How the store learns that bytes arrived whole.
    pub checksum: Checksum,
    /// Access key id and secret; without them AWS's default chain (environment, profile files,
    /// processes, web identities, instance roles).
    pub keys: Option<(String, SecretString)>,
    /// Who we say we are, `NAME/VERSION`.
    pub user_agent: String,
    /// Bytes a second, over all transfers of all clones of the bucket together.
    pub limit_rate: Option<u64>,
    /// How long nothing may move before the store counts as gone, all repetitions included.
    pub stall_timeout: Duration,
}

/// The stall timeout unless said otherwise.
pub const STALL_TIMEOUT: Duration = Duration::from_mins(1);

impl Config {
    /// The bucket of this name with everything else as usual.
    #[must_use]
    pub fn new(bucket: impl Into<String>) -> Self {
        Self {
            endpoint: None,
            region: None,
            bucket: bucket.into(),
            path_style: None,
            ca_file: None,
            checksum: Checksum::Auto,
            keys: None,
            user_agent: concat!("capvco/", env!("CARGO_PKG_VERSION")).to_owned(),
            limit_rate: None,
            stall_timeout: STALL_TIMEOUT,
        }
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("endpoint", &self.endpoint)
            .field("region", &self.region)
            .field("bucket", &self.bucket)
            .field("path_style", &self.path_style)
            .field("ca_file", &self.ca_file)
            .field("checksum", &self.checksum)
            .field("keys", &self.keys.as_ref().map(|_| "[redacted]"))
            .field("limit_rate", &self.limit_rate)
            .field("stall_timeout", &self.stall_timeout)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_not_shown() {
        let mut config = Config::new("b");
        config.keys = Some(("AKIDPLANTED".to_owned(), "planted-secret".to_owned().into()));
        let shown = format!("{config:?}");
        assert!(!shown.contains("PLANTED") && !shown.contains("planted"), "{shown}");
        assert!(shown.contains("bucket"), "{shown}");
    }
}
