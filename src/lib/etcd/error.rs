//! What can go wrong with a member, told apart as far as the next step differs.

use std::time::Duration;

use super::receive::Malformed;
use crate::fault::{Class, Fault};

/// What went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// An endpoint, or a file of certificates, is not what it should be; nothing was sent.
    Setting,
    /// Nothing listens there.
    Refused,
    /// The host's name does not resolve.
    Name,
    /// The host cannot be reached.
    Unreachable,
    /// No connection in this time.
    Slow(Duration),
    /// The server's certificate comes from an authority that we were not told to trust.
    Untrusted,
    /// The server's certificate has expired, or is not valid yet.
    ServerExpired,
    /// The server's certificate is for other names.
    ServerName,
    /// The server wants a client certificate and got none.
    CertificateMissing,
    /// The server does not accept our client certificate.
    CertificateRejected,
    /// Our client certificate has expired.
    CertificateExpired,
    /// Another failure of TLS.
    Tls,
    /// We speak TLS and the server does not.
    NotTls,
    /// The server speaks TLS and we do not, or it is no gRPC server.
    NotGrpc,
    /// The member has users, and this client may not do this.
    Permission,
    /// The member is part of a cluster without a leader, or is starting or stopping.
    Unavailable,
    /// The connection broke.
    Lost,
    /// No answer in this time.
    NoAnswer(Duration),
    /// A snapshot of which no byte came in this time.
    Stalled(Duration),
    /// A snapshot that breaks the protocol's rules.
    Malformed(Malformed),
    /// The member does not know the call.
    Unknown,
    /// The member answered with another error.
    Answer,
}

/// A failed call of a member.
///
/// `Display` is one sentence with operation and endpoint; its source, where there is one, is what
/// the network, TLS or the member said.
#[derive(Debug, thiserror::Error)]
#[error("cannot {operation} ({target}): {}", self.sentence())]
pub struct Error {
    operation: &'static str,
    target: String,
    kind: Kind,
    message: Option<String>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    pub(super) fn new(operation: &'static str, target: impl Into<String>, kind: Kind) -> Self {
        Self { operation, target: target.into(), kind, message: None, source: None }
    }

    pub(super) fn with_message(mut self, message: impl Into<String>) -> Self {
        self.message = Some(message.into());
        self
    }

    pub(super) fn with_source(
        mut self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        self.source = Some(source.into());
        self
    }

    pub(super) fn with_kind(mut self, kind: Kind) -> Self {
        self.kind = kind;
        self
    }

    /// What went wrong.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    fn sentence(&self) -> String {
        let seconds = |time: Duration| format!("{} s", time.as_secs_f64());
        let text = match self.kind {
            Kind::Setting => "the setting cannot be used".to_owned(),
            Kind::Refused => "nothing listens there".to_owned(),
            Kind::Name => "the host's name cannot be resolved".to_owned(),
            Kind::Unreachable => "the host cannot be reached".to_owned(),
            Kind::Slow(time) => format!("no connection within {}", seconds(time)),
            Kind::Untrusted => {
                "its certificate comes from an authority that is not trusted here".to_owned()
            }
            Kind::ServerExpired => "its certificate is expired, or not valid yet".to_owned(),
            Kind::ServerName => "its certificate is not for this name or address".to_owned(),
            Kind::CertificateMissing => "it wants a client certificate".to_owned(),
            Kind::CertificateRejected => "it does not accept the client certificate".to_owned(),
            Kind::CertificateExpired => "the client certificate has expired".to_owned(),
            Kind::Tls => "no secure connection".to_owned(),
            Kind::NotTls => "no TLS is spoken there".to_owned(),
            Kind::NotGrpc => "it speaks TLS only, or is no etcd".to_owned(),
            Kind::Permission => "permission denied".to_owned(),
            Kind::Unavailable => "the member cannot serve now".to_owned(),
            Kind::Lost => "the connection broke".to_owned(),
            Kind::NoAnswer(time) => format!("no answer within {}", seconds(time)),
            Kind::Stalled(time) => format!("no byte came for {}", seconds(time)),
            Kind::Malformed(malformed) => format!("the stream is not to be used: {malformed}"),
            Kind::Unknown => "the member does not know this call".to_owned(),
            Kind::Answer => "the member answered with an error".to_owned(),
        };
        match (&self.message, self.kind) {
            (Some(message), Kind::Setting) => message.clone(),
            (Some(message), _) => format!("{text}: {message}"),
            (None, _) => text,
        }
    }
}

