//! Every code that our calls can meet: what it says in plain words, what to do, and its class.
//!
//! Sources: Amazon S3 API Reference, "Error responses"; versitygw `s3err`; SeaweedFS `s3err`;
//! Ceph `rgw_http_errors.h`; moto `s3/exceptions.py`.

use super::retry::Failure;
use crate::fault::Class;

/// One row: the code, the sentence, what to do (may be empty), the class, whether to repeat.
type Row = (&'static str, &'static str, &'static str, Class, Failure);

const KEYS: &str = "Check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (or the profile): they must \
                    be those of this store, without blanks or quotes around them.";
const TOKEN: &str = "Short-lived credentials have to be fetched anew; a token belongs to its own \
                     key id only (AWS_SESSION_TOKEN must not be left over from another key).";
const REGION: &str = "Give the bucket's region with --s3-region (or AWS_REGION).";
/// What to do about a permission that is lacking.
pub const POLICY: &str = "The bucket's policy or the key's rights lack it: `capvco-backup check` says \
                      which permission is missing.";
const BUCKET: &str = "Check --s3-bucket, --s3-endpoint and --s3-path-style; `capvco-backup bucket \
                      create` makes one with locking on.";
const CLOCK: &str = "Set this machine's clock (chrony, systemd-timesyncd).";
const SUM: &str = "Try another --s3-checksum: md5 is what every store knows.";
const LATER: &str = "The store is in trouble or busy: try again later.";
const LOCKING: &str = "Locking can only be switched on when a bucket is made: make one with \
                       `capvco-backup bucket create`, or use --lock none.";

#[rustfmt::skip]
const TABLE: &[Row] = &[
    // Who we are.
    ("AccessDenied", "the key may not do this", POLICY, Class::Auth, Failure::Final),
    ("AllAccessDisabled", "access to the bucket is switched off", POLICY, Class::Auth, Failure::Final),
    ("AccountProblem", "there is a problem with the store's account", "Ask the store's operator.", Class::Auth, Failure::Final),
    ("Forbidden", "the key may not do this", POLICY, Class::Auth, Failure::Final),
    ("InvalidAccessKeyId", "the store does not know this access key id", KEYS, Class::Auth, Failure::Final),
    ("XAdminUserNotFound", "the store does not know this access key id", KEYS, Class::Auth, Failure::Final),
    ("NoSuchUser", "the store does not know this access key id", KEYS, Class::Auth, Failure::Final),
    ("SignatureDoesNotMatch", "the secret access key is not that of the key id", KEYS, Class::Auth, Failure::Final),
    ("AuthFailure", "the credentials are refused", KEYS, Class::Auth, Failure::Final),
    ("CredentialsNotSupported", "the store takes no such credentials", KEYS, Class::Auth, Failure::Final),
    ("InvalidSecurity", "the credentials are refused", KEYS, Class::Auth, Failure::Final),
    ("MissingSecurityHeader", "the request came without credentials", KEYS, Class::Auth, Failure::Final),
    ("NotSignedUp", "the account is not signed up for storage", "Ask the store's operator.", Class::Auth, Failure::Final),
    ("ExpiredToken", "the credentials have expired", TOKEN, Class::Auth, Failure::Final),
    ("TokenRefreshRequired", "the credentials have to be renewed", TOKEN, Class::Auth, Failure::Final),
    ("InvalidToken", "the session token is not valid", TOKEN, Class::Auth, Failure::Final),
    ("InvalidClientTokenId", "the session token is not valid", TOKEN, Class::Auth, Failure::Final),
    ("RequestTimeTooSkewed", "this machine's clock and the store's differ too much", CLOCK, Class::Auth, Failure::Skewed),
    ("RequestExpired", "the request is too old for the store", CLOCK, Class::Auth, Failure::Skewed),
    ("AuthorizationHeaderMalformed", "the request was signed for another region", REGION, Class::Usage, Failure::Final),
    ("InvalidRegion", "the store knows no such region", REGION, Class::Usage, Failure::Final),
    ("AuthorizationQueryParametersError", "the request was signed for another region", REGION, Class::Usage, Failure::Final),
    ("PermanentRedirect", "the bucket is in another region", REGION, Class::Usage, Failure::Final),
    ("TemporaryRedirect", "the bucket is just being made or moved", LATER, Class::Transient, Failure::Unavailable),
    ("Redirect", "the bucket is in another region", REGION, Class::Usage, Failure::Final),
    ("IllegalLocationConstraintException", "the bucket cannot be made in this region from here", REGION, Class::Usage, Failure::Final),
    ("InvalidLocationConstraint", "the store knows no such region", REGION, Class::Usage, Failure::Final),
    // What is there.
    ("NoSuchBucket", "there is no such bucket", BUCKET, Class::NotFound, Failure::Final),
    ("NoSuchKey", "there is no such object", "", Class::NotFound, Failure::Final),
    ("NotFound", "there is no such object", "", Class::NotFound, Failure::Final),
    ("NoSuchVersion", "there is no such version of the object", "", Class::NotFound, Failure::Final),
    ("NoSuchUpload", "there is no such upload any more", "Another program, or a rule of the bucket, aborted it.", Class::NotFound, Failure::Final),
    ("NoSuchBucketPolicy", "the bucket has no policy", "", Class::NotFound, Failure::Final),
    ("NoSuchLifecycleConfiguration", "the bucket has no lifecycle rules", "", Class::NotFound, Failure::Final),
    ("NoSuchObjectLockConfiguration", "the object has no lock", "", Class::NotFound, Failure::Final),
    ("NoSuchObjectLegalHold", "the object has no legal hold", "", Class::NotFound, Failure::Final),
    ("ObjectLockConfigurationNotFoundError", "the bucket was made without locking", LOCKING, Class::NotFound, Failure::Final),
    ("InvalidBucketName", "no bucket can have this name", "A bucket's name has 3 to 63 lower-case letters, digits, dots and hyphens.", Class::Usage, Failure::Final),
    ("BucketAlreadyExists", "somebody else has a bucket of this name", "Choose another name.", Class::Conflict, Failure::Final),
    ("BucketAlreadyOwnedByYou", "the bucket is there already", "", Class::Conflict, Failure::Final),
    ("BucketNotEmpty", "the bucket is not empty", "", Class::Conflict, Failure::Final),
    ("TooManyBuckets", "the account has as many buckets as it may have", "Remove one, or ask the store's operator for more.", Class::Quota, Failure::Final),
    ("MethodNotAllowed", "the store does not allow this on that object", "A delete marker cannot be read: name a version of the object.", Class::Conflict, Failure::Final),
    ("InvalidObjectState", "the object is in an archive and has to be brought back first", "Restore it from the archive tier, then try again.", Class::Conflict, Failure::Final),
    ("ObjectNotInActiveTierError", "the object is in an archive and has to be brought back first", "Restore it from the archive tier, then try again.", Class::Conflict, Failure::Final),
    ("ObjectLocked", "the object is locked", "", Class::Conflict, Failure::Final),
    ("InvalidRetentionPeriod", "the store does not take this retention", "Give a retention in the future, within the store's limits.", Class::Invalid, Failure::Final),
    ("InvalidBucketState", "the bucket is not in a state for this", LOCKING, Class::Conflict, Failure::Final),
    ("BucketHasNoObjectLockConfiguration", "the bucket was made without locking", LOCKING, Class::Conflict, Failure::Final),
    ("InvalidBucketObjectLockConfiguration", "the bucket was made without locking", LOCKING, Class::Conflict, Failure::Final),
    ("PreconditionFailed", "somebody was faster: the object is there already", "", Class::Conflict, Failure::Final),
    ("ConditionalRequestConflict", "somebody else writes the same object just now", "", Class::Conflict, Failure::Clash),
    ("OperationAborted", "somebody else changes the same thing just now", "", Class::Conflict, Failure::Clash),
    ("ConcurrentModification", "somebody else changes the same thing just now", "", Class::Conflict, Failure::Clash),
    // What we sent.
    ("BadDigest", "what arrived is not what was sent", "Something on the way changes data: a proxy, or faulty memory.", Class::Transient, Failure::Lost),
    ("XAmzContentSHA256Mismatch", "what arrived is not what was sent", "Something on the way changes data: a proxy, or faulty memory.", Class::Transient, Failure::Lost),
    ("XAmzContentChecksumMismatch", "what arrived is not what was sent", "Something on the way changes data: a proxy, or faulty memory.", Class::Transient, Failure::Lost),
    ("IncompleteBody", "not all that was sent arrived", "", Class::Transient, Failure::Lost),
    ("RequestTimeout", "the store waited in vain for what was sent", LATER, Class::Transient, Failure::Stalled),
    ("RequestTimeTooLong", "the store waited in vain for what was sent", LATER, Class::Transient, Failure::Stalled),
    ("InvalidDigest", "the store cannot read the checksum", SUM, Class::Invalid, Failure::Final),
    ("MissingContentMD5", "the store wants a Content-MD5", SUM, Class::Invalid, Failure::Final),
    ("MissingUploadObjectWithObjectLockHeaders", "the store wants a checksum with a locked object", SUM, Class::Invalid, Failure::Final),
    ("MissingContentLength", "the store wants a Content-Length", "A proxy on the way may have removed it.", Class::Invalid, Failure::Final),
    ("InvalidRequest", "the store refuses a request of this form", "A store that wants a checksum with locked objects, or none, says this: try --s3-checksum md5; a bucket without locking says it to a lock: try --lock none.", Class::Invalid, Failure::Final),
    ("InvalidArgument", "the store does not take a value that was sent", "", Class::Invalid, Failure::Final),
    ("MalformedXML", "the store cannot read what was sent", "", Class::Invalid, Failure::Final),
    ("MalformedPolicy", "the store cannot read the policy", "", Class::Invalid, Failure::Final),
    ("InvalidURI", "the store cannot read the address", "Check --s3-endpoint and --s3-prefix.", Class::Invalid, Failure::Final),
    ("InvalidObjectName", "no object can have this key", "Check --s3-prefix.", Class::Invalid, Failure::Final),
    ("KeyTooLongError", "the object's key is too long", "Choose a shorter --s3-prefix.", Class::Invalid, Failure::Final),
    ("MetadataTooLarge", "there is too much metadata", "", Class::Invalid, Failure::Final),
    ("EntityTooLarge", "the object is larger than the store takes in one piece", "", Class::Invalid, Failure::Final),
    ("EntityTooSmall", "a part is smaller than the store takes", "Give a larger --part-size (5 MiB is the least of most stores).", Class::Invalid, Failure::Final),
    ("InvalidPart", "the store misses a part of the upload", "", Class::Transient, Failure::Final),
    ("InvalidPartOrder", "the store finds the parts out of order", "", Class::Invalid, Failure::Final),
    ("InvalidRange", "the object is shorter than it was", "It was replaced while it was read: try again.", Class::Transient, Failure::Final),
    ("InvalidStorageClass", "the store has no such storage class", "", Class::Invalid, Failure::Final),
    ("InvalidEncryptionAlgorithmError", "the store does not know this encryption", "", Class::Invalid, Failure::Final),
    ("NotImplemented", "the store does not have this call", "", Class::Invalid, Failure::Final),
    ("UnsupportedOperation", "the store does not have this call", "", Class::Invalid, Failure::Final),
    ("RequestHeaderSectionTooLarge", "there is too much metadata", "", Class::Invalid, Failure::Final),
    // How the store is.
    ("SlowDown", "too many calls", "Other programs use the same store: --limit-rate, or try again later.", Class::RateLimited, Failure::Throttled),
    ("SlowDownRead", "too many calls", LATER, Class::RateLimited, Failure::Throttled),
    ("SlowDownWrite", "too many calls", LATER, Class::RateLimited, Failure::Throttled),
    ("TooManyRequests", "too many calls", LATER, Class::RateLimited, Failure::Throttled),
    ("RequestLimitExceeded", "too many calls", LATER, Class::RateLimited, Failure::Throttled),
    ("Throttling", "too many calls", LATER, Class::RateLimited, Failure::Throttled),
    ("Busy", "the store is busy", LATER, Class::Transient, Failure::Unavailable),
    ("ServiceUnavailable", "the store is not available", LATER, Class::Transient, Failure::Unavailable),
    ("ServerNotInitialized", "the store is just starting", LATER, Class::Transient, Failure::Unavailable),
    ("InternalError", "the store failed", LATER, Class::Transient, Failure::Unavailable),
    ("InternalServerError", "the store failed", LATER, Class::Transient, Failure::Unavailable),
    ("QuotaExceeded", "the bucket's quota is used up", "Prune old backups, or ask for a larger quota.", Class::Quota, Failure::Final),
    ("XQuotaExceeded", "the bucket's quota is used up", "Prune old backups, or ask for a larger quota.", Class::Quota, Failure::Final),
    ("StorageFull", "the store is full", "Prune old backups, or ask the store's operator.", Class::Quota, Failure::Final),
    ("InsufficientStorage", "the store is full", "Prune old backups, or ask the store's operator.", Class::Quota, Failure::Final),
];

fn row(code: Option<&str>) -> Option<&'static Row> {
    let code = code?;
    TABLE.iter().find(|row| row.0 == code)
}

