//! What a manager is told: of every exchange, and of its token; and who shares limits.

use super::auth::{REFRESH, portal, token, with_token};
use super::*;

use std::sync::Mutex;

use capvco::vco::{Limiters, Outcome, Watch};
use secrecy::ExposeSecret as _;

#[derive(Debug, Default)]
struct Heard(Mutex<Vec<(&'static str, String, Duration, Duration)>>);

impl Watch for Heard {
    fn called(&self, operation: &'static str, outcome: Outcome, took: Duration, waited: Duration) {
        self.0.lock().unwrap().push((operation, outcome.to_string(), took, waited));
    }
}

impl Heard {
    fn outcomes(&self) -> Vec<(&'static str, String)> {
        self.0.lock().unwrap().iter().map(|(op, outcome, ..)| (*op, outcome.clone())).collect()
    }
}

#[tokio::test]
async fn every_exchange_is_told_with_what_came_of_it() {
    let script = vec![json(503, "{}"), Answer::Reset, json(429, ""), two_images()];
    let server = saying(script).await;
    let heard = Arc::new(Heard::default());
    let mut config = config(&server);
    config.watch = Some(heard.clone());
    let customer = client(config).customer().await.unwrap();
    customer.images(&at()).await.unwrap();
    let told = ["503", "lost", "429", "200"].map(|outcome| ("list images", outcome.to_owned()));
    assert_eq!(heard.outcomes(), told);
    for _ in 0..20 {
        customer.images(&at()).await.unwrap();
    }
    let waited = heard.0.lock().unwrap().iter().map(|(.., waited)| *waited).max();
    assert!(waited > Some(Duration::from_secs(1)), "our own limit made it wait: {waited:?}");
}

#[tokio::test]
async fn a_renewed_token_is_told_and_never_shown() {
    let fresh = token(3600.0, "fresh");
    let wanted = fresh.clone();
    let server = portal(json(200, &fresh), move |bearer| bearer == wanted).await;
    let heard = Arc::new(Heard::default());
    let mut config = with_token(&server, &token(-100.0, "old"));
    config.iam_refresh = Some(format!("{}{REFRESH}", server.url()));
    config.watch = Some(heard.clone());
    let client = client(config);
    let mut changes = client.token_changes();
    let late = client.token_expiry().unwrap();
    assert!(late < System::new().unix(), "it is known before the first call");
    assert!(changes.borrow_and_update().is_none());
    client.me().await.unwrap();
    assert!(changes.has_changed().unwrap());
    let told = changes.borrow_and_update().clone().unwrap();
    assert_eq!(told.expose_secret(), fresh);
    assert!(!format!("{told:?} {changes:?} {client:?}").contains(&fresh));
    assert!(client.token_expiry().unwrap() > System::new().unix() + 3000.0);
    let outcomes = heard.outcomes();
    let renewals = outcomes.iter().filter(|(operation, _)| *operation == "renew the token");
    assert_eq!(renewals.count(), 1, "{outcomes:?}");
    client.me().await.unwrap();
    assert!(!changes.has_changed().unwrap(), "nothing new, nothing told");
}

#[tokio::test]
async fn a_token_of_a_file_is_nobodys_news() {
    let fresh = token(3600.0, "fresh");
    let wanted = fresh.clone();
    let server = portal(json(403, ""), move |bearer| bearer == wanted).await;
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), token(30.0, "old")).unwrap();
    let mut config = config(&server);
    config.token = TokenSource::File(file.path().to_owned());
    let client = client(config);
    let soon = client.token_expiry().unwrap();
    std::fs::write(file.path(), &fresh).unwrap();
    client.me().await.unwrap();
    assert!(client.token_changes().borrow().is_none(), "whoever wrote it knows it");
    assert!(client.token_expiry().unwrap() > soon);
}

/// How long two clients of these tokens take for fifteen calls each, on the clock's own time.
async fn together(tokens: [&str; 2], shared: bool) -> Duration {
    let server = saying(vec![two_images()]).await;
    let clock = Arc::new(Hurried(System::new()));
    let limiters = Limiters::default();
    let mut customers = Vec::new();
    for token in tokens {
        let mut config = with_token(&server, token);
        config.limiters = shared.then(|| limiters.clone());
        let client = Client::new(config, clock.clone()).unwrap();
        customers.push(client.customer().await.unwrap());
    }
    let place = at();
    let begun = clock.elapsed();
    let calls = (0..30).map(|number| customers[number % 2].images(&place));
    for outcome in futures_util::future::join_all(calls).await {
        outcome.unwrap();
    }
    clock.elapsed().saturating_sub(begun)
}

#[tokio::test]
async fn clients_of_one_credential_share_its_limits_and_others_do_not() {
    let (one, other) = (token(3600.0, "one"), token(3600.0, "other"));
    let window = Duration::from_secs(5);
    let took = together([&one, &one], true).await;
    assert!(took >= window, "30 calls of one user in {took:?}");
    let took = together([&one, &other], true).await;
    assert!(took < window, "15 calls each of two users in {took:?}");
    let took = together([&one, &one], false).await;
    assert!(took < window, "who is not told to share does not: {took:?}");
}
