//! The manager against the embedded cloud and a real API server. Here the objects of Cluster API
//! are written by the test, so that each step can be looked at; where its managers do that, the
//! scenarios are the whole.

mod alone;
mod backups;
mod build;
mod door;
mod fate;
mod faults;
mod foreign;
mod holds;
mod keys;
mod kubewire;
mod late;
mod logs;
mod pace;
mod pages;
mod process;
mod stage;
mod storm;
mod trouble;
