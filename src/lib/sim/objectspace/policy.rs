//! What the keys of a bucket may do, as an S3 bucket policy; pure.
//!
//! The vendor declares `r`, `w` and `rw` and no more (vco-api.md 10.3), so each reading of these
//! letters is inference, and [`KeyRights`] chooses one.

use serde_json::{Value, json};

use super::super::rules::KeyRights;
use super::record::{Access, Bucket};

const READ: &[&str] = &[
    "s3:GetBucketLocation",
    "s3:GetBucketObjectLockConfiguration",
    "s3:GetBucketVersioning",
    "s3:ListBucket",
    "s3:ListBucketVersions",
    "s3:GetObject",
    "s3:GetObjectAttributes",
    "s3:GetObjectVersion",
    "s3:GetObjectRetention",
    "s3:GetObjectLegalHold",
    "s3:GetObjectTagging",
];

const WRITE: &[&str] = &[
    "s3:PutObject",
    "s3:PutObjectRetention",
    "s3:PutObjectLegalHold",
    "s3:PutObjectTagging",
    "s3:AbortMultipartUpload",
    "s3:ListMultipartUploadParts",
];

/// What a key that reads and writes may do besides both.
const BOTH: &[&str] =
    &["s3:ListBucketMultipartUploads", "s3:DeleteObject", "s3:DeleteObjectVersion"];

/// The actions of a key.
fn actions(access: Access, rights: KeyRights) -> Vec<&'static str> {
    match (rights, access) {
        (KeyRights::Usual, Access::R) => READ.to_vec(),
        (KeyRights::Usual, Access::W) => WRITE.to_vec(),
        (KeyRights::Usual, Access::Rw) => [READ, WRITE, BOTH].concat(),
        // The canned policies of MinIO: readonly, writeonly, readwrite.
        (KeyRights::Canned, Access::R) => vec!["s3:GetBucketLocation", "s3:GetObject"],
        (KeyRights::Canned, Access::W) => vec!["s3:PutObject"],
        (KeyRights::Canned, Access::Rw) => vec!["s3:*"],
    }
}

/// The policy of a bucket; `None` where it has no keys, since S3 takes no policy that says
/// nothing.
pub(super) fn document(bucket: &Bucket, rights: KeyRights) -> Option<Value> {
    let here = format!("arn:aws:s3:::{}", bucket.name);
    let statement = |access: Access| {
        let keys = bucket.keys.iter().filter(|k| k.access == access);
        let keys: Vec<&str> = keys.map(|k| k.pair.access_key.as_str()).collect();
        (!keys.is_empty()).then(|| {
            json!({
                "Effect": "Allow", "Principal": {"AWS": keys},
                "Action": actions(access, rights), "Resource": [here, format!("{here}/*")],
            })
        })
    };
    let statements: Vec<Value> =
        [Access::R, Access::W, Access::Rw].into_iter().filter_map(statement).collect();
    (!statements.is_empty()).then(|| json!({"Version": "2012-10-17", "Statement": statements}))
}

#[cfg(test)]
mod tests {
    use super::super::record::{Key, Pair};
    use super::*;

    #[test]
    fn keys_of_a_kind_share_a_statement() {
        let key = |name: &str, access| Key {
            name: name.into(),
            access,
            pair: Pair { access_key: name.to_uppercase(), secret: String::new() },
        };
        let keys = vec![key("a", Access::Rw), key("b", Access::R), key("c", Access::Rw)];
        let mut bucket = Bucket { name: "etcd".into(), keys, ..Bucket::default() };
        let policy = document(&bucket, KeyRights::Usual).unwrap();
        assert_eq!(policy["Statement"][0]["Principal"]["AWS"], json!(["B"]));
        assert_eq!(policy["Statement"][1]["Principal"]["AWS"], json!(["A", "C"]));
        let resources = json!(["arn:aws:s3:::etcd", "arn:aws:s3:::etcd/*"]);
        assert_eq!(policy["Statement"][1]["Resource"], resources);
        bucket.keys.clear();
        assert_eq!(document(&bucket, KeyRights::Canned), None);
    }

    #[test]
    fn only_keys_that_read_and_write_delete_and_none_bypasses_a_lock() {
        let may = |access, what: &str| actions(access, KeyRights::Usual).contains(&what);
        for (access, get, put, delete) in [
            (Access::R, true, false, false),
            (Access::W, false, true, false),
            (Access::Rw, true, true, true),
        ] {
            assert_eq!(may(access, "s3:GetObject"), get);
            assert_eq!(may(access, "s3:PutObject"), put);
            assert_eq!(may(access, "s3:DeleteObjectVersion"), delete);
            assert!(!may(access, "s3:BypassGovernanceRetention"));
        }
    }
}
