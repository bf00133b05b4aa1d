//! etcd of every line: one member or several, with TLS or without, on new data or on restored.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;

use super::super::program::Done;
use super::tls::Tls;
use super::{Peer, clean, get, port, run, tool, until};

/// Every line that is tested against, newest first.
pub const LINES: [&str; 4] = ["3.7", "3.6", "3.5", "3.4"];

/// `etcd`, `etcdctl` or `etcdutl` of a line.
#[track_caller]
pub fn tool_name(name: &str, line: &str) -> String {
    assert!(LINES.contains(&line), "there is no line {line}");
    if line == LINES[0] { name.to_owned() } else { format!("{name}-{line}") }
}

/// Runs `etcdutl` of a line and gives its stdout; fails the test if it fails.
#[track_caller]
pub fn etcdutl(line: &str, args: &[&str]) -> String {
    run(clean(tool(&tool_name("etcdutl", line))).args(args)).expect(0).out
}

/// A member about to be started. Its ports are known already.
#[derive(Debug, Clone)]
pub struct Builder {
    line: String,
    name: String,
    client_port: u16,
    peer_port: u16,
    metrics_port: u16,
    tls: Option<Arc<Tls>>,
    client_auth: bool,
    data_dir: Option<PathBuf>,
    cluster: Option<String>,
    args: Vec<String>,
}

impl Builder {
    /// Of this line, in place of the newest: `3.6`.
    pub fn line(mut self, line: &str) -> Self {
        line.clone_into(&mut self.line);
        self
    }

    /// In place of `default`.
    pub fn name(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self
    }

    /// Serves clients over TLS; the client's files are for who wants to show them.
    pub fn tls(mut self, tls: &Arc<Tls>) -> Self {
        self.tls = Some(Arc::clone(tls));
        self
    }

    /// The same, and turns away clients without a certificate, as kubeadm sets it up.
    pub fn client_auth(mut self, tls: &Arc<Tls>) -> Self {
        self.client_auth = true;
        self.tls(tls)
    }

    /// On data that is there, such as a restored snapshot. The folder stays when the guard goes.
    pub fn data_dir(mut self, path: impl Into<PathBuf>) -> Self {
        self.data_dir = Some(path.into());
        self
    }

    /// One more flag: `--quota-backend-bytes=8589934592`.
    pub fn arg(mut self, arg: &str) -> Self {
        self.args.push(arg.to_owned());
        self
    }

    /// Where other members find it; a restore needs to be told.
    pub fn peer_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.peer_port)
    }

    /// Starts it as a learner of the cluster that `member` is alone in.
    #[track_caller]
    pub fn learner_of(mut self, member: &Etcd) -> Etcd {
        let peers = format!("--peer-urls={}", self.peer_url());
        member.etcdctl(&["member", "add", &self.name, "--learner", &peers]);
        self.cluster = Some(initial_cluster(&[member.built.clone(), self.clone()]));
        self.args.push("--initial-cluster-state=existing".to_owned());
        let port = self.metrics_port;
        let mut etcd = self.spawn();
        let said = || get(port, "/metrics").unwrap_or_default();
        etcd.peer.wait(|| {
            let said = said();
            said.contains("etcd_server_is_learner 1") && said.contains("etcd_server_has_leader 1")
        });
        etcd
    }

    /// Starts it, alone.
    #[track_caller]
    pub fn start(self) -> Etcd {
        let mut etcd = self.spawn();
        etcd.wait();
        etcd
    }

    #[track_caller]
    fn spawn(self) -> Etcd {
        let folder = tempfile::tempdir().unwrap();
        let data_dir = self.data_dir.clone().unwrap_or_else(|| folder.path().join("data"));
        let args = self.flags(&data_dir);
        let peer = Peer::new(&tool_name("etcd", &self.line), folder.path(), args);
        let mut etcd = Etcd { peer, built: self, data_dir, folder };
        etcd.peer.spawn();
        etcd
    }

    fn flags(&self, data_dir: &Path) -> Vec<String> {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        let client = format!("{scheme}://127.0.0.1:{}", self.client_port);
        let peer = self.peer_url();
        let alone = initial_cluster(std::slice::from_ref(self));
        let mut flags = vec![
            format!("--name={}", self.name),
            format!("--data-dir={}", data_dir.display()),
            format!("--listen-client-urls={client}"),
            format!("--advertise-client-urls={client}"),
            format!("--listen-peer-urls={peer}"),
            format!("--initial-advertise-peer-urls={peer}"),
            format!("--initial-cluster={}", self.cluster.as_ref().unwrap_or(&alone)),
            // Health without TLS.
            format!("--listen-metrics-urls=http://127.0.0.1:{}", self.metrics_port),
            "--logger=zap".to_owned(),
        ];
        if self.line != "3.4" {
            flags.push("--unsafe-no-fsync".to_owned());
        }
        if let Some(tls) = &self.tls {
            flags.push(format!("--cert-file={}", tls.arg("server.crt")));
            flags.push(format!("--key-file={}", tls.arg("server.key")));
            flags.push(format!("--trusted-ca-file={}", tls.arg("ca.crt")));
            flags.push(format!("--client-cert-auth={}", self.client_auth));
        }
        flags.extend(self.args.iter().cloned());
        flags
    }
}

/// What `--initial-cluster` says of these members; a restore needs to be told.
pub fn initial_cluster(members: &[Builder]) -> String {
    let pairs = members.iter().map(|member| format!("{}={}", member.name, member.peer_url()));
    pairs.collect::<Vec<_>>().join(",")
}

