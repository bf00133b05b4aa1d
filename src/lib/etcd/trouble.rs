//! What lies at the bottom of a failed connection or call: found in the chain of its causes.

use std::error::Error as StdError;
use std::io;

use rustls::{AlertDescription, CertificateError, InvalidMessage};
use tonic::{Code, Status};

use super::error::{Error, Kind};

/// A failed connection, as an error of ours.
pub fn of_transport(
    operation: &'static str,
    target: &str,
    error: &tonic::transport::Error,
) -> Error {
    let (kind, said) = diagnose(error).unwrap_or((Kind::Lost, deepest(error)));
    Error::new(operation, target, kind).with_source(said)
}

/// A failed call, as an error of ours.
pub fn of_status(operation: &'static str, target: &str, status: &Status) -> Error {
    if let Some((kind, said)) = status.source().and_then(diagnose) {
        return Error::new(operation, target, kind).with_source(said);
    }
    let said = match status.source() {
        Some(source) => deepest(source),
        None => status.message().to_owned(),
    };
    let kind = answered(status, status.source().is_some());
    Error::new(operation, target, kind).with_source(said)
}

/// What a status means that no cause on our side explains; `broken` if there is one all the same.
fn answered(status: &Status, broken: bool) -> Kind {
    // etcd answers InvalidArgument where a user's name is missing (api/v3rpc/rpctypes/error.go).
    let nameless = status.message().contains("user name is empty");
    match status.code() {
        _ if nameless => Kind::Permission,
        Code::PermissionDenied | Code::Unauthenticated => Kind::Permission,
        Code::Unimplemented => Kind::Unknown,
        _ if broken => Kind::Lost,
        Code::Unavailable | Code::ResourceExhausted | Code::DeadlineExceeded => Kind::Unavailable,
        // What a proxy or a stopped member makes of a call that was under way.
        Code::Cancelled | Code::Aborted => Kind::Lost,
        _ => Kind::Answer,
    }
}

/// The first cause that tells anything, and what it says.
fn diagnose(error: &(dyn StdError + 'static)) -> Option<(Kind, String)> {
    let mut next = Some(error);
    while let Some(error) = next {
        let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        // An I/O error hides what it wraps: its source is the source of that.
        let wrapped = inner.map(|inner| inner as &(dyn StdError + 'static));
        let mut both = [Some(error), wrapped].into_iter().flatten();
        if let Some(tls) = both.find_map(|error| error.downcast_ref::<rustls::Error>()) {
            return Some((of_tls(tls), tls.to_string()));
        }
        if let Some(kind) = error.downcast_ref::<io::Error>().and_then(|io| of_io(io.kind())) {
            return Some((kind, deepest(error)));
        }
        let text = error.to_string();
        if let Some(kind) = of_text(&text) {
            return Some((kind, text));
        }
        next = wrapped.or_else(|| error.source());
    }
    None
}

fn of_io(kind: io::ErrorKind) -> Option<Kind> {
    Some(match kind {
        io::ErrorKind::ConnectionRefused => Kind::Refused,
        io::ErrorKind::HostUnreachable
        | io::ErrorKind::NetworkUnreachable
        | io::ErrorKind::AddrNotAvailable => Kind::Unreachable,
        io::ErrorKind::ConnectionReset
        | io::ErrorKind::BrokenPipe
        | io::ErrorKind::ConnectionAborted => Kind::Lost,
        _ => return None,
    })
}

/// The few causes that have no type of their own outside of their crates.
fn of_text(text: &str) -> Option<Kind> {
    let has = |word: &str| text.contains(word);
    // HTTP/2 keeps of an I/O error only its text.
    if let Some((_, alert)) = text.split_once("received fatal alert: ") {
        Some(of_alert_name(alert))
    } else if has("tls handshake eof") {
        Some(Kind::NotTls)
    } else if has("dns error") || has("failed to lookup address") {
        Some(Kind::Name)
    } else if has("frame with invalid size") || has("HTTP/2 was not negotiated") {
        Some(Kind::NotGrpc)
    } else {
        None
    }
}

fn of_alert_name(name: &str) -> Kind {
    let known = [
        AlertDescription::CertificateRequired,
        AlertDescription::CertificateExpired,
        AlertDescription::BadCertificate,
        AlertDescription::UnknownCA,
        AlertDescription::UnsupportedCertificate,
        AlertDescription::CertificateRevoked,
        AlertDescription::CertificateUnknown,
    ];
    let same = |alert: &AlertDescription| name.starts_with(&format!("{alert:?}"));
    known.into_iter().find(same).map_or(Kind::Tls, of_alert)
}

/// What TLS says of a connection, as an error of ours.
pub fn of_verdict(operation: &'static str, target: &str, error: &rustls::Error) -> Error {
    Error::new(operation, target, of_tls(error)).with_source(error.to_string())
}

fn of_tls(error: &rustls::Error) -> Kind {
    match error {
        rustls::Error::InvalidCertificate(certificate) => match certificate {
            CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. } => Kind::ServerExpired,
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                Kind::ServerName
            }
            CertificateError::UnknownIssuer | CertificateError::BadSignature => Kind::Untrusted,
            _ => Kind::Tls,
        },
        rustls::Error::AlertReceived(alert) => of_alert(*alert),
        rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType) => Kind::NotTls,
        _ => Kind::Tls,
    }
}

