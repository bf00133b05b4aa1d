//! What `-v` and `-vv` show, and what they never do.

use super::*;
use std::cell::RefCell;
use std::sync::Once;

thread_local! {
    /// What was logged on this thread: a test and its client share one.
    static PAPER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Writes on the thread's own paper.
struct Pen;

impl std::io::Write for Pen {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        PAPER.with_borrow_mut(|paper| paper.extend_from_slice(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Listens to everything. One subscriber for the whole process: one a test would fight with
/// other tests over which callsites are switched on.
fn listen() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::TRACE)
            .with_ansi(false)
            .with_writer(|| Pen)
            .finish();
        tracing::subscriber::set_global_default(subscriber).expect("nobody else listens");
    });
}

fn lines<'a>(paper: &'a str, level: &str) -> Vec<&'a str> {
    let ours = |line: &&str| line.contains(level) && line.contains("capvco::vco");
    paper.lines().filter(ours).collect()
}

#[tokio::test]
async fn a_line_a_call_and_bodies_without_secrets() {
    listen();
    let reply = r#"{"image_id": 7, "password": "hunter2", "name": "seen"}"#;
    let server = saying(vec![json(429, ""), json(200, reply)]).await;
    let mut config = config(&server);
    config.token = TokenSource::Inline("eyJhbGciOiJFUzM4NCJ9.hunter2.c2ln".into());
    let customer = client(config).customer().await.unwrap();
    let url = "https://hunter2:hunter2@h/k8s.qcow2?signature=hunter2";
    customer.create_image(&at(), &spec(), url).await.unwrap();

    let paper = PAPER.with_borrow(|paper| String::from_utf8_lossy(paper).into_owned());
    let calm = lines(&paper, "DEBUG");
    assert_eq!(calm.len(), 1, "{calm:?}");
    let path = "path=/api/1/customers/acme_1/locations/be-1/vm-images";
    for word in ["method=\"POST\"", path, "status=200", "tries=2", "ms="] {
        assert!(calm[0].contains(word), "{word}: {calm:?}");
    }
    let chatty = lines(&paper, "TRACE").join("\n");
    for word in ["name=k8s", "url=https://h/k8s.qcow2?***", "seen", "request", "reply", "again"] {
        assert!(chatty.contains(word), "{word}: {chatty}");
    }
    let replies: Vec<_> = paper.lines().filter(|line| line.contains("reply ")).collect();
    let of = "method=\"POST\" path=/customers/acme_1/locations/be-1/vm-images status=";
    assert!(!replies.is_empty() && replies.iter().all(|line| line.contains(of)), "{replies:?}");
    let ours: Vec<_> = paper.lines().filter(|line| line.contains("capvco")).collect();
    assert!(!ours.join("\n").contains("hunter2"), "{ours:?}");
}