impl Fault for Error {
    fn class(&self) -> Class {
        match self.kind {
            Kind::Setting => Class::Usage,
            Kind::Untrusted
            | Kind::ServerExpired
            | Kind::ServerName
            | Kind::CertificateMissing
            | Kind::CertificateRejected
            | Kind::CertificateExpired
            | Kind::Permission => Class::Auth,
            Kind::NotTls | Kind::NotGrpc | Kind::Unknown | Kind::Answer => Class::Invalid,
            // Damage of one member is no reason to give up: another member has the same data.
            Kind::Malformed(_)
            | Kind::Refused
            | Kind::Name
            | Kind::Unreachable
            | Kind::Slow(_)
            | Kind::Tls
            | Kind::Unavailable
            | Kind::Lost
            | Kind::NoAnswer(_)
            | Kind::Stalled(_) => Class::Transient,
        }
    }

    fn hints(&self) -> Vec<String> {
        let hint = match self.kind {
            Kind::Refused => {
                "is etcd running there? kubeadm's members listen on https://127.0.0.1:2379 and on \
                 the node's own address (--endpoints)"
            }
            Kind::Name => "look at --endpoints, or at this machine's resolver",
            Kind::Unreachable | Kind::Slow(_) => {
                "look at --endpoints, at firewalls, and whether the member hangs"
            }
            Kind::Untrusted => {
                "give the authority that signed etcd's certificates with --cacert; kubeadm keeps it \
                 at /etc/kubernetes/pki/etcd/ca.crt"
            }
            Kind::ServerExpired => {
                "renew it (kubeadm certs renew etcd-server) and restart etcd; if it is valid, this \
                 machine's clock is wrong"
            }
            Kind::ServerName => {
                "use one of the names or addresses that the certificate holds; kubeadm's hold \
                 127.0.0.1 and the node's own name and address"
            }
            Kind::CertificateMissing => {
                "give a client certificate with --cert and --key; on kubeadm nodes \
                 /etc/kubernetes/pki/etcd/healthcheck-client.crt and .key"
            }
            Kind::CertificateRejected => {
                "it has to be signed by the authority that the member trusts \
                 (--trusted-ca-file) and be fit for client authentication"
            }
            Kind::CertificateExpired => {
                "renew it: kubeadm certs renew etcd-healthcheck-client; if it is valid, the clock \
                 of one of the machines is wrong"
            }
            Kind::Tls => "look at --cacert, --cert and --key, and at what listens there",
            Kind::NotTls => "use http:// in --endpoints if the member really speaks no TLS",
            Kind::NotGrpc => "use https:// in --endpoints, and etcd's client port (2379)",
            Kind::Permission => {
                "etcd's authentication is on: a snapshot needs a client certificate whose common \
                 name is a user with the role root"
            }
            Kind::Unavailable => "wait for the cluster to have a leader, or use another member",
            Kind::Lost => "look at the member's log; the same command may work later",
            Kind::NoAnswer(_) | Kind::Stalled(_) => {
                "the member hangs, or its disk does: look at its log, or use another member"
            }
            Kind::Malformed(_) => {
                "use another member, and look at this one's log and disk: its database may be damaged"
            }
            Kind::Unknown => "etcd 3.4 and later are supported",
            Kind::Setting | Kind::Answer => return Vec::new(),
        };
        vec![hint.to_owned()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_one_sentence_and_does_not_repeat_its_source() {
        let error = Error::new("read the status", "https://10.0.0.1:2379", Kind::Refused)
            .with_source("connection refused");
        assert_eq!(
            error.to_string(),
            "cannot read the status (https://10.0.0.1:2379): nothing listens there"
        );
        let error = Error::new("connect", "x", Kind::Setting).with_message("it holds a blank");
        assert_eq!(error.to_string(), "cannot connect (x): it holds a blank");
        let stalled = Kind::Stalled(Duration::from_secs(30));
        assert_eq!(
            Error::new("take a snapshot", "x", stalled).to_string(),
            "cannot take a snapshot (x): no byte came for 30 s"
        );
        let early = Kind::Malformed(Malformed::Early { left: 7 });
        assert_eq!(
            Error::new("take a snapshot", "x", early).to_string(),
            "cannot take a snapshot (x): the stream is not to be used: it ended early, with 7 \
             bytes to go"
        );
    }

    #[test]
    fn what_may_pass_by_itself_is_told_from_what_may_not() {
        for (kind, class) in [
            (Kind::Setting, Class::Usage),
            (Kind::Refused, Class::Transient),
            (Kind::Untrusted, Class::Auth),
            (Kind::CertificateExpired, Class::Auth),
            (Kind::Permission, Class::Auth),
            (Kind::NotGrpc, Class::Invalid),
            (Kind::Malformed(Malformed::Digest), Class::Transient),
            (Kind::Stalled(Duration::ZERO), Class::Transient),
            (Kind::Unavailable, Class::Transient),
        ] {
            let error = Error::new("x", "y", kind);
            assert_eq!(error.class(), class, "{kind:?}");
            assert_eq!(error.hints().is_empty(), kind == Kind::Setting, "{kind:?}");
        }
    }
}