fn of_alert(alert: AlertDescription) -> Kind {
    match alert {
        AlertDescription::CertificateRequired => Kind::CertificateMissing,
        AlertDescription::CertificateExpired => Kind::CertificateExpired,
        AlertDescription::BadCertificate
        | AlertDescription::UnknownCA
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::CertificateRevoked
        | AlertDescription::CertificateUnknown => Kind::CertificateRejected,
        _ => Kind::Tls,
    }
}

/// The text of the innermost cause.
fn deepest(error: &(dyn StdError + 'static)) -> String {
    let mut error = error;
    loop {
        let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        match inner.map(|inner| inner as &(dyn StdError + 'static)).or_else(|| error.source()) {
            Some(next) => error = next,
            None => return error.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("transport error")]
    struct Outer(#[source] Box<dyn StdError + Send + Sync>);

    fn of(inner: impl Into<Box<dyn StdError + Send + Sync>>) -> Option<Kind> {
        diagnose(&Outer(inner.into())).map(|(kind, _)| kind)
    }

    #[test]
    fn causes_are_found_however_deep_they_lie() {
        let alert = |alert| rustls::Error::AlertReceived(alert);
        let certificate = |error| rustls::Error::InvalidCertificate(error);
        for (error, kind) in [
            (alert(AlertDescription::CertificateRequired), Kind::CertificateMissing),
            (alert(AlertDescription::CertificateExpired), Kind::CertificateExpired),
            (alert(AlertDescription::BadCertificate), Kind::CertificateRejected),
            (alert(AlertDescription::UnknownCA), Kind::CertificateRejected),
            (alert(AlertDescription::InternalError), Kind::Tls),
            (certificate(CertificateError::UnknownIssuer), Kind::Untrusted),
            (certificate(CertificateError::Expired), Kind::ServerExpired),
            (certificate(CertificateError::NotValidForName), Kind::ServerName),
            (certificate(CertificateError::BadEncoding), Kind::Tls),
            (InvalidMessage::InvalidContentType.into(), Kind::NotTls),
        ] {
            assert_eq!(of(error.clone()), Some(kind), "{error:?}");
            let wrapped = io::Error::other(io::Error::new(io::ErrorKind::InvalidData, error));
            assert_eq!(of(wrapped), Some(kind));
        }
        for (text, kind) in [
            ("received fatal alert: CertificateRequired", Kind::CertificateMissing),
            ("received fatal alert: UnknownCA", Kind::CertificateRejected),
            ("received fatal alert: HandshakeFailure", Kind::Tls),
            ("tls handshake eof", Kind::NotTls),
        ] {
            assert_eq!(of(text), Some(kind), "{text}");
        }
        for (io, kind) in [
            (io::ErrorKind::ConnectionRefused, Some(Kind::Refused)),
            (io::ErrorKind::HostUnreachable, Some(Kind::Unreachable)),
            (io::ErrorKind::BrokenPipe, Some(Kind::Lost)),
            (io::ErrorKind::Other, None),
        ] {
            assert_eq!(of(io::Error::from(io)), kind, "{io:?}");
            assert_eq!(of(io::Error::other(io::Error::from(io))), kind, "{io:?}");
        }
    }

    #[test]
    fn answers_of_a_member_are_told_apart() {
        for (code, message, kind) in [
            (Code::InvalidArgument, "etcdserver: user name is empty", Kind::Permission),
            (Code::PermissionDenied, "etcdserver: permission denied", Kind::Permission),
            (Code::Unauthenticated, "etcdserver: invalid auth token", Kind::Permission),
            (Code::Unavailable, "etcdserver: no leader", Kind::Unavailable),
            (Code::Unimplemented, "unknown service", Kind::Unknown),
            (Code::OutOfRange, "etcdserver: mvcc: required revision", Kind::Answer),
        ] {
            let error = of_status("x", "y", &Status::new(code, message));
            assert_eq!(error.kind(), kind, "{message}");
            assert_eq!(error.source().map(ToString::to_string).as_deref(), Some(message));
        }
    }
}
