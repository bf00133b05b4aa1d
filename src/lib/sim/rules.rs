//! The knobs: how the cloud behaves where the evidence is thin, or where it may be slow.
//!
//! Every field says what its default rests on, with the evidence tags of the API notes
//! (G8S, G8D, P4, PC, PU …); "inference" marks a guess. Times are seconds in YAML.

use std::time::Duration;

use serde::Deserialize;

/// How the cloud behaves.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own, not a state")]
pub struct Rules {
    /// How long every call takes before anything happens; 0.
    #[serde(with = "seconds")]
    pub latency: Duration,
    /// How long a write takes on top of `latency`, before it happens (G8S: writes are slow and
    /// synchronous); 0.
    #[serde(with = "seconds")]
    pub write_latency: Duration,
    /// How many calls are let through.
    pub limits: Limits,

    /// How long an image stays CREATING at least, on the world's clock; 0.
    #[serde(with = "seconds")]
    pub import_time: Duration,
    /// How many redirects the import follows; 0, because G8S answers 400 to a HEAD that is
    /// "not 200", and a redirect is not.
    pub redirects: u8,
    /// Whether the import asks HEAD before GET and refuses what lacks `Content-Length` (G8S).
    pub head: bool,
    /// Whether raw content must begin with a boot sector; false, because qemu-img, which G8S
    /// lets detect the format, takes any bytes for raw.
    pub raw_needs_boot_sector: bool,
    /// What becomes of an image whose import fails; unknown (13.3 no. 3), ERROR by inference.
    pub failed_import: FailedImport,

    /// What creating an image answers: undeclared today; the id object is from P4 (2022).
    pub create_reply: CreateReply,
    /// Whether the name of an image, or of an objectspace, is unique among the customer's own
    /// (409); false: nothing shows such a rule for these (13.3 no. 6).
    pub unique_names: bool,
    /// With `unique_names`: whether names in the recycle bin count (G8D says so); true.
    pub binned_names_reserved: bool,
    /// Whether images in the recycle bin still show in lists and reads, as DELETED; false.
    pub bin_visible: bool,
    /// Whether an image may be deleted before it is CREATED; false, 403 (G8S).
    pub delete_unfinished: bool,
    /// Whether an image in the state ERROR may be deleted; true (inference), else 403.
    pub delete_failed: bool,
    /// The status for reading or changing what was deleted: 404 (G8S) or 400 (13.3 no. 6).
    pub gone_status: u16,
    /// The unit of an image's `size`; undeclared, bytes by inference.
    pub size_unit: SizeUnit,

    /// The part size that a multipart upload names, in bytes; 16 MiB (inference: any may come).
    pub part_size: u64,
    /// Where the reply to an uploaded part has its `ETag`; unknown (13.3 no. 4), header as in S3.
    pub etag: EtagPlace,
    /// Whether finishing checks that every part but the last has `part_size` bytes; true.
    pub check_part_sizes: bool,

    /// How long a cloudspace is DEPLOYING; 0, because creating one was seen to last until it is
    /// deployed (PU).
    #[serde(with = "seconds")]
    pub cloudspace_time: Duration,
    /// How long a machine is DEPLOYING; 0.
    #[serde(with = "seconds")]
    pub vm_time: Duration,
    /// How long a machine takes to start, stop, pause, resume, reboot or reset; 0.
    #[serde(with = "seconds")]
    pub power_time: Duration,
    /// How long a disk or an interface takes to be attached or detached; 0.
    #[serde(with = "seconds")]
    pub attach_time: Duration,
    /// How long a disk is CREATING; 0.
    #[serde(with = "seconds")]
    pub disk_time: Duration,
    /// How long a machine or a cloudspace takes to be deleted; 0.
    #[serde(with = "seconds")]
    pub delete_time: Duration,
    /// Whether the names of cloudspaces and machines are unique (409, G8S), the recycle bin
    /// included (G8D, with `binned_names_reserved`); true, but not seen on a portal (13.3 no. 6).
    pub unique_cloud_names: bool,
    /// Whether a cloudspace or a disk that is DESTROYED can still be read; false, though it was
    /// seen elsewhere (13.4, TF).
    pub destroyed_readable: bool,
    /// Whether a machine's private address is `Undefined` while it is DEPLOYING (5.5, G8S); false.
    pub undefined_address: bool,
    /// Whether cloud-init's disk shows among a machine's disks (6.2, inference); false. It counts
    /// toward the 25 in any case.
    pub metadata_disk_shown: bool,
    /// Whether a machine is refused (503) where its group's members would share a host before
    /// they are spread; false (13.3 no. 7: hard or soft is unknown).
    pub anti_affinity_is_hard: bool,
    /// Whether what lies in the recycle bin counts against quotas; true (13.3 no. 15; inference).
    pub bin_counts: bool,
    /// Whether taking a host out of a pool cuts the connections that it holds; false (13.3 no. 9:
    /// unknown).
    pub cut_removed_hosts: bool,
    /// Whether `updatePortforward` gives the port forward another id; true (PU).
    pub forward_ids_change: bool,

