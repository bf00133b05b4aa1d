//! CAPVCO: Kubernetes clusters on whitesky.cloud, through Cluster API.
//!
//! This page is the map. Programs under `src/bin` parse flags, build a request and hand it to
//! one tool room; everything else happens here.
//!
//! **Ground**, which knows nothing of ours: [`fault`] says what kind of thing went wrong,
//! [`id`] names things, [`mod@near`] finds the name that was meant, [`clock`] tells and spends
//! time, [`disk`] reads and makes files, [`progress`] and [`report`] are what a tool tells its
//! user while it works and when it is done, [`yaml`] is the only door to YAML.
//!
//! **First storey**, one outside world each: [`vco`] speaks the cloud's API, [`s3`] keeps objects
//! under lock, [`etcd`] streams a member's state and knows its files; [`snapshot`] is what lies
//! between the last two: a backup at rest, sealed, described and found again. [`api`] is what
//! Kubernetes knows of us: kinds, conditions, reasons. [`template`] makes of bootstrap data what
//! a machine is told when it boots.
//!
//! **Second storey**, the tools: [`publish`] brings a node image into many locations,
//! [`resolve`] finds it again, [`backup`] brings etcd into object storage and back, [`release`]
//! writes what a management cluster installs, [`manager`] runs in one.
//!
//! **Third storey**, the proving ground: [`sim`] is a whole cloud in a process.
//!
//! **The door**: [`cli`] holds everything that a terminal needs.

pub mod api;
pub mod backup;
pub mod cli;
pub mod clock;
pub mod disk;
pub mod etcd;
pub mod fault;
pub mod id;
pub mod manager;
pub mod near;
pub mod progress;
pub mod publish;
pub mod release;
pub mod report;
pub mod resolve;
pub mod s3;
pub mod sim;
pub mod snapshot;
pub mod template;
pub mod vco;
pub mod yaml;
