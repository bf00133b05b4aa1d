//! The manners that all programs share: flags, colours, secrets, signals, closed pipes.

use std::process::{Child, Command};
use std::time::Duration;

use crate::support::program::{
    Program, backup, capvco, e2e, finish, imagepublish, imageresolve, program,
};
use crate::support::scripted::{Answer, Scripted};

type Start = fn() -> Program;

const PROGRAMS: [(&str, Start); 4] = [
    ("capvco", capvco),
    ("capvco-imagepublish", imagepublish),
    ("capvco-imageresolve", imageresolve),
    ("capvco-e2e", e2e),
];

/// A resolve that would talk to nobody: port 9 of this machine.
fn resolve() -> Program {
    imageresolve().words(
        "-portal-url http://127.0.0.1:9 -customer acme_1 -locations be-1 -name k8s -retry-for 0s",
    )
}

#[tokio::test]
async fn every_program_says_its_version_and_its_help_on_stdout() {
    for (name, program) in PROGRAMS {
        for flag in ["-V", "--version", "-version"] {
            let done = program().arg(flag).run().await.expect(0);
            assert_eq!(done.out, format!("{name} {}\n", env!("CARGO_PKG_VERSION")));
            assert_eq!(done.err, "");
        }
        let done = program().arg("-help").run().await.expect(0);
        assert!(done.out.contains(&format!("Usage: {name}")), "{}", done.out);
        assert_eq!(done.err, "");
    }
}

#[tokio::test]
async fn a_wrong_flag_is_named_and_ends_with_two() {
    for (_, program) in PROGRAMS {
        let done = program().words("-frobnicate x").run().await.expect(2).says("--frobnicate");
        assert_eq!(done.out, "");
    }
}

#[tokio::test]
async fn the_form_of_the_results_has_a_short_flag() {
    let done = backup().words("list -o yaml").run().await.expect(2);
    assert!(done.err.contains("invalid value 'yaml' for '--output"), "{}", done.err);
    let same = |word: &str| imageresolve().words(word).words("-frobnicate").run();
    for word in ["-o json", "-ojson", "-o=json"] {
        same(word).await.expect(2).says("'--frobnicate'");
    }
    // A long flag that is mistyped is still told from the short one.
    for program in [imagepublish, imageresolve] {
        program().words("-outptu json").run().await.expect(2).says("'--output'");
        program().words("-o nonsense").run().await.expect(2).says("[possible values: ");
    }
}

#[tokio::test]
async fn a_variable_that_is_mistyped_is_told_with_the_one_that_was_meant() {
    let meant = "warning: the variable CAPVCO_BACKUP_S3_BUKET is not read; \
                 CAPVCO_BACKUP_S3_BUCKET is meant?\n";
    let list = || backup().env("CAPVCO_BACKUP_S3_BUKET", "etcd");
    for (words, code) in [("list", 2), ("list -q", 2), ("list --nonsense", 2)] {
        let done = list().words(words).run().await.expect(code);
        assert_eq!(done.err.matches(meant).count(), 1, "{}", done.err);
    }
    assert_eq!(list().arg("--help").run().await.expect(0).err, "");
    let never = backup().env("CAPVCO_BACKUP_DRY_RUN", "true").words("list").run().await.expect(2);
    never.says("--dry-run is said on the command line only");
    let cloud = resolve().env("VCO_TOKENFILE", "x").env("VCO_REGION", "y").run().await.expect(2);
    let cloud = cloud.says("the variable VCO_TOKENFILE is not read; VCO_TOKEN_FILE is meant?");
    assert!(!cloud.err.contains("VCO_REGION"), "{}", cloud.err);
}

#[tokio::test]
async fn a_closed_stdout_is_no_failure() {
    for (_, program) in PROGRAMS {
        let mut child = program().arg("--help").spawn();
        drop(child.stdout.take());
        let done = finish(child).await.expect(0);
        assert_eq!(done.err, "");
    }
}

#[tokio::test]
async fn a_token_is_needed_and_never_empty() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    resolve().run().await.expect(2).says("no token").says("hint: set VCO_TOKEN");
    resolve().env("VCO_TOKEN", "").run().await.expect(2).says("no token");
    resolve().env("VCO_TOKEN", " \n").run().await.expect(2).says("VCO_TOKEN is empty");
    resolve().words("-token-file -").stdin("\n").run().await.expect(2).says("stdin is empty");
    let absent = resolve().arg("--token-file").arg(&file).run().await.expect(2);
    absent.says("error: cannot read the token in").says("caused by: No such file");
    std::fs::write(&file, "\n").unwrap();
    resolve().env("VCO_TOKEN_FILE", &file).run().await.expect(2).says("is empty");
}

