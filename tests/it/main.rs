//! The one test binary: programs and rooms over real HTTP against the embedded cloud.

#![allow(clippy::unwrap_used, reason = "a test, and what serves it, may stop at any surprise")]

mod admission;
mod backup;
mod clusters;
mod etcd;
mod house;
mod kube;
mod manager;
mod manners;
mod peers;
mod publish;
mod references;
mod release_files;
mod resolve;
mod s3;
mod shape;
mod sim_access;
mod sim_cloud;
mod sim_faults;
mod sim_images;
mod sim_objectspace;
mod sim_program;
mod sim_source;
mod sim_uploads;
mod snapshot;
mod source_download;
mod source_url;
mod static_binary;
#[allow(dead_code, reason = "shared vocabulary: not every test uses every word")]
mod support;
mod templates;
mod transcripts;
mod vco_client;
