//! What `-v` and `-vv` show, and what they never do.

use super::*;
use std::sync::{Mutex, PoisonError};

use tracing::Level;
use tracing::instrument::WithSubscriber as _;

/// Collects what a subscriber writes.
#[derive(Clone, Default)]
struct Paper(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Paper {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// What is logged up to this level while an image is created, at the second try.
async fn logged(level: Level) -> String {
    let reply = r#"{"image_id": 7, "password": "hunter2", "name": "seen"}"#;
    let server = saying(vec![json(429, ""), json(200, reply)]).await;
    let mut config = config(&server);
    config.token = TokenSource::Inline("eyJhbGciOiJFUzM4NCJ9.hunter2.c2ln".into());
    let customer = client(config).customer().await.expect("it is configured");
    let paper = Paper::default();
    let writer = paper.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    let place = at();
    let new = spec();
    async {
        let url = "https://hunter2:hunter2@h/k8s.qcow2?signature=hunter2";
        customer.create_image(&place, &new, url).await.map(|_| ())
    }
    .with_subscriber(subscriber)
    .await
    .expect("the second try succeeds");
    let text = paper.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let text = String::from_utf8(text).expect("it is text");
    let ours: Vec<_> = text.lines().filter(|line| line.contains("capvco::vco")).collect();
    ours.join("\n")
}

// One test for both levels: two subscribers at once would fight over which callsites are on.
#[tokio::test]
async fn a_line_a_call_and_then_bodies_without_secrets() {
    let calm = logged(Level::DEBUG).await;
    assert_eq!(calm.lines().count(), 1, "{calm}");
    let path = "path=/api/1/customers/acme_1/locations/be-1/vm-images";
    for word in ["method=\"POST\"", path, "status=200", "tries=2", "ms="] {
        assert!(calm.contains(word), "{word}: {calm}");
    }
    let chatty = logged(Level::TRACE).await;
    for word in ["name=k8s", "url=https://h/k8s.qcow2?***", "seen", "request", "reply"] {
        assert!(chatty.contains(word), "{word}: {chatty}");
    }
    assert!(!format!("{calm}{chatty}").contains("hunter2"), "{chatty}");
}
