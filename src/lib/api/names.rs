//! Labels, annotations, finalizers and field managers, each once.

/// The API group of everything that an infrastructure provider defines (contract, G2).
pub const GROUP: &str = "infrastructure.cluster.x-k8s.io";
/// Our version in it.
pub const VERSION: &str = "v1beta1";
/// The API group of Cluster API's own kinds.
pub const CORE_GROUP: &str = "cluster.x-k8s.io";
/// The version of them that we read.
pub const CORE_VERSION: &str = "v1beta2";

/// The label that names the cluster an object belongs to; its value is the Cluster's name.
pub const CLUSTER_NAME_LABEL: &str = "cluster.x-k8s.io/cluster-name";
/// The label of machines that belong to the control plane; its value does not matter.
pub const CONTROL_PLANE_LABEL: &str = "cluster.x-k8s.io/control-plane";
/// The label by which several managers share a management cluster (`--watch-filter`).
pub const WATCH_FILTER_LABEL: &str = "cluster.x-k8s.io/watch-filter";
/// Pauses the object that carries it, whatever its value (contract, 1.6).
pub const PAUSED_ANNOTATION: &str = "cluster.x-k8s.io/paused";
/// Says that somebody else looks after a `VCOCluster`. The contract's page calls it a label and
/// its code an annotation (contract, 1.2): both count.
pub const MANAGED_BY: &str = "cluster.x-k8s.io/managed-by";
/// Set by `clusterctl move` on what it deletes at the source.
pub const DELETE_FOR_MOVE_ANNOTATION: &str = "clusterctl.cluster.x-k8s.io/delete-for-move";
/// Has `clusterctl move` take an object along that no owner leads to (contract, 3.7).
pub const MOVE_LABEL: &str = "clusterctl.cluster.x-k8s.io/move";

/// The random id of a cluster, kept on its `VCOCluster` from before the first call to the cloud,
/// and part of every mark there: clusters of one name never meet.
pub const CLUSTER_ID_ANNOTATION: &str = "vco.infrastructure.cluster.x-k8s.io/cluster-id";
/// The customer that a cluster's things were made for, kept on its `VCOCluster`: with another one's
/// credentials everything would look as if it had vanished.
pub const CUSTOMER_ANNOTATION: &str = "vco.infrastructure.cluster.x-k8s.io/customer";
/// Releases a deleted object although the cloud cannot be asked; an event lists what is left.
pub const ABANDON_ANNOTATION: &str = "vco.infrastructure.cluster.x-k8s.io/abandon";

/// Where a `VCOMachine`'s VM is and who may delete it, in JSON, from before the VM is made: its
/// deletion must need no other object (contract, 10.2, 20).
pub const SITE_ANNOTATION: &str = "vco.infrastructure.cluster.x-k8s.io/site";

/// Held on a `VCOCluster` until the cloud says that all it made is gone.
pub const CLUSTER_FINALIZER: &str = "infrastructure.cluster.x-k8s.io/vcocluster";
/// Held on a `VCOMachine` until the cloud says that its VM is gone.
pub const MACHINE_FINALIZER: &str = "infrastructure.cluster.x-k8s.io/vcomachine";
/// Held on a Secret of credentials while a cluster uses it, followed by the cluster's name.
pub const SECRET_FINALIZER_PREFIX: &str = "infrastructure.cluster.x-k8s.io/vcocluster-";

/// Owns the statuses.
pub const STATUS_MANAGER: &str = "capvco-status";
/// Owns what statuses say of backups.
pub const BACKUP_MANAGER: &str = "capvco-backup-status";
/// Owns what is written back into specs: `providerID`, `controlPlaneEndpoint`, `cloudspaceId`.
pub const IDENTITY_MANAGER: &str = "capvco-identity";
/// Owns finalizers and annotations.
pub const METADATA_MANAGER: &str = "capvco-metadata";