/// A running member.
#[derive(Debug)]
pub struct Etcd {
    // Before the folder: what is dropped first must not write any more.
    peer: Peer,
    built: Builder,
    data_dir: PathBuf,
    folder: TempDir,
}

impl Etcd {
    /// A member of the newest line, alone, without TLS.
    #[track_caller]
    pub fn start() -> Self {
        Self::builder().start()
    }

    /// The same of another line: `3.6`.
    #[track_caller]
    pub fn start_line(line: &str) -> Self {
        Self::builder().line(line).start()
    }

    /// A member to be told more about.
    pub fn builder() -> Builder {
        Builder {
            line: LINES[0].to_owned(),
            name: "default".to_owned(),
            client_port: port(),
            peer_port: port(),
            metrics_port: port(),
            tls: None,
            client_auth: false,
            data_dir: None,
            cluster: None,
            args: Vec::new(),
        }
    }

    /// Where clients find it, with scheme.
    pub fn endpoint(&self) -> String {
        let scheme = if self.built.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://127.0.0.1:{}", self.built.client_port)
    }

    /// Its name as a member.
    pub fn name(&self) -> &str {
        &self.built.name
    }

    /// Where other members find it.
    pub fn peer_url(&self) -> String {
        self.built.peer_url()
    }

    /// Where it keeps its log, and its data if they were not there before.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Its process, while it runs.
    pub fn id(&self) -> Option<u32> {
        self.peer.id()
    }

    /// Its `--data-dir`.
    pub fn data_dir(&self) -> &Path {
        &self.data_dir
    }

    /// The authority and certificates that it was started with.
    pub fn tls(&self) -> Option<&Tls> {
        self.built.tls.as_deref()
    }

    /// The last lines of its log.
    pub fn log(&self) -> String {
        self.peer.log()
    }

    /// Its metrics, as Prometheus reads them; none if it does not answer.
    pub fn metrics(&self) -> Option<String> {
        get(self.built.metrics_port, "/metrics")
    }

    /// Whether it leads.
    pub fn leads(&self) -> bool {
        let leads = |text: String| text.lines().any(|line| line == "etcd_server_is_leader 1");
        self.metrics().is_some_and(leads)
    }

    /// Ends it politely.
    #[track_caller]
    pub fn stop(&mut self) {
        self.peer.stop();
    }

    /// Ends it as a crash would.
    pub fn kill(&mut self) {
        self.peer.kill();
    }

    /// Starts it again on the same ports and data; waits until it has a leader.
    #[track_caller]
    pub fn restart(&mut self) {
        self.peer.kill();
        self.peer.spawn();
        self.wait();
    }

    /// Stops its time: connections stay open, and nothing is answered.
    #[track_caller]
    pub fn pause(&self) {
        self.peer.pause();
    }

    /// Lets it go on.
    #[track_caller]
    pub fn resume(&self) {
        self.peer.resume();
    }

    /// Runs its line's `etcdctl` against it and gives its stdout; fails the test if it fails.
    #[track_caller]
    pub fn etcdctl(&self, args: &[&str]) -> String {
        self.try_etcdctl(args).expect(0).out
    }

    /// The same where it may fail.
    #[track_caller]
    pub fn try_etcdctl(&self, args: &[&str]) -> Done {
        let mut command = clean(tool(&tool_name("etcdctl", &self.built.line)));
        // A hash over gigabytes takes longer than its 5 s on a machine that does much else.
        command.arg("--command-timeout=60s").arg("--endpoints").arg(self.endpoint());
        if self.built.line == "3.4" {
            command.env("ETCDCTL_API", "3");
        }
        if let Some(tls) = self.tls() {
            command.arg("--cacert").arg(tls.path("ca.crt"));
            command.arg("--cert").arg(tls.path("client.crt"));
            command.arg("--key").arg(tls.path("client.key"));
        }
        run(command.args(args))
    }

    #[track_caller]
    fn wait(&mut self) {
        let port = self.built.metrics_port;
        self.peer
            .wait(|| get(port, "/health").is_some_and(|said| said.contains(r#""health":"true""#)));
    }
}

/// Several members of one cluster.
#[derive(Debug)]
pub struct Cluster {
    /// `m0`, `m1` and on, unless they were named.
    pub members: Vec<Etcd>,
}

impl Cluster {
    /// `count` members of the newest line, without TLS.
    #[track_caller]
    pub fn start(count: usize) -> Self {
        let names = (0..count).map(|number| format!("m{number}"));
        Self::of(names.map(|name| Etcd::builder().name(&name)).collect())
    }

    /// These members, which have different names.
    #[track_caller]
    pub fn of(members: Vec<Builder>) -> Self {
        let cluster = initial_cluster(&members);
        let spawn = |member| Builder { cluster: Some(cluster.clone()), ..member }.spawn();
        let mut members: Vec<Etcd> = members.into_iter().map(spawn).collect();
        for member in &mut members {
            member.wait();
        }
        Self { members }
    }

    /// All endpoints, joined by commas.
    pub fn endpoints(&self) -> String {
        let endpoints = self.members.iter().map(Etcd::endpoint);
        endpoints.collect::<Vec<_>>().join(",")
    }

    /// The place of the leader; waits until one of the running members leads.
    #[track_caller]
    pub fn leader(&self) -> usize {
        let mut leader = None;
        let led = until(Duration::from_secs(30), || {
            leader = self.members.iter().position(Etcd::leads);
            leader.is_some()
        });
        assert!(led, "no member leads\n{}", self.members[0].log());
        leader.expect("it was found")
    }
}
