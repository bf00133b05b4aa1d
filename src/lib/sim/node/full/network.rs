//! A network for the machines of a cloudspace: a name space each, joined by a bridge in one more.
//!
//! A name space lives as long as a process that waits on a pipe of ours, so nothing of it is left
//! behind, however we end. A socket belongs to the name space in which it was made: a thread goes
//! there, makes it and ends, and whoever uses the socket need not go anywhere.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tokio::net::{TcpSocket, TcpStream};

use super::super::super::network::range::Range;
use super::super::process::find;

/// What the process that keeps a name space runs: it says that all is set, and waits for our end.
const KEEP: &str = r#"ip link set lo up && hostname "$1" && echo set && exec cat"#;

/// The networks of all cloudspaces that have a machine which runs.
#[derive(Debug, Default)]
pub(in super::super) struct Networks {
    spaces: Mutex<BTreeMap<String, Weak<Switch>>>,
}

/// A name space for a machine or a bridge.
#[derive(Debug)]
struct Space {
    keeper: Child,
    net: File,
}

/// The bridge of a cloudspace, with the gateway's address.
#[derive(Debug)]
pub(super) struct Switch {
    space: Space,
    range: Range,
}

/// A machine's own network, with a wire to the bridge.
#[derive(Debug)]
pub(super) struct Wired {
    space: Space,
    switch: Arc<Switch>,
    address: IpAddr,
}

impl Networks {
    /// Makes sure that name spaces may be made here. The text of an error says what it takes.
    pub(in super::super) fn new() -> Result<Self, String> {
        for program in ["unshare", "nsenter", "ip"] {
            find(&[PathBuf::from(program)])
                .ok_or_else(|| format!("there is no {program} here, of util-linux or iproute2"))?;
        }
        let tried = Space::make("probe").and_then(|space| space.socket().map(drop));
        tried.map_err(|error| {
            format!(
                "a network for each takes name spaces, and none can be made here ({error}): be \
                 root, or begin with `unshare --user --map-root-user --net sh`, then `ip link set \
                 lo up`, and run this and kubectl in there"
            )
        })?;
        Ok(Self::default())
    }

    /// Puts a machine on its cloudspace's network.
    pub(super) fn plug(
        &self,
        cloudspace_id: &str,
        range: Range,
        name: &str,
        address: IpAddr,
    ) -> io::Result<Wired> {
        let switch = {
            let mut spaces = self.spaces.lock().unwrap_or_else(PoisonError::into_inner);
            let there = spaces.get(cloudspace_id).and_then(Weak::upgrade);
            let switch = there.map_or_else(|| Switch::make(range).map(Arc::new), Ok)?;
            spaces.retain(|_, switch| switch.strong_count() > 0);
            spaces.insert(cloudspace_id.to_owned(), Arc::downgrade(&switch));
            switch
        };
        let space = Space::make(name)?;
        // The name of the bridge's end of the wire: at most 15 letters, and unique there.
        let port = format!("to{}", space.keeper.id());
        let (bits, gateway) = (switch.range.bits(), switch.range.gateway());
        let bridge = switch.space.keeper.id();
        space.ip(&format!(
            "link add eth0 type veth peer name {port} netns {bridge}\n\
             addr add {address}/{bits} dev eth0\nlink set eth0 up\nroute add default via {gateway}\n"
        ))?;
        switch.space.ip(&format!("link set {port} master br0 up\n"))?;
        Ok(Wired { space, switch, address })
    }
}

impl Switch {
    fn make(range: Range) -> io::Result<Self> {
        let space = Space::make("gateway")?;
        let (gateway, bits) = (range.gateway(), range.bits());
        space.ip(&format!(
            "link add br0 type bridge forward_delay 0 stp_state 0\n\
             addr add {gateway}/{bits} dev br0\nlink set br0 up\n"
        ))?;
        Ok(Self { space, range })
    }
}

impl Wired {
    /// A program and its arguments, to be run as this machine.
    pub(super) fn inside(&self, program: &str) -> (PathBuf, Vec<String>) {
        let keeper = self.space.keeper.id().to_string();
        let args = ["--target", &keeper, "--net", "--uts", "--", program];
        (PathBuf::from("nsenter"), args.map(str::to_owned).to_vec())
    }

    /// A listener on an address of this machine; one that it lacks, it gets.
    pub(super) fn listen(&self, at: SocketAddr) -> io::Result<tokio::net::TcpListener> {
        let given = at.ip().is_loopback() || at.ip().is_unspecified() || at.ip() == self.address;
        if !given {
            self.space.ip(&format!("addr replace {} dev lo\n", at.ip()))?;
        }
        let listener = self.space.visit(|| {
            let listener = TcpListener::bind(at)?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        })?;
        tokio::net::TcpListener::from_std(listener)
    }