    /// How long an objectspace is DEPLOYING after it was made, on the world's clock; 0, because
    /// creating a cloudspace was seen to last until it is deployed (PU; the rest is inference).
    #[serde(with = "seconds")]
    pub objectspace_time: Duration,
    /// What `r`, `w` and `rw` mean for S3; unknown (10.3).
    pub key_rights: KeyRights,
    /// What becomes of locked data when their bucket or objectspace is deleted for good; unknown
    /// (10.2, 13.3 no. 14), refused by inference.
    pub locked_data: LockedData,
    /// Whether an object's key with slashes, encoded, is one step of a path; true, but unknown
    /// (10.4), else 404.
    pub slashes_in_keys: bool,
    /// Whether the S3 address that a linked cloudspace is told is the real one on this machine,
    /// with its port; false: one in the cloudspace's network, where nothing listens.
    pub reachable_addresses: bool,

    /// Whether optional fields of every reply are null (12.8, PU); false.
    pub nulls: bool,
    /// Whether every object of every reply has a key that nobody declared (12.8, OC); false.
    pub extra_keys: bool,
    /// Whether whole numbers that are ids come as text (13.1); false.
    pub ids_as_text: bool,
    /// Whether whole numbers come as floats (12.3); false.
    pub numbers_as_floats: bool,

    /// Lifetime of a token made by a refresh; a day (IYO).
    #[serde(with = "seconds")]
    pub token_lifetime: Duration,
    /// The form of a refresh's reply; a bare token (PU).
    pub refresh_reply: RefreshReply,
    /// Whether the IAM refuses every refresh; false.
    pub refresh_refused: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            latency: Duration::ZERO,
            write_latency: Duration::ZERO,
            limits: Limits::default(),
            import_time: Duration::ZERO,
            redirects: 0,
            head: true,
            raw_needs_boot_sector: false,
            failed_import: FailedImport::Error,
            create_reply: CreateReply::IdObject,
            unique_names: false,
            binned_names_reserved: true,
            bin_visible: false,
            delete_unfinished: false,
            delete_failed: true,
            gone_status: 404,
            size_unit: SizeUnit::Bytes,
            part_size: 16 << 20,
            etag: EtagPlace::Header,
            check_part_sizes: true,
            cloudspace_time: Duration::ZERO,
            vm_time: Duration::ZERO,
            power_time: Duration::ZERO,
            attach_time: Duration::ZERO,
            disk_time: Duration::ZERO,
            delete_time: Duration::ZERO,
            unique_cloud_names: true,
            destroyed_readable: false,
            undefined_address: false,
            metadata_disk_shown: false,
            anti_affinity_is_hard: false,
            bin_counts: true,
            cut_removed_hosts: false,
            forward_ids_change: true,
            objectspace_time: Duration::ZERO,
            key_rights: KeyRights::Usual,
            locked_data: LockedData::Refused,
            slashes_in_keys: true,
            reachable_addresses: false,
            nulls: false,
            extra_keys: false,
            ids_as_text: false,
            numbers_as_floats: false,
            token_lifetime: Duration::from_hours(24),
            refresh_reply: RefreshReply::Bare,
            refresh_refused: false,
        }
    }
}

