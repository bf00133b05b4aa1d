//! Signature version 4, as far as one server on this machine asks for it; pure.
//!
//! Written after "Authenticating Requests (AWS Signature Version 4)" of the Amazon S3 API
//! reference, whose example is the test.

use sha2::{Digest as _, Sha256};

use super::record::Pair;

/// A request as it is signed. Headers in lower case and in order; `host`, `x-amz-date` and
/// `x-amz-content-sha256` among them.
pub(super) struct Unsigned<'a> {
    pub(super) method: &'a str,
    /// Percent-encoded.
    pub(super) path: &'a str,
    /// Percent-encoded pairs in order, joined by `&`, each with its `=`.
    pub(super) query: &'a str,
    pub(super) headers: &'a [(String, String)],
    pub(super) region: &'a str,
}

/// The header `Authorization`.
pub(super) fn authorization(request: &Unsigned<'_>, pair: &Pair) -> String {
    let Unsigned { method, path, query, headers, region } = request;
    let value = |name: &str| headers.iter().find(|(n, _)| n == name).map_or("", |(_, v)| v);
    let names: Vec<&str> = headers.iter().map(|(name, _)| name.as_str()).collect();
    let names = names.join(";");
    let lines: Vec<String> =
        headers.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
    let lines = lines.concat();
    let digest = value("x-amz-content-sha256");
    let canonical = format!("{method}\n{path}\n{query}\n{lines}\n{names}\n{digest}");
    let time = value("x-amz-date");
    let day = time.get(..8).unwrap_or_default();
    let scope = format!("{day}/{region}/s3/aws4_request");
    let to_sign = format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{}", hash(canonical.as_bytes()));
    let key = format!("AWS4{}", pair.secret);
    let key = [day, region, "s3", "aws4_request"]
        .iter()
        .fold(key.into_bytes(), |key, word| hmac(&key, word.as_bytes()).to_vec());
    let signature = hex::encode(hmac(&key, to_sign.as_bytes()));
    let id = &pair.access_key;
    format!("AWS4-HMAC-SHA256 Credential={id}/{scope},SignedHeaders={names},Signature={signature}")
}

/// SHA-256 in hexadecimal.
pub(super) fn hash(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

/// HMAC with SHA-256 (RFC 2104).
fn hmac(key: &[u8], message: &[u8]) -> [u8; 32] {
    const BLOCK: usize = 64;
    let mut block = [0; BLOCK];
    if key.len() > BLOCK {
        block[..32].copy_from_slice(&Sha256::digest(key));
    } else {
        block[..key.len()].copy_from_slice(key);
    }
    let with = |pad: u8, message: &[u8]| {
        let key: Vec<u8> = block.iter().map(|byte| byte ^ pad).collect();
        Sha256::new().chain_update(key).chain_update(message).finalize()
    };
    with(0x5c, &with(0x36, message)).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_references_own_example_comes_out() {
        let empty = hash(b"");
        let headers: Vec<_> = [
            ("host", "examplebucket.s3.amazonaws.com"),
            ("range", "bytes=0-9"),
            ("x-amz-content-sha256", &empty),
            ("x-amz-date", "20130524T000000Z"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
        let request = Unsigned {
            method: "GET",
            path: "/test.txt",
            query: "",
            headers: &headers,
            region: "us-east-1",
        };
        let pair = Pair {
            access_key: "AKIAIOSFODNN7EXAMPLE".into(),
            secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".into(),
        };
        let signed = authorization(&request, &pair);
        let signature = "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41";
        assert!(signed.ends_with(&format!("Signature={signature}")), "{signed}");
    }

    #[test]
    fn long_keys_are_hashed_first() {
        // RFC 4231, test case 6.
        let mac = hmac(&[0xaa; 131], b"Test Using Larger Than Block-Size Key - Hash Key First");
        let want = "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54";
        assert_eq!(hex::encode(mac), want);
    }
}
