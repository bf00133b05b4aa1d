//! A portal with a certificate of its own.

use super::*;
use std::io::Write as _;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

/// Serves one list of images over TLS to whoever trusts its certificate; the port, and the
/// certificate in a file.
async fn secured() -> (u16, tempfile::NamedTempFile) {
    let own = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()])
        .expect("a certificate can be made");
    let mut file = tempfile::NamedTempFile::new().expect("a file can be made");
    file.write_all(own.cert.pem().as_bytes()).expect("it can be written");
    let key = PrivateKeyDer::Pkcs8(own.signing_key.serialize_der().into());
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| {
            builder.with_no_client_auth().with_single_cert(vec![own.cert.der().clone()], key)
        })
        .expect("the certificate is usable");
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let port = listener.local_addr().expect("it is bound").port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let mut asked = [0; 4096];
            let _ = stream.read(&mut asked).await;
            let body = r#"{"result": [{"image_id": 7}]}"#;
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
            let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
        }
    });
    (port, file)
}

#[tokio::test]
async fn a_port_without_tls_is_told_from_a_bad_certificate() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let portal = format!("https://{}", listener.local_addr().expect("it is bound"));
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            // Whatever it is told: a TLS greeting is no request.
            let _ = stream.read(&mut [0; 4096]).await;
            let _ =
                stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n").await;
        }
    });
    let error = client(Config::new(portal.clone(), TokenSource::Inline("x".into())))
        .me()
        .await
        .unwrap_err();
    assert_eq!((error.kind(), error.tries()), (Kind::Tls, 1), "{}", chain(&error));
    let said = format!("no secure connection to {portal}: this port seems to speak plain http");
    assert!(error.to_string().ends_with(&said), "{error}");
    assert!(error.hints()[0].contains("scheme and port"), "{:?}", error.hints());
}

#[tokio::test]
async fn a_certificate_is_trusted_only_when_it_is_given() {
    let (port, file) = secured().await;
    for ca_file in [None, Some(file.path().to_owned())] {
        let portal = format!("https://127.0.0.1:{port}");
        let mut config = Config::new(portal, TokenSource::Inline("x".into()));
        config.customer = "acme_1".parse().ok();
        config.ca_file.clone_from(&ca_file);
        let images = client(config).customer().await.unwrap().images(&at()).await;
        if ca_file.is_some() {
            assert_eq!(images.unwrap().len(), 1);
            continue;
        }
        let error = images.unwrap_err();
        assert_eq!((error.kind(), error.class()), (Kind::Tls, Class::Refused), "{}", chain(&error));
        assert_eq!(error.tries(), 1, "a certificate does not get better");
        assert!(error.hints()[0].contains("--ca-file"), "{:?}", error.hints());
        assert!(chain(&error).contains("invalid peer certificate"), "{}", chain(&error));
    }
}
