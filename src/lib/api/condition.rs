//! Conditions: what is so of an object, what is not, and why.
//!
//! Every type and every reason is one documented constant, and [`REASONS`] is the table that the
//! page on troubleshooting is held to. Messages are deterministic: no times, no ids of requests,
//! nothing whose order may change (contract, 1.5).

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;

/// Declares types: a constant each, and the table of all.
macro_rules! types {
    ($($name:ident = $text:literal, [$($kind:literal),*], $meaning:literal;)*) => {
        $(#[doc = $meaning] pub const $name: &str = $text;)*

        /// Every type: its word, the kinds that have it, what it is about.
        pub const TYPES: &[Type] = &[
            $(Type { word: $text, kinds: &[$($kind),*], meaning: $meaning },)*
        ];
    };
}

/// A type of condition and what to know about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Type {
    /// The word in a condition.
    pub word: &'static str,
    /// The kinds that have it.
    pub kinds: &'static [&'static str],
    /// What it is about.
    pub meaning: &'static str,
}

types! {
    READY = "Ready", ["VCOCluster", "VCOMachine"],
        "The summary: whether the object is what it should be. Mirrored by Cluster API into `InfrastructureReady`, and so judged by health checks: it does not flap.";
    PAUSED = "Paused", ["VCOCluster", "VCOMachine"], "Whether work on the object is suspended, and by what.";
    DELETING = "Deleting", ["VCOCluster", "VCOMachine"], "How far a deletion has come, and what holds it.";
    CREDENTIALS_VALID = "CredentialsValid", ["VCOCluster"], "Whether the cloud takes the credentials.";
    CLOUDSPACE_READY = "CloudspaceReady", ["VCOCluster"], "Whether the network is there.";
    API_LOAD_BALANCER_READY = "APILoadBalancerReady", ["VCOCluster"],
        "Whether the load balancer before the API is there and has the right members.";
    BACKUP_FRESH = "BackupFresh", ["VCOCluster"], "Whether the newest good backup is young enough.";
    IMAGE_RESOLVED = "ImageResolved", ["VCOMachine"], "Whether the image is known.";
    BOOTSTRAP_DATA_READY = "BootstrapDataReady", ["VCOMachine"], "Whether there are bootstrap data that a VM can take.";
    VM_PROVISIONED = "VMProvisioned", ["VCOMachine"], "Whether the VM is there and runs.";
    DISKS_ATTACHED = "DisksAttached", ["VCOMachine"], "Whether all disks that were asked for are attached.";
    LOAD_BALANCER_MEMBER = "LoadBalancerMember", ["VCOMachine"],
        "Whether a control plane's VM is a member of the pool before the API.";
}

/// Declares reasons: a constant each, and the table of all.
macro_rules! reasons {
    ($($name:ident = $text:literal, $meaning:literal, $remedy:literal;)*) => {
        $(#[doc = $meaning] pub const $name: &str = $text;)*

        /// Every reason: its word, what it means, what to do.
        pub const REASONS: &[Reason] = &[
            $(Reason { word: $text, meaning: $meaning, remedy: $remedy },)*
        ];
    };
}

/// A reason and what to know about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reason {
    /// The word in a condition.
    pub word: &'static str,
    /// What it means.
    pub meaning: &'static str,
    /// What to do.
    pub remedy: &'static str,
}

