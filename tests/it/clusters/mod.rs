//! Whole clusters: Cluster API's managers, ours, the embedded cloud, and machines that become
//! nodes. What a person writes is applied, and the rest is waited for.

mod adopted;
mod base;
mod classy;
mod credentials;
mod ha;
mod health;
mod moved;
mod pauses;
mod planes;
mod quiet;
mod quota;
mod spaces;
mod stacked;
mod stage;
mod version;
mod workers;