    /// A connection to a port of this machine, from inside of it.
    pub(super) async fn dial_itself(&self, port: u16) -> io::Result<TcpStream> {
        let to = SocketAddr::from((std::net::Ipv4Addr::LOCALHOST, port));
        self.space.socket()?.connect(to).await
    }

    /// A connection to a port of this machine, from the cloudspace's gateway.
    pub(super) async fn dial(&self, port: u16) -> io::Result<TcpStream> {
        self.switch.space.socket()?.connect(SocketAddr::new(self.address, port)).await
    }

    /// What `/proc/net/route` says in here.
    pub(super) fn routes(&self) -> io::Result<Vec<u8>> {
        let keeper = self.space.keeper.id();
        std::fs::read(format!("/proc/{keeper}/net/route"))
    }
}

impl Space {
    fn make(name: &str) -> io::Result<Self> {
        let mut command = Command::new("unshare");
        command.args(["--net", "--uts", "--", "sh", "-c", KEEP, "sh", name]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut keeper = command.process_group(0).spawn()?;
        let mut said = String::new();
        if let Some(stdout) = keeper.stdout.take() {
            BufReader::new(stdout).read_line(&mut said)?;
        }
        if said.trim_end() != "set" {
            return Err(failure(&keeper.wait_with_output()?));
        }
        let net = File::open(format!("/proc/{}/ns/net", keeper.id()))?;
        Ok(Self { keeper, net })
    }

    /// Has `ip` carry out lines of its language in here.
    fn ip(&self, lines: &str) -> io::Result<()> {
        let keeper = self.keeper.id().to_string();
        let mut command = Command::new("nsenter");
        command.args(["--target", &keeper, "--net", "--", "ip", "-batch", "-"]);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut running = command.spawn()?;
        if let Some(mut stdin) = running.stdin.take() {
            stdin.write_all(lines.as_bytes())?;
        }
        let output = running.wait_with_output()?;
        if output.status.success() { Ok(()) } else { Err(failure(&output)) }
    }

    fn socket(&self) -> io::Result<TcpSocket> {
        self.visit(TcpSocket::new_v4)
    }

    /// Does something in a thread that is in here.
    fn visit<T: Send>(&self, does: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        let in_here = || {
            move_into_link_name_space(self.net.as_fd(), Some(LinkNameSpaceType::Network))?;
            does()
        };
        let gone = || io::Error::other("the thread that went there did not come back");
        std::thread::scope(|scope| scope.spawn(in_here).join().unwrap_or_else(|_| Err(gone())))
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.keeper.kill();
        let _ = self.keeper.wait();
    }
}

fn failure(output: &Output) -> io::Error {
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.trim();
    io::Error::other(if said.is_empty() { output.status.to_string() } else { said.to_owned() })
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    fn range() -> Range {
        Range::parse("192.168.103.0/24").unwrap()
    }

    #[tokio::test]
    async fn machines_of_one_cloudspace_meet_and_those_of_two_do_not() {
        let networks = Networks::new().unwrap();
        let plug = |space: &str, ip: &str| {
            networks.plug(space, range(), "host", ip.parse().unwrap()).unwrap()
        };
        let (a, b) = (plug("one", "192.168.103.2"), plug("one", "192.168.103.3"));
        // The same address in another cloudspace.
        let c = plug("two", "192.168.103.2");
        let listener = a.listen("0.0.0.0:6443".parse().unwrap()).unwrap();
        let other = c.listen("0.0.0.0:6443".parse().unwrap()).unwrap();
        let to_a = "192.168.103.2:6443".parse().unwrap();
        let mut from_b = b.space.socket().unwrap().connect(to_a).await.unwrap();
        let (mut at_a, peer) = listener.accept().await.unwrap();
        assert_eq!(peer.ip().to_string(), "192.168.103.3");
        from_b.write_all(b"hello").await.unwrap();
        let mut heard = [0; 5];
        at_a.read_exact(&mut heard).await.unwrap();
        assert_eq!(&heard, b"hello");
        drop(c.dial(6443).await.unwrap());
        assert_eq!(other.accept().await.unwrap().1.ip().to_string(), "192.168.103.1");
        assert!(b.dial(6443).await.is_err(), "nobody listens there");
        assert!(a.routes().unwrap().starts_with(b"Iface"));
    }

    #[tokio::test]
    async fn an_address_of_the_cloud_is_given_to_the_machine_that_has_to_reach_it() {
        let networks = Networks::new().unwrap();
        let host = networks.plug("x", range(), "h", "192.168.103.9".parse().unwrap()).unwrap();
        let listener = host.listen("203.0.113.7:6443".parse().unwrap()).unwrap();
        let to = "203.0.113.7:6443".parse().unwrap();
        host.space.socket().unwrap().connect(to).await.unwrap();
        listener.accept().await.unwrap();
    }
}
