//! The command line of `capvco`.

use capvco::cli::{Flags, Talk};
use clap::{Parser, Subcommand};

use crate::manager::ManagerArgs;
use crate::release::ReleaseArgs;

/// The Cluster API provider for whitesky.cloud
#[derive(Debug, Parser)]
pub struct Args {
    #[command(subcommand)]
    pub verb: Verb,
}

impl Flags for Args {
    fn talk(&self) -> Talk {
        match &self.verb {
            Verb::Manager(args) => args.logs.talk(),
            Verb::Release(_) => Talk::default(),
        }
    }
}

#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Run the controllers, in a management cluster or beside it
    Manager(Box<ManagerArgs>),

    /// Write what a release consists of
    Release(ReleaseArgs),
}

#[cfg(test)]
mod tests {
    use capvco::release::{self, Image, Release, Version};
    use serde_json::Value;

    use super::*;

    fn manager(words: &[&str]) -> ManagerArgs {
        let words = ["capvco", "manager"].into_iter().chain(words.iter().copied());
        match Args::try_parse_from(words).unwrap().verb {
            Verb::Manager(args) => *args,
            Verb::Release(_) => panic!("it is the manager that is meant"),
        }
    }

    #[test]
    fn the_loudness_is_that_of_other_managers_and_of_our_programs() {
        use tracing::Level;
        for (words, finest, verbose) in [
            (&[][..], Level::INFO, 0),
            (&["--v=2"], Level::INFO, 0),
            (&["--v", "4"], Level::DEBUG, 0),
            (&["--v"], Level::DEBUG, 0),
            (&["--v=9"], Level::TRACE, 0),
            (&["-vv", "--logging-format=json"], Level::INFO, 2),
        ] {
            let talk = manager(words).logs.talk();
            assert_eq!((talk.finest, talk.verbose), (Some(finest), verbose), "{words:?}");
        }
        assert_eq!(
            manager(&["--logging-format=json"]).logs.talk().logs,
            capvco::cli::LogFormat::Json
        );
    }

    /// What is installed is started with words that the program understands, and is asked where
    /// it listens.
    #[test]
    fn the_deployment_starts_this_very_program() {
        let image = "registry.example.com/capvco/capvco".parse::<Image>().unwrap();
        let release = Release::new(&image, "v0.1.0".parse::<Version>().unwrap());
        let objects = release::objects(&release);
        let deployment = objects.iter().find(|object| object["kind"] == "Deployment").unwrap();
        let container = &deployment["spec"]["template"]["spec"]["containers"][0];
        let words: Vec<&str> =
            container["args"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        assert_eq!(words[0], "manager");
        let request = crate::manager::request(manager(&words[1..])).unwrap();
        assert!(request.election.is_some(), "two of them must take turns");
        let port = |name: &str| {
            let ports = container["ports"].as_array().unwrap();
            let named = ports.iter().find(|port| port["name"] == name).unwrap();
            named["containerPort"].as_u64().unwrap()
        };
        let listens = |at: Option<std::net::SocketAddr>| u64::from(at.unwrap().port());
        assert_eq!(listens(request.health), port("health"));
        let diagnostics = request.diagnostics.unwrap();
        assert_eq!(listens(Some(diagnostics.address)), port("metrics"));
        assert!(!diagnostics.insecure);
        for (probe, path) in [("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")] {
            assert_eq!(container[probe]["httpGet"]["path"], path);
            assert_eq!(container[probe]["httpGet"]["port"], "health");
        }
    }
}
