//! The client of the whitesky.cloud VCO API: the only room that talks to the cloud.
//!
//! **May enter:** `fault`, `id`, `clock`; HTTP only in `transport` and `auth`.
//!
//! **Invariants**
//! - A call states whether it may be repeated (`call::Call`); `retry` decides, purely,
//!   what happens after a failure, and `transport` carries it out on the clock it was given.
//! - A write whose fate is unknown is never repeated: its error says so
//!   ([`Error::outcome_unknown`]) and the caller looks before it decides.
//! - The token and other secrets never reach a log, an error or `Debug`; redirects are not
//!   followed, so the token never travels to another host.
//! - Every field of a reply is optional and read leniently (`wire`); a list that does not vouch
//!   for a location proves nothing about it ([`Kind::Incomplete`]).
//! - One limiter a location, shared by all clones of a [`Client`], and by all clients of one
//!   user that were given the same [`Limiters`] (`limit`, ADR 0005).
//!
//! **To add a call:** put a method on [`Customer`] into the file of its noun; build a
//! `call::Call` (operation in words for the error's text, target, path segments, whether
//! it may be repeated, what reply it expects), send it through the client, and read the reply
//! with `wire`. State the evidence tag of vco-api.md for whatever the vendor's file does not
//! declare.

mod address;
mod affinity;
mod auth;
mod blank;
mod bucket;
mod bucket_key;
mod bucket_upload;
mod call;
mod certain;
mod client;
mod cloudspace;
mod config;
mod customer;
mod disk;
mod error;
mod hint;
mod image;
mod judge;
mod jwt;
mod limit;
mod loadbalancer;
mod location;
mod me;
mod nic;
mod note;
mod objectspace;
mod objectspace_link;
mod part;
mod portal;
mod portforward;
mod query;
mod recycle;
mod retry;
mod serverpool;
pub mod tls;
mod transport;
mod upload;
mod vm;
mod watch;
pub mod wire;

pub use address::bare;
pub use affinity::AntiAffinityGroup;
pub use bucket::{Bucket, NewBucket};
pub use bucket_key::{Access, BucketKey};
pub use bucket_upload::{BucketUpload, LifecycleRule};
pub use client::Client;
pub use cloudspace::{Cloudspace, ExternalNetwork, NewCloudspace};
pub use config::{Config, RateLimit, TokenSource};
pub use customer::Customer;
pub use disk::{Disk, NewDisk};
pub use error::{Error, Kind};
pub use image::{DeletedImages, Image, NewImage};
pub use limit::Limiters;
pub use loadbalancer::{ListedLoadBalancer, LoadBalancer, NewLoadBalancer};
pub use location::LocationInfo;
pub use me::{Me, Membership};
pub use nic::Nic;
pub use note::Note;
pub use objectspace::{Link, NewObjectspace, Objectspace, Publish, RootKeys, Through};
pub use objectspace_link::LinkedObjectspace;
pub use part::FilePart;
pub use portforward::PortForward;
pub use recycle::{Binned, BinnedVm, RecycleBin};
pub use serverpool::{Host, ListedServerPool, ServerPool};
pub use upload::Upload;
pub use vm::{NewVm, Pci, Vm, VmDetail, VmDisk};
pub use watch::{Outcome, Watch};
