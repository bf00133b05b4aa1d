//! Where backups lie: a bucket, and what the keys in it begin with.

use std::sync::Arc;

use super::Error;
use crate::clock::Clock;
use crate::report::shell_word;
use crate::s3::{Bucket, Config};

/// A place for backups.
#[derive(Debug, Clone)]
pub struct Target {
    /// The bucket and the way to it.
    pub s3: Config,
    /// What every key begins with: nothing, or text that ends with `/`.
    pub prefix: String,
}

impl Target {
    /// A place whose keys begin with `prefix`, which gets its last `/` if it lacks that.
    pub fn new(s3: Config, prefix: &str) -> Result<Self, Error> {
        let odd = |what: &str| {
            Error::asked(
                format!("the prefix {prefix:?} {what}"),
                "write names with / between them, such as backups/prod/",
            )
        };
        if prefix.starts_with('/') {
            return Err(odd("starts with /"));
        }
        if prefix.contains("//") {
            return Err(odd("has an empty name in it"));
        }
        if prefix.chars().any(char::is_control) {
            return Err(odd("has a control character in it"));
        }
        if prefix.split('/').any(|name| name == "." || name == "..") {
            return Err(odd("has . or .. for a name"));
        }
        // A key of S3 has at most 1024 bytes; ours adds about 120.
        if prefix.len() > 800 {
            return Err(odd("is longer than 800 bytes"));
        }
        let mut prefix = prefix.to_owned();
        if !prefix.is_empty() && !prefix.ends_with('/') {
            prefix.push('/');
        }
        Ok(Self { s3, prefix })
    }

    /// The flags that name this place, for a command that is shown. Keys are in none of them.
    #[must_use]
    pub fn flags(&self) -> Vec<String> {
        let named = |flag: &str, value: Option<&str>| {
            value.map(|value| format!("--s3-{flag} {}", shell_word(value)))
        };
        let s3 = &self.s3;
        let style = s3.path_style.map(|on| if on { "on" } else { "off" });
        let ca = s3.ca_file.as_ref().map(|path| path.display().to_string());
        let all = [
            named("endpoint", s3.endpoint.as_deref()),
            named("region", s3.region.as_deref()),
            named("bucket", Some(&s3.bucket)),
            named("prefix", Some(&self.prefix)),
            named("path-style", style),
            named("ca-file", ca.as_deref()),
        ];
        all.into_iter().flatten().collect()
    }

    /// The bucket, ready to be used.
    pub async fn open(&self, clock: Arc<dyn Clock>) -> Result<Bucket, Error> {
        let doing = format!("cannot use the bucket {}", self.s3.bucket);
        Bucket::open(self.s3.clone(), clock).await.map_err(Error::doing(doing))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_named_by_flags_that_a_shell_reads() {
        let mut s3 = Config::new("b");
        let words = |s3: &Config| Target::new(s3.clone(), "a b").unwrap().flags().join(" ");
        assert_eq!(words(&s3), "--s3-bucket b --s3-prefix 'a b/'");
        s3.endpoint = Some("https://s3.example.com".to_owned());
        s3.region = Some("nl".to_owned());
        s3.path_style = Some(false);
        s3.ca_file = Some("/etc/ca.pem".into());
        s3.keys = Some(("planted".to_owned(), "planted".to_owned().into()));
        assert_eq!(
            words(&s3),
            "--s3-endpoint https://s3.example.com --s3-region nl --s3-bucket b --s3-prefix 'a b/' \
             --s3-path-style off --s3-ca-file /etc/ca.pem"
        );
    }

    #[test]
    fn a_prefix_ends_with_a_slash_and_is_a_path() {
        for (given, want) in [
            ("", Some("")),
            ("etcd", Some("etcd/")),
            ("etcd/", Some("etcd/")),
            ("a/b c", Some("a/b c/")),
            ("/etcd", None),
            ("a//b", None),
            ("a/../b", None),
            ("./a", None),
            ("a\nb", None),
        ] {
            let got = Target::new(Config::new("b"), given).ok().map(|target| target.prefix);
            assert_eq!(got.as_deref(), want, "{given:?}");
        }
        assert!(Target::new(Config::new("b"), &"x".repeat(801)).is_err());
    }
}