reasons! {
    IS_READY = "Ready", "All is as it should be.", "Nothing.";
    NOT_PAUSED = "NotPaused", "Work goes on.", "Nothing.";
    IS_PAUSED = "Paused", "Work is suspended, deletion too.",
        "Set `spec.paused` of the Cluster to false, or remove the annotation `cluster.x-k8s.io/paused`; the message says which.";
    WAITING_FOR_CLUSTER_INFRASTRUCTURE = "WaitingForClusterInfrastructureReady",
        "The cluster's network is not there yet.", "Look at the conditions of the VCOCluster.";
    WAITING_FOR_CONTROL_PLANE = "WaitingForControlPlaneInitialized",
        "Workers wait for the first control plane machine.", "Look at the control plane's Machines.";
    WAITING_FOR_BOOTSTRAP_DATA = "WaitingForBootstrapData",
        "The bootstrap provider has not written the machine's data yet.", "Look at the Machine's bootstrap config.";
    CREDENTIALS_ACCEPTED = "CredentialsAccepted", "The cloud takes the credentials.", "Nothing.";
    SECRET_NOT_FOUND = "SecretNotFound", "The Secret that is named does not exist.",
        "Make it in the namespace of the VCOCluster, with the key `token`.";
    SECRET_INCOMPLETE = "SecretIncomplete", "A key of the Secret is missing or unusable.",
        "Add or mend the key that the message names.";
    CREDENTIALS_REFUSED = "CredentialsRefused", "The cloud refuses the token, also after a refresh.",
        "Put a new JWT from the portal into the Secret.";
    ACCESS_DENIED = "AccessDenied", "The token is good but may not do this.",
        "Give its user the role that the message names.";
    CUSTOMER_CHANGED = "CustomerChanged",
        "The credentials lead to another customer than the one whose cloudspace the cluster is in.",
        "Put credentials of the customer that the message names into the Secret, or name that Secret.";
    CLOUD_UNREACHABLE = "CloudUnreachable", "The cloud did not answer, or answered that it cannot now.",
        "Wait; it is tried again. The message says since which call.";
    RATE_LIMITED = "RateLimited", "The cloud takes no more calls for a moment.",
        "Wait; it is tried again when the cloud allows.";
    QUOTA_EXCEEDED = "QuotaExceeded", "A limit on resources is reached.",
        "Raise the quota that the message names, or free something.";
    CLOUD_REFUSED = "CloudRefused", "The cloud says that what was asked is wrong.",
        "Mend what the message names; it is tried again rarely.";
    INTERNAL_ERROR = "InternalError", "Something that cannot be: an annotation of ours that was changed, or a fault of the manager itself.",
        "Mend what the message names; if it names nothing of yours, report it with the manager's log.";
    CLUSTER_ID_TAKEN = "ClusterIdTaken",
        "The `VCOCluster` is a copy of another one: it has the same cluster id, of which everything in the cloud is named.",
        "Delete the copy, which changes nothing in the cloud; make it anew without the annotation `…/cluster-id` and without `spec.cloudspaceId`.";
    LOCATION_UNKNOWN = "LocationNotFound", "The customer has no such location.",
        "Make another VCOCluster with a `spec.location` that the message lists.";
    CLOUDSPACE_NOT_FOUND = "CloudspaceNotFound", "The cloudspace that is named does not exist.",
        "Restore the cloudspace, or make another VCOCluster with the right `spec.cloudspace.adopt`.";
    CLOUDSPACE_AMBIGUOUS = "CloudspaceAmbiguous", "Several cloudspaces have the name.",
        "Rename the others, or make another VCOCluster with `spec.cloudspace.adopt.id`.";
    CLOUDSPACE_CREATING = "CloudspaceCreating", "The cloudspace is being made.", "Wait.";
    CLOUDSPACE_UNUSABLE = "CloudspaceUnusable", "The cloudspace is in a state that takes no VMs.",
        "Look at it in the portal; the message says its state.";
    CLOUDSPACE_DEPLOYED = "CloudspaceDeployed", "The network is there.", "Nothing.";
    NAME_TAKEN = "NameTaken", "Something that is not ours has the name that ours would get.",
        "Rename or remove it; names stay taken while a thing is in the recycle bin.";
    PORT_TAKEN = "PortTaken", "Something that is not this cluster's listens already where its load balancer would.",
        "Make another VCOCluster with another `spec.apiLoadBalancer.port`, or remove what the message names.";
    LOAD_BALANCER_CREATING = "LoadBalancerCreating", "The load balancer is being made.", "Wait.";
    LOAD_BALANCER_CONFIGURED = "LoadBalancerConfigured",
        "The load balancer is there, with the members that should be in it.", "Nothing.";
    LOAD_BALANCER_DISABLED = "LoadBalancerDisabled", "The cluster asked for none.", "Nothing.";
    WAITING_FOR_ENDPOINT = "WaitingForEndpoint", "There is no load balancer and no endpoint was given.",
        "Set `spec.controlPlaneEndpoint`, or allow `spec.apiLoadBalancer`.";
    NO_EXTERNAL_ADDRESS = "NoExternalAddress", "The cloudspace has no external address to listen on.",
        "Give it one, or set `spec.apiLoadBalancer.ipAddress`.";
    BACKUP_IS_FRESH = "BackupFresh", "The newest good backup is young enough.", "Nothing.";
    BACKUP_STALE = "BackupStale", "The newest good backup is too old.", "Look at the schedule of `capvco-backup`.";
    BACKUP_MISSING = "BackupMissing", "There is no good backup.", "Run `capvco-backup check`, then `snapshot`.";
    BACKUP_UNREADABLE = "BackupUnreadable", "The bucket cannot be read.", "Mend what the message names.";
    IMAGE_FOUND = "ImageFound", "The image is known.", "Nothing.";
    IMAGE_NOT_FOUND = "ImageNotFound", "No usable image of that name or number is at the location.",
        "Publish it with `capvco-imagepublish`, or refer to a VCOMachineTemplate that names another.";
    IMAGE_AMBIGUOUS = "ImageAmbiguous", "Several usable images have the name.",
        "Remove the others, or refer to a VCOMachineTemplate that names one by `imageId`.";
    IMAGE_TOO_LARGE = "ImageNeedsMore", "The image needs a larger boot disk or more memory.",
        "Refer to a VCOMachineTemplate with more of what the message names.";
    BOOTSTRAP_DATA_UNUSABLE = "BootstrapDataUnusable", "The bootstrap data are nothing that the cloud takes.",
        "Use the format cloud-config; the message says what is wrong.";
    BOOTSTRAP_DATA_FOUND = "BootstrapDataFound", "The bootstrap data are there.", "Nothing.";
    FAILURE_DOMAIN_UNKNOWN = "FailureDomainUnknown", "The machine is to be where the cluster is not.",
        "Use a failure domain that the VCOCluster lists.";
    VM_CREATING = "VMCreating", "The VM is being made.", "Wait.";
    VM_STARTING = "VMStarting", "The VM is being started.", "Wait.";
    VM_RUNNING = "VMRunning", "The VM runs.", "Nothing.";
    VM_NOT_RUNNING = "VMNotRunning", "The VM is there and does not run.",
        "Start it in the portal, or delete the Machine.";
    VM_NOT_FOUND = "VMNotFound", "The VM is gone. It is not made again.", "Delete the Machine, or let a health check do it.";
    VM_FAILED = "VMFailed", "The cloud could not make the VM.", "Delete the Machine; the message says why.";
    PROVIDER_ID_INVALID = "ProviderIDInvalid", "`spec.providerID` names no VM of this cluster's location.",
        "Delete the Machine.";
    DISKS_READY = "DisksAttached", "All disks are attached.", "Nothing.";
    DISKS_MISSING = "DisksMissing", "Not all disks are attached yet.", "Wait; the message names them.";
    NICS_MISSING = "NICsMissing", "Not all external interfaces are attached yet.", "Wait; the message names them.";
    MEMBER = "Member", "The VM is in the pool before the API.", "Nothing.";
    NOT_MEMBER = "NotMember", "The VM is not in the pool before the API.",
        "Look at `APILoadBalancerReady` of the VCOCluster.";
    DELETION_RUNS = "Deleting", "The deletion goes on.", "Wait.";
    WAITING_FOR_MACHINES = "WaitingForMachines", "Machines of the cluster are still there.",
        "Look at the VCOMachines that the message names.";
    FOREIGN_THINGS_LEFT = "ForeignThingsLeft", "Others have made things in the cloudspace, which is not deleted with them.",
        "Remove what the message names, or set `spec.cloudspace.leftovers` to `Remove`.";
    DELETION_BLOCKED = "DeletionBlocked", "The deletion cannot go on by itself, most often because the cloud cannot be asked to delete.",
        "Mend what the message names, or annotate the object `vco.infrastructure.cluster.x-k8s.io/abandon: \"true\"` and remove by hand what the event lists.";
}