/// How many calls are let through before the answer is 429.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Whether there are limits at all; false.
    pub on: bool,
    /// Calls per `window`, user and location: 20 (G8D).
    pub location_calls: usize,
    /// Calls at once per user and location: 5 (SDK's default; inference that more is refused).
    pub location_at_once: usize,
    /// Calls per `window` to the whole portal: 100 (unknown, 13.3 no. 13; inference).
    pub portal_calls: usize,
    /// The window: 5 s (G8D).
    #[serde(with = "seconds")]
    pub window: Duration,
    /// Whether a 429 says `Retry-After`; true (unknown, 13.3 no. 13).
    pub retry_after: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            on: false,
            location_calls: 20,
            location_at_once: 5,
            portal_calls: 100,
            window: Duration::from_secs(5),
            retry_after: true,
        }
    }
}

/// What becomes of an image whose import fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailedImport {
    /// It stays, with the status ERROR.
    Error,
    /// It stays CREATING for ever.
    StaysCreating,
    /// It is gone.
    Vanishes,
}

/// What creating an image answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CreateReply {
    /// `{"image_id": 7}`.
    IdObject,
    /// `7`.
    BareId,
    /// No body.
    Nothing,
    /// A sentence, as a JSON string.
    Text,
    /// `{"success": true}`.
    Success,
}

/// What a bucket's keys may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KeyRights {
    /// `r` reads and lists, `w` writes, `rw` does both and deletes; none changes the bucket
    /// itself or bypasses a lock.
    Usual,
    /// As `MinIO`'s canned policies of these names: `r` gets and does not list, `w` puts and no
    /// more, `rw` does everything to the bucket.
    Canned,
}

/// What becomes of locked data when what holds them is deleted for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LockedData {
    /// The deletion is refused with 409.
    Refused,
    /// They go with the rest.
    Destroyed,
}

/// Where an uploaded part's `ETag` is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EtagPlace {
    /// In the header `ETag`, quoted as S3 does.
    Header,
    /// In a JSON object of the body, under `etag`.
    BodyObject,
    /// The whole body, as a JSON string.
    BodyString,
    /// The whole body, as plain text.
    BodyText,
    /// In the header and in a JSON object.
    Both,
}

/// The unit of an image's `size`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SizeUnit {
    /// Bytes of the file that was imported.
    Bytes,
    /// GiB of the disk in it, rounded up.
    Gib,
}

/// The form of a token refresh's reply (PC accepts them all).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RefreshReply {
    /// The token itself.
    Bare,
    /// The token as a JSON string.
    Quoted,
    /// `{"jwt": …}`.
    Jwt,
    /// `{"token": …}`.
    Token,
    /// `{"access_token": …}`.
    AccessToken,
}

pub(super) mod seconds {
    //! Durations as a number of seconds.

    use std::time::Duration;

    use serde::{Deserialize, Deserializer, de::Error};

    pub(in crate::sim) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Duration, D::Error> {
        Duration::try_from_secs_f64(f64::deserialize(from)?).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_sets_some_rules_and_leaves_the_rest() {
        let text = "latency: 0.2\ncreate_reply: bare-id\nlimits: {on: true, window: 5}\n";
        let rules: Rules = crate::yaml::from_str(text, "test").unwrap();
        assert_eq!(rules.latency, Duration::from_millis(200));
        assert_eq!(rules.create_reply, CreateReply::BareId);
        assert!(rules.limits.on && rules.limits.location_calls == 20);
        assert_eq!(rules.gone_status, 404);
        for bad in ["latenzy: 1", "latency: -1", "failed_import: whatever", "limits: {off: 1}"] {
            assert!(crate::yaml::from_str::<Rules>(bad, "test").is_err(), "{bad}");
        }
    }
}
