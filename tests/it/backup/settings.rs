//! Settings that cannot work are refused before anything is sent, by their names and without
//! their values; and no file that never ends keeps a signal from being heard.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::support::peers::run;
use crate::support::program::{Program, backup, finish};

/// `list` of a bucket where nobody listens.
fn list() -> Program {
    backup()
        .env("CAPVCO_BACKUP_S3_ENDPOINT", "http://127.0.0.1:1")
        .env("CAPVCO_BACKUP_S3_BUCKET", "b")
        .env("AWS_ACCESS_KEY_ID", "planted")
        .env("AWS_SECRET_ACCESS_KEY", "planted")
        .env("AWS_EC2_METADATA_DISABLED", "true")
        .words("list")
}

#[tokio::test(flavor = "multi_thread")]
async fn what_no_request_can_carry_is_named_and_not_shown() {
    for (name, value, words) in [
        ("AWS_ACCESS_KEY_ID", "planted\n", "a line break at the end"),
        ("AWS_ACCESS_KEY_ID", "planted\r", "AWS_ACCESS_KEY_ID"),
        ("AWS_SECRET_ACCESS_KEY", "planted\n", "AWS_SECRET_ACCESS_KEY"),
        ("AWS_SESSION_TOKEN", "plan\u{1}ted", "AWS_SESSION_TOKEN"),
        ("AWS_REGION", "us-east-1\n", "AWS_REGION"),
        ("CAPVCO_BACKUP_S3_REGION", "us-east-1\n", "--s3-region"),
        ("CAPVCO_BACKUP_S3_BUCKET", "b\n", "no bucket can have this name"),
        ("CAPVCO_BACKUP_S3_ENDPOINT", " http://127.0.0.1:1", "there is a blank in --s3-endpoint"),
        ("CAPVCO_BACKUP_S3_ENDPOINT", "http://127.0.0.1:1\n", "a line break at the end"),
        ("CAPVCO_BACKUP_S3_ENDPOINT", "http://127.0.0.1:99999", "from 1 to 65535"),
        ("CAPVCO_BACKUP_S3_ENDPOINT", "http://planted@127.0.0.1", "credentials do not belong"),
    ] {
        let began = Instant::now();
        let done = list().env(name, value).run().await.expect(2).says(words);
        let text = format!("{}{}", done.out, done.err);
        assert!(!text.contains("planted") && !text.contains("bug"), "{name}: {text}");
        assert!(began.elapsed() < Duration::from_secs(5), "{name}: {:?}", began.elapsed());
    }
    let endpoint = backup().env("CAPVCO_BACKUP_S3_BUCKET", "b").words("list");
    let endpoint = endpoint.env("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1\n");
    endpoint.env("AWS_REGION", "nl").run().await.expect(2).says("AWS_ENDPOINT_URL_S3");
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_beyond_sense_are_refused_with_what_makes_sense() {
    for (words, text) in [
        ("list --limit-rate 0", "1KiB or more"),
        ("list --limit-rate 1023", "1KiB or more"),
        ("list --stall-timeout 0s", "between 1s and 24h"),
        ("list --stall-timeout 36500d", "between 1s and 24h"),
        ("snapshot --lock governance --lock-for 2900000d", "36500d"),
        ("bucket create --default-lock-for 9999999d", "36500d"),
        ("status --max-age 99999999d", "36500d"),
    ] {
        backup().words(words).run().await.expect(2).says(text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_never_ends_keeps_no_signal_from_being_heard() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    run(Command::new("mkfifo").arg(&pipe)).expect(0);
    let keys = || {
        let bucket = backup().env("CAPVCO_BACKUP_S3_ENDPOINT", "http://127.0.0.1:1");
        bucket.env("CAPVCO_BACKUP_S3_BUCKET", "b").env("AWS_REGION", "nl").words("list")
    };
    let snapshot = || backup().words("snapshot --out /nowhere/x --endpoints http://127.0.0.1:1");
    for (name, mut program) in [
        ("keys", keys().env("AWS_SHARED_CREDENTIALS_FILE", &pipe)),
        ("authorities", list().arg("--s3-ca-file").arg(&pipe)),
        ("recipients", snapshot().arg("-R").arg(&pipe)),
    ] {
        let child = program.spawn();
        tokio::time::sleep(Duration::from_secs(1)).await;
        let began = Instant::now();
        run(Command::new("kill").args(["-TERM", &child.id().to_string()])).expect(0);
        finish(child).await.expect(1).says("interrupted");
        assert!(began.elapsed() < Duration::from_secs(5), "{name}: {:?}", began.elapsed());
    }
}
