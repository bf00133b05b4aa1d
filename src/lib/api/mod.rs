//! The kinds that CAPVCO gives to Kubernetes, and the little that it reads of Cluster API's.
//!
//! **May enter:** fields, rules and words of the API: what `kubectl explain` teaches. No client,
//! no I/O, nothing of the cloud's API.
//!
//! **Invariants**
//! - Optional fields are left out when they are empty: an explicit null would be owned, and would
//!   break what Cluster API makes of a field that is not there (contract, 11).
//! - No defaults in the schema: one that changed between releases would make every template of a
//!   `ClusterClass` differ (contract, 6.2). What is not said is decided in code.
//! - Every condition and every reason is one constant of [`condition`], with its meaning and its
//!   remedy.
//!
//! **To add a field:** a field with a doc comment, which is its description, and with bounds for
//! every text, number and list, without which rules have no bounded cost; then generate the CRDs
//! again (`capvco release crds`).

pub mod cluster;
pub mod cluster_template;
pub mod condition;
pub mod contract;
pub mod machine;
pub mod machine_template;
pub mod names;
mod rule;
pub mod shared;

pub use cluster::VCOCluster;
pub use cluster_template::VCOClusterTemplate;
pub use machine::VCOMachine;
pub use machine_template::VCOMachineTemplate;