/// What a status means where no code, or an unknown one, came with it.
fn by_status(status: u16) -> (&'static str, &'static str, Class, Failure) {
    match status {
        301 | 308 => ("the bucket is in another region", REGION, Class::Usage, Failure::Final),
        302 | 303 | 307 => ("the store sends us elsewhere", REGION, Class::Usage, Failure::Final),
        401 | 403 => ("the key may not do this", POLICY, Class::Auth, Failure::Final),
        407 => (
            "the proxy wants credentials",
            "Put them into HTTPS_PROXY.",
            Class::Auth,
            Failure::Final,
        ),
        404 | 410 => ("it is not there", BUCKET, Class::NotFound, Failure::Final),
        405 | 412 => ("it is in the way", "", Class::Conflict, Failure::Final),
        409 => {
            ("somebody else changes the same thing just now", "", Class::Conflict, Failure::Clash)
        }
        408 => ("the store waited in vain", LATER, Class::Transient, Failure::Stalled),
        429 => ("too many calls", LATER, Class::RateLimited, Failure::Throttled),
        501 => ("the store does not have this call", "", Class::Invalid, Failure::Final),
        507 => ("the store is full", LATER, Class::Quota, Failure::Final),
        503 => ("the store is not available", LATER, Class::Transient, Failure::Throttled),
        500.. => ("the store failed", LATER, Class::Transient, Failure::Unavailable),
        _ => ("the store refuses it", "", Class::Invalid, Failure::Final),
    }
}

