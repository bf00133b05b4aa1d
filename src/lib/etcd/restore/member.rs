//! The members of the new cluster: their URLs, their ids, and how etcd writes them.
//!
//! Ids as in etcd's `server/etcdserver/api/membership/{member,cluster}.go`: the first 8 bytes,
//! big endian, of SHA-1 over the sorted peer URLs and the token; the cluster's over the ids in
//! ascending order. URLs are held to `client/pkg/types/urls.go`.

use sha1::{Digest, Sha1};

use super::Error;

/// A member of the new cluster.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct NewMember {
    /// Its id.
    pub id: u64,
    /// Where its peers reach it, sorted.
    #[serde(rename = "peerURLs")]
    pub peer_urls: Vec<String>,
    /// Its name.
    pub name: String,
}

impl NewMember {
    /// As etcd keeps it in the bucket `members`.
    pub(super) fn json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("texts and numbers can always be written")
    }

    /// Its key there.
    pub(super) fn key(&self) -> Vec<u8> {
        format!("{:x}", self.id).into_bytes()
    }
}

/// Holds a peer URL to what etcd takes, and gives it as etcd writes it.
pub(super) fn peer_url(url: &str) -> Result<String, Error> {
    let bad = |why| Error::Url { url: url.to_owned(), why };
    let trimmed = url.trim();
    let (scheme, rest) = trimmed.split_once("://").ok_or_else(|| bad("has no scheme"))?;
    let scheme = scheme.to_ascii_lowercase();
    match scheme.as_str() {
        "http" | "https" => host_and_port(rest).map_err(bad)?,
        "unix" | "unixs" => {}
        _ => return Err(bad("has a scheme other than http, https, unix or unixs")),
    }
    Ok(format!("{scheme}://{rest}"))
}

fn host_and_port(rest: &str) -> Result<(), &'static str> {
    if rest.contains(['/', '?', '#']) {
        return Err("has a path");
    }
    if rest.contains(['@', '%', '"', '\\', ' ']) {
        return Err("has characters that no address has");
    }
    let (host, port) = rest.rsplit_once(':').ok_or("has no port")?;
    let bracketed = host.starts_with('[') && host.ends_with(']');
    if host.contains(':') && !bracketed {
        return Err("has no port, or an IPv6 address without brackets");
    }
    match port.parse::<u16>() {
        Ok(number) if number > 0 && port.bytes().all(|byte| byte.is_ascii_digit()) => Ok(()),
        _ => Err("has no port between 1 and 65535"),
    }
}

/// The id of a member with these URLs, which are sorted.
pub(super) fn member_id(peer_urls: &[String], token: &str) -> u64 {
    first_word(Sha1::digest((peer_urls.concat() + token).as_bytes()).as_slice())
}

/// The id of the cluster of these members, whose ids ascend.
pub(super) fn cluster_id(members: &[NewMember]) -> u64 {
    let ids: Vec<u8> = members.iter().flat_map(|member| member.id.to_be_bytes()).collect();
    first_word(Sha1::digest(&ids).as_slice())
}

fn first_word(digest: &[u8]) -> u64 {
    digest.iter().take(8).fold(0, |word, byte| word << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_those_that_every_etcd_has() {
        // A lone member with etcd's defaults: its ids are in countless logs.
        let urls = vec!["http://localhost:2380".to_owned()];
        let id = member_id(&urls, "etcd-cluster");
        assert_eq!(format!("{id:x}"), "8e9e05c52164694d");
        let member = NewMember { id, peer_urls: urls, name: "default".to_owned() };
        assert_eq!(format!("{:x}", cluster_id(std::slice::from_ref(&member))), "cdf818194e3a8c32");
        assert_eq!(
            String::from_utf8(member.json()).unwrap(),
            r#"{"id":10276657743932975437,"peerURLs":["http://localhost:2380"],"name":"default"}"#
        );
        assert_eq!(member.key(), b"8e9e05c52164694d");
    }

    #[test]
    fn peer_urls_are_held_to_what_etcd_takes() {
        for good in [
            "http://localhost:2380",
            "https://10.0.0.1:2380",
            "https://[::1]:2380",
            "unix://m1",
            "http://:2380",
        ] {
            assert_eq!(peer_url(good).unwrap(), good);
        }
        assert_eq!(peer_url(" HTTPS://Cp-1:2380\n").unwrap(), "https://Cp-1:2380");
        for (bad, why) in [
            ("10.0.0.1:2380", "scheme"),
            ("ftp://a:1", "scheme"),
            ("http://a", "port"),
            ("http://a:0", "port"),
            ("http://a:65536", "port"),
            ("http://a:+1", "port"),
            ("http://::1:2380", "brackets"),
            ("http://a:2380/", "path"),
            ("http://a:2380?x", "path"),
            ("http://u@a:2380", "characters"),
        ] {
            let said = peer_url(bad).unwrap_err().to_string();
            assert!(said.contains(why) && said.contains(bad), "{said}");
        }
    }
}
