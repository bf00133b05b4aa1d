//! The command line of `capvco-e2e`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use capvco::cli::Flags;
use capvco::cli::args::{Talk, duration, size};
use capvco::id::{CustomerId, Location};
use capvco::sim::Fault;
use capvco::sim::qcow2::Gpt;
use clap::{Parser, Subcommand, ValueEnum};

/// The embedded cloud, for trying the tools without a portal
#[derive(Debug, Parser)]
pub struct Args {
    #[command(subcommand)]
    pub verb: Verb,
}

impl Flags for Args {
    fn talk(&self) -> Talk {
        Talk::default()
    }
}

#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Run an embedded cloud until Ctrl-C; stdout gets the settings that lead to it
    Cloud(Box<CloudFlags>),
    /// Make a real qcow2 image and serve it over HTTP until Ctrl-C
    ImageServer(ImageFlags),
}

#[derive(Debug, clap::Args)]
pub struct CloudFlags {
    /// Where to listen; port 0 is a free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0", value_parser = address)]
    pub listen: SocketAddr,

    /// The customer's id [default: `acme_1`]
    #[arg(long, value_name = "ID")]
    pub customer: Option<CustomerId>,

    /// The locations, instead of three usual ones
    #[arg(long, value_name = "A,B,C", value_delimiter = ',')]
    pub locations: Vec<Location>,

    /// A YAML file that describes the world: customers, locations, rules
    #[arg(long, value_name = "FILE")]
    pub world: Option<PathBuf>,

    /// How long every call takes
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub latency: Option<Duration>,

    /// How much longer a call takes that changes something
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub write_latency: Option<Duration>,

    /// How long an image is being imported at least
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub import_time: Option<Duration>,

    /// How large the parts of an upload are to be [default: 16MiB]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub part_size: Option<u64>,

    /// Whether to refuse calls above the cloud's limits [default: off]
    #[arg(long, value_name = "WHETHER")]
    pub rate_limit: Option<OnOff>,

    /// What shall go wrong: `OPERATION[@LOCATION][#NTH]=KIND[:ARG][*COUNT]`, or @FILE, a YAML list
    /// of such; may be repeated
    #[arg(long, value_name = "SPEC")]
    pub fault: Vec<Faults>,

    /// Where versitygw is, which serves the S3 of objectspaces; without it, the one on PATH or in
    /// .tools/bin
    #[arg(long, value_name = "PATH")]
    pub versitygw: Option<PathBuf>,

    /// What machines become: full = nodes of the cluster that their user data describe, each with
    /// a network of its own and etcd inside, for which it takes root; quick = nodes of a cluster
    /// with one API server, on an etcd outside of it; off = nothing
    #[arg(long, value_enum, value_name = "FLAVOUR", default_value = "off")]
    pub nodes: Flavour,

    /// Where kubeadm, kube-apiserver, etcd and, for full, kube-controller-manager are; without it,
    /// those on PATH or in .tools/bin
    #[arg(long, value_name = "DIR")]
    pub node_tools: Option<PathBuf>,

    /// Append every exchange to this file, a JSON line each
    #[arg(long, value_name = "FILE")]
    pub traffic: Option<PathBuf>,

    /// Write the settings to this file too, for `. FILE`; only its owner can read it, and it is
    /// removed at the end
    #[arg(long, value_name = "FILE")]
    pub env_file: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub struct ImageFlags {
    /// Where to listen; port 0 is a free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0", value_parser = address)]
    pub listen: SocketAddr,

    /// How large the file is to be, about
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = size)]
    pub size: u64,

    /// How large the disk in it is [default: 10 GiB, or more if the file needs it]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub virtual_size: Option<u64>,

    /// The file's name, and its path on the server
    #[arg(long, value_name = "NAME", default_value = "k8s.qcow2")]
    pub name: FileName,

    /// Which content: images of one seed are the same bytes
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,

    /// What the partition table says about booting
    #[arg(long, value_enum, value_name = "TABLE", default_value = "both")]
    pub partitions: Table,

    /// Make the file in this folder and leave it there, instead of in a temporary one
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,

    /// Write the settings to this file too, for `. FILE`; it is removed at the end
    #[arg(long, value_name = "FILE")]
    pub env_file: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OnOff {
    On,
    Off,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Flavour {
    Full,
    Quick,
    Off,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Table {
    Uefi,
    Bios,
    Both,
    Mbr,
    None,
}

/// An address with its port, which people like to write alone.
fn address(text: &str) -> Result<SocketAddr, String> {
    let port = text.strip_prefix(':').unwrap_or(text);
    text.parse().map_err(|_| match port.parse::<u16>() {
        Ok(port) => format!("write the address too: 127.0.0.1:{port}"),
        Err(_) => "write an address and a port, such as 127.0.0.1:8080".into(),
    })
}

impl From<Table> for Gpt {
    fn from(table: Table) -> Self {
        match table {
            Table::Uefi => Self::Uefi,
            Table::Bios => Self::Bios,
            Table::Both => Self::Both,
            Table::Mbr => Self::Mbr,
            Table::None => Self::None,
        }
    }
}

/// A value of `--fault`: a bad one is found while flags are read, a bad file later.
#[derive(Debug, Clone)]
pub enum Faults {
    One(Fault),
    File(PathBuf),
}

impl FromStr for Faults {
    type Err = <Fault as FromStr>::Err;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.strip_prefix('@') {
            Some(path) => Ok(Self::File(PathBuf::from(path))),
            None => text.parse().map(Self::One),
        }
    }
}

/// The name of a file, without a folder.
#[derive(Debug, Clone)]
pub struct FileName(pub String);

impl FromStr for FileName {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        let good = !text.is_empty() && !text.starts_with('.') && text.chars().all(plain);
        good.then(|| Self(text.to_owned())).ok_or("letters, digits, `.`, `_` and `-` only")
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn a_port_alone_gets_its_address() {
        assert!(address("127.0.0.1:0").is_ok() && address("[::1]:80").is_ok());
        for text in ["8080", ":8080", "localhost"] {
            assert!(address(text).unwrap_err().contains("127.0.0.1:8080"), "{text}");
        }
    }

    #[test]
    fn faults_and_file_names_are_read() {
        assert!(matches!("@a.yaml".parse(), Ok(Faults::File(path)) if path.ends_with("a.yaml")));
        assert!(matches!("*=500".parse(), Ok(Faults::One(_))));
        assert!("boom".parse::<Faults>().is_err());
        for (name, good) in [("k8s.qcow2", true), ("../x", false), ("a b", false), ("", false)] {
            assert_eq!(name.parse::<FileName>().is_ok(), good, "{name}");
        }
    }
}
