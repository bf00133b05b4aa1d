//! Tokens: when they are renewed, from where, how often; and that none ever shows.

use super::*;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// A token that expires in so many seconds.
pub(super) fn token(expires_in: f64, mark: &str) -> String {
    let exp = System::new().unix() + expires_in;
    let claims = format!(r#"{{"exp": {exp:.0}, "refresh_token": "r", "mark": "{mark}"}}"#);
    format!("eyJhbGciOiJFUzM4NCJ9.{}.c2ln", URL_SAFE_NO_PAD.encode(claims))
}

pub(super) const REFRESH: &str = "/v1/oauth/jwt/refresh";

/// A portal and its IAM: the IAM answers with `renewed`, the API takes what `accepts` takes.
pub(super) async fn portal(
    renewed: Answer,
    accepts: impl Fn(&str) -> bool + Send + 'static,
) -> Server {
    let address = Arc::new(std::sync::OnceLock::<String>::new());
    let domain = address.clone();
    let server = Server::start(move |asked, _| {
        let bearer = asked.header("authorization").and_then(|text| text.strip_prefix("Bearer "));
        let bearer = bearer.unwrap_or_default();
        match asked.path.as_str() {
            REFRESH => renewed.clone(),
            _ if !accepts(bearer) => json(401, r#"{"message": "token refused"}"#),
            "/api/1/me" => {
                let domain = domain.get().map_or("", String::as_str);
                json(
                    200,
                    &format!(
                        r#"{{"iam_domain": "{domain}",
                    "customers": [{{"customer_id": "acme_1"}}]}}"#
                    ),
                )
            }
            _ => two_images(),
        }
    })
    .await;
    address.set(server.address.to_string()).expect("it is set once");
    server
}

pub(super) fn with_token(server: &Server, token: &str) -> Config {
    let mut config = config(server);
    config.token = TokenSource::Inline(token.into());
    config
}

#[tokio::test]
async fn a_token_is_renewed_before_it_expires_and_only_once() {
    let fresh = token(3600.0, "fresh");
    for reply in [
        fresh.clone(),
        format!("\"{fresh}\""),
        format!(r#"{{"jwt": "{fresh}"}}"#),
        format!(r#"{{"token": "{fresh}"}}"#),
        format!(r#"{{"access_token": "{fresh}"}}"#),
    ] {
        let wanted = fresh.clone();
        let old = token(30.0, "old");
        let server =
            portal(json(200, &reply), move |bearer| bearer == wanted || bearer == old).await;
        let customer = client(with_token(&server, &token(30.0, "old"))).customer().await.unwrap();
        let place = at();
        let calls = (0..10).map(|_| customer.images(&place));
        for outcome in futures_util::future::join_all(calls).await {
            outcome.unwrap();
        }
        assert_eq!(server.count(REFRESH), 1, "{reply}");
        assert_eq!(server.count("/api/1/me"), 1, "the IAM's address is asked for once");
        let bearers: Vec<_> = server
            .asked()
            .iter()
            .filter(|asked| asked.path.ends_with("vm-images"))
            .map(|asked| asked.header("authorization").unwrap().to_owned())
            .collect();
        assert!(bearers.iter().all(|bearer| *bearer == format!("Bearer {fresh}")), "{bearers:?}");
    }
}

#[tokio::test]
async fn a_configured_address_is_used_even_when_the_token_has_expired() {
    let fresh = token(3600.0, "fresh");
    let wanted = fresh.clone();
    let server = portal(json(200, &fresh), move |bearer| bearer == wanted).await;
    let mut config = with_token(&server, &token(-100.0, "old"));
    config.iam_refresh = Some(format!("{}{REFRESH}", server.url()));
    let customer = client(config).customer().await.unwrap();
    customer.images(&at()).await.unwrap();
    assert_eq!((server.count(REFRESH), server.count("/api/1/me")), (1, 0));
}

#[tokio::test]
async fn an_expired_token_that_cannot_be_renewed_is_explained() {
    for (renewal, configured) in
        [(json(403, ""), true), (json(200, "{}"), true), (json(200, ""), false)]
    {
        let server = portal(renewal, |_| false).await;
        let mut config = with_token(&server, &token(-100.0, "old"));
        if configured {
            config.iam_refresh = Some(format!("{}{REFRESH}", server.url()));
        }
        let error = client(config).customer().await.unwrap().images(&at()).await.unwrap_err();
        assert_eq!((error.kind(), error.class()), (Kind::Token, Class::Auth));
        assert!(error.to_string().contains("expired 10"), "{error}");
        assert!(error.hints().iter().any(|hint| hint.contains("COPY JWT")));
        assert_eq!(server.count("/api/1/customers/acme_1/locations/be-1/vm-images"), 0);
        assert!(std::error::Error::source(&error).is_some());
    }
}

#[tokio::test]
async fn a_renewal_that_fails_is_no_harm_while_the_token_holds() {
    let server = portal(json(403, ""), |_| true).await;
    let customer = client(with_token(&server, &token(40.0, "old"))).customer().await.unwrap();
    for _ in 0..3 {
        customer.images(&at()).await.unwrap();
    }
    assert!(server.count(REFRESH) <= 2, "not with every call");
}

#[tokio::test]
async fn a_refused_token_is_renewed_once_and_then_final() {
    let fresh = token(3600.0, "fresh");
    let wanted = fresh.clone();
    let server = portal(json(200, &fresh), move |bearer| bearer == wanted).await;
    let mut config = with_token(&server, "opaque-token");
    config.iam_refresh = Some(format!("{}{REFRESH}", server.url()));
    client(config).customer().await.unwrap().images(&at()).await.unwrap();

    let server = portal(json(200, &fresh), |_| false).await;
    let mut config = with_token(&server, "opaque-token");
    config.iam_refresh = Some(format!("{}{REFRESH}", server.url()));
    let error = client(config).customer().await.unwrap().images(&at()).await.unwrap_err();
    assert_eq!((error.status(), error.class()), (Some(401), Class::Auth));
    assert_eq!((server.count(REFRESH), server.asked().len()), (1, 3));
    // What is known is the renewed token, a JWT that holds.
    assert!(error.hints()[0].contains("from VCO_TOKEN or stdin: it is not expired"), "{error:?}");
}

#[tokio::test]
async fn a_refused_token_that_is_no_jwt_is_said_to_be_none() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "abc").unwrap();
    let server = portal(json(403, ""), |_| false).await;
    for (source, from) in [
        (TokenSource::Inline("abc".into()), "VCO_TOKEN or stdin".to_owned()),
        (TokenSource::File(file.path().to_owned()), file.path().display().to_string()),
    ] {
        let mut config = config(&server);
        config.token = source;
        let error = client(config).customer().await.unwrap().images(&at()).await.unwrap_err();
        assert_eq!(error.status(), Some(401));
        let hint = format!("refuses the token from {from}: it is no JWT");
        assert!(error.hints()[0].contains(&hint), "{:?}", error.hints());
    }
}

#[tokio::test]
async fn a_customer_of_others_is_told_from_ones_own() {
    let body = r#"{"customers": [{"customer_id": "acme_1"}, {"customer_id": "beta_1"}]}"#;
    for (asked, status, words) in [
        ("nobody", 404, "does not belong to customer nobody but to acme_1, beta_1"),
        ("nobody", 403, "does not belong to customer nobody but to acme_1, beta_1"),
        ("acme_1", 403, "The token is known but may not do this"),
    ] {
        let server = Server::start(move |asked, _| match asked.path.as_str() {
            "/api/1/me" => json(200, body),
            _ => json(status, "{}"),
        })
        .await;
        let mut config = config(&server);
        config.customer = asked.parse().ok();
        let error = client(config).customer().await.unwrap().locations().await.unwrap_err();
        assert_eq!(error.status(), Some(status));
        assert!(error.hints()[0].contains(words), "{asked}: {:?}", error.hints());
    }
}

#[tokio::test]
async fn a_create_that_was_refused_for_its_token_happens_once_with_the_new_one() {
    let fresh = token(3600.0, "fresh");
    let wanted = fresh.clone();
    let server = portal(json(200, &fresh), move |bearer| bearer == wanted).await;
    let mut config = with_token(&server, "opaque-token");
    config.iam_refresh = Some(format!("{}{REFRESH}", server.url()));
    let customer = client(config).customer().await.unwrap();
    customer.create_image(&at(), &spec(), "https://h/x").await.unwrap();
    assert_eq!(server.count("/api/1/customers/acme_1/locations/be-1/vm-images"), 2);
}

#[tokio::test]
async fn a_file_that_was_renewed_by_somebody_else_is_read_again() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let (old, fresh) = (token(3600.0, "old"), token(3600.0, "fresh"));
    std::fs::write(file.path(), &old).unwrap();
    let wanted = fresh.clone();
    let server = portal(json(500, ""), move |bearer| bearer == wanted).await;
    let mut config = config(&server);
    config.token = TokenSource::File(file.path().to_owned());
    let customer = client(config).customer().await.unwrap();
    let error = customer.images(&at()).await.unwrap_err();
    assert_eq!(error.status(), Some(401));
    std::fs::write(file.path(), format!("{fresh}\n")).unwrap();
    customer.images(&at()).await.unwrap();
}

