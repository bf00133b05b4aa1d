//! Whether settings and credentials can be used at all, before the SDK gets them: it stops the
//! program, or tries again for long, at what no URL and no header can hold.

use std::fmt;

use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider, future};
use aws_sdk_s3::config::Credentials;

use super::config::Config;
use super::error::{Error, Kind};

/// The longest name of a bucket that any store has ever taken.
const LONGEST_NAME: usize = 255;

/// How an endpoint is written.
const FORM: &str = "write it as https://HOST[:PORT]";

/// Whether the bucket's name, and the endpoint and the region where they are given, can be used.
pub fn check(config: &Config) -> Result<(), Error> {
    let odd = |c: char| !c.is_ascii_graphic() || "/?#%\\".contains(c);
    let bucket = &config.bucket;
    if bucket.is_empty() || bucket.len() > LONGEST_NAME || bucket.contains(odd) {
        let why = "no bucket can have this name";
        return Err(refused(format!("bucket {:?}", clip(bucket)), why));
    }
    if let Some(region) = &config.region {
        self::region(region, "--s3-region")?;
    }
    config.endpoint.as_ref().map_or(Ok(()), |url| endpoint(url, "--s3-endpoint", bucket))
}

/// Whether a region that came from `place` can be used.
pub fn region(text: &str, place: &str) -> Result<(), Error> {
    let good = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if text.is_empty() || text.len() > LONGEST_NAME || !text.chars().all(good) {
        let why = format!("{} in {place}", flaw(text).unwrap_or("there are odd characters"));
        return Err(refused("the region", &why));
    }
    Ok(())
}

/// Whether an endpoint that came from `place` can be used for `bucket`.
pub fn endpoint(text: &str, place: &str, bucket: &str) -> Result<(), Error> {
    if let Some(flaw) = flaw(text) {
        return Err(refused("the S3 endpoint", &format!("{flaw} in {place}")));
    }
    let refuse = |why: &str| Err(refused(format!("S3 endpoint {}", redacted(text)), why));
    if !text.is_ascii() {
        return refuse("write its host in ASCII (xn--…)");
    }
    let url = match url::Url::parse(text) {
        Err(url::ParseError::InvalidPort) => return refuse("a port is a number from 1 to 65535"),
        Err(_) => return refuse(&format!("it is no URL; {FORM}")),
        Ok(url) => url,
    };
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return refuse(FORM);
    }
    if !url.username().is_empty() || url.password().is_some() || text.contains('@') {
        return refuse(
            "credentials do not belong there: use AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
        );
    }
    if url.port() == Some(0) {
        return refuse("a port is a number from 1 to 65535");
    }
    if url.query().is_some() || url.fragment().is_some() {
        return refuse(&format!("it may have no query; {FORM}"));
    }
    let last = url.path_segments().and_then(|mut names| names.rfind(|name| !name.is_empty()));
    if last == Some(bucket) {
        return refuse(&format!("the bucket does not belong there; {FORM}"));
    }
    Ok(())
}

fn refused(what: impl Into<String>, why: &str) -> Error {
    Error::new("use", what, Kind::Setting).with_message(why)
}

/// What no setting may have, in words that do not show it.
fn flaw(text: &str) -> Option<&'static str> {
    if text.ends_with(['\n', '\r']) {
        Some("there is a line break at the end (made with `echo` instead of `printf`?)")
    } else if text.chars().any(char::is_control) {
        Some("there is a control character")
    } else if text.contains(char::is_whitespace) {
        Some("there is a blank")
    } else {
        None
    }
}

fn clip(text: &str) -> String {
    text.chars().take(LONGEST_NAME).collect()
}

/// What may be shown of an endpoint that may hold credentials by mistake.
fn redacted(endpoint: &str) -> String {
    match endpoint.rsplit_once('@') {
        Some((_, host)) => format!("…@{host}"),
        None => endpoint.to_owned(),
    }
}

/// Credentials that no request can carry.
#[derive(Debug, thiserror::Error)]
#[error("{flaw} in {place}, or wherever else AWS's tools would find it")]
pub struct Unusable {
    place: &'static str,
    flaw: &'static str,
}

/// The keys of AWS's chain, looked at before they are used.
pub struct Checked(pub SharedCredentialsProvider);

impl fmt::Debug for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Checked")
    }
}

impl ProvideCredentials for Checked {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        future::ProvideCredentials::new(async {
            let keys = off_thread(fetch(self.0.clone())).await?;
            usable(&keys).map_err(CredentialsError::invalid_configuration)?;
            Ok(keys)
        })
    }
}

async fn fetch(from: SharedCredentialsProvider) -> Result<Credentials, CredentialsError> {
    from.provide_credentials().await
}

