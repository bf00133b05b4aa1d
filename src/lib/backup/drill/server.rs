//! A throw-away etcd on a data directory of ours: its process, its log, and its end.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use crate::backup::Error;
use crate::clock::Clock;
use crate::etcd::{Access, Client, Version};
use crate::fault::chain;

/// How often a starting etcd is asked whether it is there.
const LOOK: Duration = Duration::from_millis(50);

/// How much of its log an error shows, in lines.
const TAIL: usize = 5;

/// Two addresses on this machine that nobody listens on.
#[derive(Debug, Clone)]
pub struct Addresses {
    /// For clients.
    pub client: String,
    /// For peers, of which there are none.
    pub peer: String,
}

impl Addresses {
    /// Asks the system for two free ports.
    pub fn free() -> Result<Self, Error> {
        let no = |error: std::io::Error| {
            Error::failed(format!("this machine has no free port: {error}"), "")
        };
        // Both are held until both are known, so that they differ.
        let held = [TcpListener::bind("127.0.0.1:0"), TcpListener::bind("127.0.0.1:0")];
        let [client, peer] = held.map(|held| {
            let address = held.map_err(no)?.local_addr().map_err(no)?;
            Ok::<_, Error>(format!("http://{address}"))
        });
        Ok(Self { client: client?, peer: peer? })
    }
}

/// A running etcd, killed when it is dropped.
#[derive(Debug)]
pub struct Server {
    child: Child,
    log: PathBuf,
    addresses: Addresses,
}

/// The version that `tool` says it has.
pub fn version(tool: &Path) -> Result<Version, Error> {
    let told = Command::new(tool).arg("--version").stdin(Stdio::null()).output();
    let told = told.map_err(|error| unusable(tool, &error.to_string()))?;
    let text = String::from_utf8_lossy(&told.stdout);
    let version = text.lines().find_map(|line| line.strip_prefix("etcd Version:"));
    let version = version.and_then(|version| version.trim().parse().ok());
    version.ok_or_else(|| unusable(tool, "it does not say which etcd it is"))
}

fn unusable(tool: &Path, why: &str) -> Error {
    Error::declined(
        format!("{} cannot be used as etcd: {why}", tool.display()),
        "say --etcd FILE with the etcd that the cluster runs; its image holds it as \
         /usr/local/bin/etcd",
    )
}

impl Server {
    /// Starts `tool` on `data_dir`; it is not there yet when this returns.
    pub fn start(
        tool: &Path,
        data_dir: &Path,
        name: &str,
        addresses: Addresses,
        log: PathBuf,
    ) -> Result<Self, Error> {
        let file =
            std::fs::File::create(&log).map_err(|error| Error::file("write", &log, error))?;
        let both = file.try_clone().map_err(|error| Error::file("write", &log, error))?;
        let Addresses { client, peer } = &addresses;
        let child = Command::new(tool)
            // Nothing of the caller's settings may turn it into a member of something real.
            .env_clear()
            .args(["--name", name, "--data-dir"])
            .arg(data_dir)
            .args(["--listen-client-urls", client, "--advertise-client-urls", client])
            .args(["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer])
            .args(["--initial-cluster", &format!("{name}={peer}")])
            .stdin(Stdio::null())
            .stdout(file)
            .stderr(both)
            .spawn()
            .map_err(|error| unusable(tool, &error.to_string()))?;
        Ok(Self { child, log, addresses })
    }

    /// A connection, once it serves with itself as the leader.
    pub async fn ready(
        &mut self,
        clock: &Arc<dyn Clock>,
        patience: Duration,
    ) -> Result<Client, Error> {
        let access = Access::to(&[&self.addresses.client]);
        let begun = clock.elapsed();
        loop {
            let asked = async {
                let client =
                    Client::connect(&access, &self.addresses.client, Arc::clone(clock)).await?;
                let status = client.status().await?;
                Ok::<_, crate::etcd::Error>((status.leader != 0).then_some(client))
            };
            let last = match asked.await {
                Ok(Some(client)) => return Ok(client),
                Ok(None) => "it has no leader".to_owned(),
                Err(error) => chain(&error),
            };
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(self.failed(&format!("etcd has ended ({status})")));
            }
            if clock.elapsed().saturating_sub(begun) > patience {
                return Err(self.failed(&format!("etcd does not serve: {last}")));
            }
            clock.sleep(LOOK).await;
        }
    }

    fn failed(&self, what: &str) -> Error {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let tail = lines[lines.len().saturating_sub(TAIL)..].join("\n    ");
        Error::failed(format!("{what}; the end of its log:\n    {tail}"), "")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It holds nothing that is worth a clean end.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_free_addresses_differ() {
        let found = Addresses::free().unwrap();
        assert_ne!(found.client, found.peer);
        assert!(found.client.starts_with("http://127.0.0.1:"));
    }

    #[test]
    fn what_is_no_etcd_is_refused_with_its_name() {
        for tool in ["/nowhere/etcd", "/bin/true", "/bin/echo"] {
            let error = version(Path::new(tool)).unwrap_err().to_string();
            assert!(error.starts_with(&format!("{tool} cannot be used as etcd")), "{error}");
        }
    }
}