#[tokio::test]
async fn a_missing_or_empty_token_is_said() {
    let server = saying(vec![two_images()]).await;
    let empty = tempfile::NamedTempFile::new().unwrap();
    for (source, words) in [
        (TokenSource::Inline("  ".into()), "it is empty or no token"),
        (TokenSource::File("/nowhere/token".into()), "/nowhere/token"),
        (TokenSource::File(empty.path().to_owned()), "holds no token"),
    ] {
        let mut config = config(&server);
        config.token = source;
        let error = client(config).customer().await.unwrap().images(&at()).await.unwrap_err();
        assert_eq!(error.class(), Class::Auth);
        assert!(error.to_string().contains(words), "{error}");
    }
    assert_eq!(server.asked().len(), 0);
}

#[tokio::test]
async fn a_customer_is_discovered() {
    let server = portal(json(200, ""), |_| true).await;
    let mut config = with_token(&server, "opaque-token");
    config.customer = None;
    let client = client(config);
    assert_eq!(client.customer().await.unwrap().id().as_str(), "acme_1");
    assert_eq!(client.portal(), server.url());
}

#[tokio::test]
async fn a_token_never_shows() {
    let secret = token(3600.0, "hunter2");
    let body = format!(r#"{{"message": "bad token {secret}", "jwt": "{secret}"}}"#);
    for reply in [json(400, &body), json(200, &body[..body.len() - 3]), json(500, &secret)] {
        let server = saying(vec![reply]).await;
        let config = with_token(&server, &secret);
        let shown = format!("{config:?}");
        let client = client(config);
        let customer = client.customer().await.unwrap();
        let error = customer.images(&at()).await.unwrap_err();
        let shown = format!("{shown} {client:?} {customer:?} {error:?} {}", chain(&error));
        let part = secret.split('.').nth(1).unwrap();
        assert!(!shown.contains(part), "{shown}");
    }
}