/// What is to be said of one thing: type, status, reason and message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// What it is about.
    pub kind: &'static str,
    /// `True`, `False` or `Unknown`.
    pub status: &'static str,
    /// Why; one of [`REASONS`].
    pub reason: &'static str,
    /// The same in a sentence, with names.
    pub message: String,
}

impl Said {
    /// It is so.
    #[must_use]
    pub fn so(kind: &'static str, reason: &'static str) -> Self {
        Self { kind, status: "True", reason, message: String::new() }
    }

    /// It is not so.
    #[must_use]
    pub fn not(kind: &'static str, reason: &'static str, message: impl Into<String>) -> Self {
        Self { kind, status: "False", reason, message: message.into() }
    }

    /// Nobody knows.
    #[must_use]
    pub fn unknown(kind: &'static str, reason: &'static str, message: impl Into<String>) -> Self {
        Self { kind, status: "Unknown", reason, message: message.into() }
    }

    /// The same with these words.
    #[must_use]
    pub fn with(mut self, message: impl Into<String>) -> Self {
        self.message = message.into();
        self
    }
}

/// The longest message of a condition, in bytes (its schema).
const LONGEST: usize = 32_768;

/// The conditions of an object after this was said: sorted by type; the time of the last
/// transition moves only where a status changed (contract, 1.5).
#[must_use]
pub fn merge(
    before: &[Condition],
    said: Vec<Said>,
    generation: Option<i64>,
    now: Timestamp,
) -> Vec<Condition> {
    let mut after: Vec<Condition> = said
        .into_iter()
        .map(|said| {
            let old = before.iter().find(|old| old.type_ == said.kind);
            let same = old.filter(|old| old.status == said.status);
            Condition {
                type_: said.kind.to_owned(),
                status: said.status.to_owned(),
                reason: said.reason.to_owned(),
                message: cut(said.message),
                observed_generation: generation,
                last_transition_time: same.map_or_else(
                    || Time(whole_seconds(now)),
                    |old| old.last_transition_time.clone(),
                ),
            }
        })
        .collect();
    after.sort_by(|a, b| a.type_.cmp(&b.type_));
    after
}