/// Does what reads files without asking whether it may block: one that nobody fills (a FIFO, a
/// dead NFS) must not keep the program from hearing a signal.
pub async fn off_thread<T, F>(work: F) -> T
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let runtime = tokio::runtime::Handle::current();
    let done = tokio::task::spawn_blocking(move || runtime.block_on(work)).await;
    done.unwrap_or_else(|bug| std::panic::resume_unwind(bug.into_panic()))
}

fn usable(keys: &Credentials) -> Result<(), Unusable> {
    let parts = [
        ("AWS_ACCESS_KEY_ID", Some(keys.access_key_id())),
        ("AWS_SECRET_ACCESS_KEY", Some(keys.secret_access_key())),
        ("AWS_SESSION_TOKEN", keys.session_token()),
    ];
    for (place, text) in parts {
        let text = text.unwrap_or_default();
        let odd = (!text.is_ascii()).then_some("there is a character beyond ASCII");
        if let Some(flaw) = flaw(text).or(odd) {
            return Err(Unusable { place, flaw });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_checked_before_anything_is_sent() {
        for (endpoint, why) in [
            ("https://s3.example", None),
            ("http://127.0.0.1:7070/", None),
            ("https://s3.example/storage/v1", None),
            ("http://[::1]:65535", None),
            ("s3.example", Some("it is no URL")),
            ("ftp://s3.example", Some("https://HOST")),
            ("https://", Some("it is no URL")),
            ("https://AKID:secret@s3.example", Some("AWS_ACCESS_KEY_ID")),
            ("https://AKID:sec/ret@s3.example", Some("a port is")),
            ("https://AKIDsecret@s3.example", Some("AWS_ACCESS_KEY_ID")),
            ("https://s3.example/?x=1", Some("no query")),
            (" https://s3.example", Some("there is a blank in --s3-endpoint")),
            ("https://s3.example\n", Some("a line break at the end")),
            ("https://s3\u{7}.example", Some("a control character")),
            ("https://s3.example:99999", Some("from 1 to 65535")),
            ("https://s3.example:0", Some("from 1 to 65535")),
            ("https://s3.exämple", Some("ASCII")),
            ("https://s3.example/b", Some("the bucket does not belong there")),
        ] {
            let mut config = Config::new("b");
            config.endpoint = Some(endpoint.to_owned());
            let error = check(&config).err().map(|error| error.to_string());
            assert_eq!(error.is_some(), why.is_some(), "{endpoint}: {error:?}");
            let error = error.unwrap_or_default();
            assert!(error.contains(why.unwrap_or_default()), "{endpoint}: {error}");
            assert!(!error.contains("sec"), "{error}");
        }
    }

    #[test]
    fn a_name_that_no_bucket_or_region_has_is_refused() {
        for (bucket, good) in [
            ("backups", true),
            ("Old_Bucket.1", true),
            ("tenant:backups", true),
            ("", false),
            ("a/b", false),
            ("a b", false),
            ("a\n", false),
            ("bücket", false),
            (&"x".repeat(256), false),
        ] {
            assert_eq!(check(&Config::new(bucket)).is_ok(), good, "{bucket:?}");
        }
        for (text, why) in [
            ("eu-central-1", None),
            ("nl", None),
            ("us-east-1\n", Some("a line break at the end")),
            ("us-east-1 ", Some("there is a blank in AWS_REGION")),
            ("us/east", Some("odd characters")),
            ("", Some("odd characters")),
        ] {
            let error = region(text, "AWS_REGION").err().map(|error| error.to_string());
            assert_eq!(error.is_some(), why.is_some(), "{text:?}: {error:?}");
            assert!(error.unwrap_or_default().contains(why.unwrap_or_default()), "{text:?}");
        }
    }

    #[test]
    fn keys_that_no_header_can_hold_are_named_by_their_variable_and_never_shown() {
        let told = |id: &str, secret: &str, token: Option<&str>| {
            let keys = Credentials::new(id, secret, token.map(str::to_owned), None, "test");
            usable(&keys).err().map(|error| error.to_string())
        };
        assert_eq!(told("planted", "planted/+=", Some("planted")), None);
        for (id, secret, token, place) in [
            ("planted\n", "planted", None, "AWS_ACCESS_KEY_ID"),
            ("planted", "planted\r\n", None, "AWS_SECRET_ACCESS_KEY"),
            ("planted", " planted", None, "AWS_SECRET_ACCESS_KEY"),
            ("planted", "planted", Some("plan\u{1}ted"), "AWS_SESSION_TOKEN"),
            ("plänted", "planted", None, "AWS_ACCESS_KEY_ID"),
        ] {
            let error = told(id, secret, token).unwrap_or_default();
            assert!(error.contains(place) && !error.contains("planted"), "{place}: {error}");
        }
    }
}