#[tokio::test]
async fn a_token_that_others_can_read_earns_a_warning_even_when_quiet() {
    use std::os::unix::fs::PermissionsExt;
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "t").unwrap();
    std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(0o644)).unwrap();
    let done = resolve().arg("-q").arg("-token-file").arg(file.path()).run().await.expect(4);
    done.says("warning: others can read the token");
}

#[tokio::test]
async fn colours_are_used_where_they_are_wished_for() {
    let red = "\u{1b}[1;31merror:\u{1b}[0m";
    let shown = resolve().words("-color always").run().await.expect(2).err;
    assert!(shown.contains(red), "{shown}");
    for (color, variable) in [("auto", "1"), ("never", ""), ("auto", "")] {
        let program = resolve().words("-color").arg(color).env("NO_COLOR", variable);
        let shown = program.run().await.expect(2).err;
        assert!(!shown.contains('\u{1b}'), "{shown:?}");
    }
    // The parser's own errors obey too.
    let shown = resolve().words("-color always -frobnicate").run().await.expect(2).err;
    assert!(shown.contains("\u{1b}["), "{shown}");
}

/// Waits until the program catches SIGTERM, as the kernel says.
async fn until_signals_are_caught(child: &Child) {
    let path = format!("/proc/{}/status", child.id());
    for _ in 0..1000 {
        let status = std::fs::read_to_string(&path).unwrap_or_default();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        if caught.is_some_and(|mask| mask & (1 << 14) != 0) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the program never caught SIGTERM");
}

fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").args(["-s", name, &child.id().to_string()]).status();
    assert!(sent.unwrap().success());
}

#[tokio::test]
async fn a_second_signal_ends_at_once() {
    // Writing into a pipe that nobody reads, the program cannot obey the first signal.
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("k8s.qcow2");
    assert!(Command::new("mkfifo").arg(pipe).status().unwrap().success());
    let mut child = e2e().words("image-server -dir").arg(folder.path()).spawn();
    until_signals_are_caught(&child).await;
    signal(&child, "INT");
    let mut first = [0; 8];
    let mut said = child.stderr.take().unwrap();
    std::io::Read::read_exact(&mut said, &mut first).unwrap();
    assert_eq!(&first, b"stopping");
    signal(&child, "TERM");
    finish(child).await.expect(130);
}

#[tokio::test]
async fn the_first_signal_ends_the_waiting_for_a_token() {
    let (never, held_open) = std::io::pipe().unwrap();
    let child = resolve().words("-token-file -").spawn_reading(never);
    until_signals_are_caught(&child).await;
    signal(&child, "INT");
    finish(child).await.expect(1).says("error: interrupted while the token was being read");
    drop(held_open);
}

/// `capvco-e2e cloud`, started with SIGHUP as `env` sets it: whoever runs the tests may have
/// chosen otherwise.
#[cfg(target_os = "linux")]
async fn cloud_with_hangup(set: &str) -> Child {
    let words = format!("--{set}-signal=HUP {} cloud", env!("CARGO_BIN_EXE_capvco-e2e"));
    let child = program("env").words(&words).spawn();
    until_signals_are_caught(&child).await;
    child
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_closed_terminal_is_like_ctrl_c_unless_nohup_says_otherwise() {
    let child = cloud_with_hangup("default").await;
    signal(&child, "HUP");
    assert!(finish(child).await.expect(0).err.contains("stopping"));
    let mut child = cloud_with_hangup("ignore").await;
    signal(&child, "HUP");
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(child.try_wait().unwrap().is_none(), "it should have gone on");
    signal(&child, "TERM");
    finish(child).await.expect(0);
}

#[tokio::test]
async fn a_proxy_of_the_environment_is_used_and_named_when_it_refuses() {
    let proxy = Scripted::start(|_, _| Answer::status("403 Forbidden")).await;
    let words =
        "-portal-url https://portal.test -customer acme_1 -locations be-1 -name k8s -retry-for 0s";
    let program = imageresolve()
        .words(words)
        .env("VCO_TOKEN", "t")
        .env("HTTPS_PROXY", proxy.url("").as_str());
    let done = program.run().await;
    assert_ne!(done.code, 0);
    let asked = proxy.asked();
    assert_eq!((asked[0].method.as_str(), asked[0].path.as_str()), ("CONNECT", "portal.test:443"));
    assert!(done.err.to_lowercase().contains("proxy"), "{}", done.err);
}