/// The sentence, with the store's code or status in parentheses.
pub fn sentence(status: u16, code: Option<&str>) -> String {
    match (row(code), code) {
        (Some(row), Some(code)) => format!("{} ({code})", row.1),
        (None, Some(code)) => format!("{} (HTTP {status}, {code})", by_status(status).0),
        (_, None) => format!("{} (HTTP {status})", by_status(status).0),
    }
}

/// What to do about it.
pub fn hint(status: u16, code: Option<&str>) -> Option<&'static str> {
    let hint = row(code).map_or_else(|| by_status(status).1, |row| row.2);
    (!hint.is_empty()).then_some(hint)
}

/// Its class.
pub fn class(status: u16, code: Option<&str>) -> Class {
    row(code).map_or_else(|| by_status(status).2, |row| row.3)
}

/// Whether it is worth another try.
pub fn failure(status: u16, code: Option<&str>) -> Failure {
    row(code).map_or_else(|| by_status(status).3, |row| row.4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_code_is_there_twice_and_every_sentence_says_something() {
        let codes: BTreeSet<_> = TABLE.iter().map(|row| row.0).collect();
        assert_eq!(codes.len(), TABLE.len());
        for (code, sentence, hint, class, failure) in TABLE {
            assert!(sentence.len() > 10 && !sentence.ends_with('.'), "{code}");
            assert!(hint.is_empty() || hint.ends_with('.'), "{code}: {hint}");
            // What the other side may mend is repeated; what only a person can is not.
            let repeated = *failure != Failure::Final;
            let other = matches!(class, Class::Transient | Class::RateLimited);
            let odd = ["InvalidPart", "InvalidRange"].contains(code)
                || matches!(failure, Failure::Clash | Failure::Skewed);
            assert!(odd || repeated == other, "{code}: {class:?} {failure:?}");
        }
    }

    #[test]
    fn statuses_stand_in_for_codes() {
        for (status, code, text, wanted) in [
            (403, None, "the key may not do this (HTTP 403)", Class::Auth),
            (404, None, "it is not there (HTTP 404)", Class::NotFound),
            (301, None, "the bucket is in another region (HTTP 301)", Class::Usage),
            (400, Some("Weird"), "the store refuses it (HTTP 400, Weird)", Class::Invalid),
            (503, Some("Weird"), "the store is not available (HTTP 503, Weird)", Class::Transient),
            (599, None, "the store failed (HTTP 599)", Class::Transient),
            (404, Some("NoSuchBucket"), "there is no such bucket (NoSuchBucket)", Class::NotFound),
        ] {
            assert_eq!(sentence(status, code), text);
            assert_eq!(class(status, code), wanted, "{status} {code:?}");
        }
    }

    #[test]
    fn what_an_operator_meets_has_something_to_do() {
        for (code, word) in [
            ("NoSuchBucket", "bucket create"),
            ("AccessDenied", "check"),
            ("SignatureDoesNotMatch", "AWS_SECRET_ACCESS_KEY"),
            ("InvalidAccessKeyId", "AWS_ACCESS_KEY_ID"),
            ("XAdminUserNotFound", "AWS_ACCESS_KEY_ID"),
            ("ExpiredToken", "AWS_SESSION_TOKEN"),
            ("RequestTimeTooSkewed", "clock"),
            ("PermanentRedirect", "--s3-region"),
            ("AuthorizationHeaderMalformed", "--s3-region"),
            ("SlowDown", "--limit-rate"),
            ("InvalidRequest", "--s3-checksum md5"),
            ("MissingContentMD5", "--s3-checksum"),
            ("ObjectLockConfigurationNotFoundError", "bucket create"),
            ("EntityTooSmall", "--part-size"),
            ("QuotaExceeded", "Prune"),
        ] {
            let hint = hint(400, Some(code)).unwrap_or_default();
            assert!(hint.contains(word), "{code}: {hint}");
        }
    }
}