/// The API server keeps whole seconds: anything finer would differ from what was read back.
fn whole_seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

fn cut(mut text: String) -> String {
    if text.len() > LONGEST {
        let mut at = LONGEST;
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        text.truncate(at);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::new(second, 5_000).unwrap()
    }

    #[test]
    fn the_time_moves_with_the_status_alone() {
        let first = merge(&[], vec![Said::not(READY, VM_CREATING, "a")], Some(1), at(10));
        assert_eq!(first[0].last_transition_time.0, Timestamp::from_second(10).unwrap());
        let second = merge(&first, vec![Said::not(READY, VM_STARTING, "b")], Some(2), at(20));
        assert_eq!(second[0].last_transition_time, first[0].last_transition_time);
        assert_eq!(
            (second[0].reason.as_str(), second[0].observed_generation),
            ("VMStarting", Some(2))
        );
        let third = merge(&second, vec![Said::so(READY, IS_READY)], Some(2), at(30));
        assert_eq!(third[0].last_transition_time.0, Timestamp::from_second(30).unwrap());
    }

    #[test]
    fn conditions_are_sorted_and_what_is_no_longer_said_goes() {
        let said =
            || vec![Said::so(VM_PROVISIONED, VM_RUNNING), Said::so(DISKS_ATTACHED, DISKS_READY)];
        let both = merge(&[], said(), None, at(1));
        assert_eq!(both[0].type_, DISKS_ATTACHED);
        assert_eq!(merge(&both, said(), None, at(9)), both);
        assert_eq!(merge(&both, vec![Said::so(READY, IS_READY)], None, at(2)).len(), 1);
    }

    #[test]
    fn a_message_is_cut_between_letters() {
        let long = "ü".repeat(LONGEST);
        let cut = merge(&[], vec![Said::not(READY, VM_FAILED, long)], None, at(1));
        assert!(cut[0].message.len() <= LONGEST && cut[0].message.ends_with('ü'));
    }

    #[test]
    fn every_reason_is_one_word_and_there_once() {
        let mut words: Vec<_> = REASONS.iter().map(|reason| reason.word).collect();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), REASONS.len());
        for reason in REASONS {
            assert!(reason.word.chars().all(|c| c.is_ascii_alphanumeric()), "{}", reason.word);
            assert!(
                reason.meaning.ends_with('.') && reason.remedy.ends_with('.'),
                "{}",
                reason.word
            );
        }
    }
}
