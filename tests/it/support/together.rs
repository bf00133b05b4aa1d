//! Tests that mostly wait take place side by side, more of them than there are processors.
//!
//! The runner starts one test a processor. So the first test of whole clusters starts this binary
//! again for all of them that are wanted, with more threads, and each of them then says what became
//! of it there. A test that is wanted alone, or whose output somebody wants to see, takes place
//! where it is.

use std::io::Read as _;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use super::peers::leash;

/// The tests for which this is.
const GROUP: &str = "clusters";
/// Set for the run within the run.
const INNER: &str = "CAPVCO_TESTS_TOGETHER";
/// Whole clusters at once: each has an etcd and an API server of its own, 0.4 GiB.
const AT_ONCE: &str = "6";
/// What may be said to the runner without changing how tests take place.
const PASSED_ON: [&str; 4] = ["--exact", "--skip", "--ignored", "--include-ignored"];
const NO_MATTER: [&str; 2] = ["-q", "--quiet"];

/// Whether this test has passed already, beside the others; if it has failed there, so it does
/// here. The first thing that a test of whole clusters asks.
pub fn took_place() -> bool {
    static RUN: OnceLock<Option<String>> = OnceLock::new();
    // The runner gives a test's name to its thread.
    let this = std::thread::current();
    let Some(name) = this.name().filter(|name| is_of_group(name)) else { return false };
    let Some(said) = RUN.get_or_init(run).as_deref() else { return false };
    match outcome(said, name) {
        Outcome::Passed => true,
        Outcome::NotThere => false,
        Outcome::Failed(how) => panic!("beside others it failed:\n{how}"),
    }
}

fn is_of_group(name: &str) -> bool {
    name.split("::").next() == Some(GROUP)
}

/// Runs those that are wanted, and gives what the runner says; nothing if they take place where
/// they are.
fn run() -> Option<String> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let is_plain = |arg: &&String| {
        !arg.starts_with('-') || PASSED_ON.iter().chain(&NO_MATTER).any(|one| one == arg)
    };
    let set = |name: &str| std::env::var_os(name).is_some();
    let asked = set("RUST_TEST_THREADS") || set("RUST_TEST_NOCAPTURE");
    if set(INNER) || asked || !args.iter().all(|arg| is_plain(&arg)) {
        return None;
    }
    let itself = std::env::current_exe().unwrap();
    let listed = Command::new(&itself).args(["--list", "--format=terse"]).args(&args).output();
    let listed = String::from_utf8(listed.unwrap().stdout).unwrap();
    let names = wanted(&listed);
    if names.len() < 2 {
        return None;
    }
    let mut inner = Command::new(itself);
    inner.args(["--exact", "--color=never", "--test-threads", AT_ONCE]).args(names);
    inner.args(args.iter().filter(|arg| arg.ends_with("ignored"))).env(INNER, "");
    let mut inner = inner.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    leash::hold(inner.id());
    let mut said = String::new();
    inner.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    leash::free(inner.id());
    inner.wait().unwrap();
    Some(said)
}

/// Those in the runner's list.
fn wanted(listed: &str) -> Vec<&str> {
    let all = listed.lines().filter_map(|line| line.strip_suffix(": test"));
    all.filter(|name| is_of_group(name)).collect()
}

#[derive(Debug, PartialEq)]
enum Outcome<'a> {
    Passed,
    NotThere,
    Failed(&'a str),
}

/// What the runner says of a test.
fn outcome<'a>(said: &'a str, name: &str) -> Outcome<'a> {
    let begins = format!("test {name} ... ");
    if said.lines().filter_map(|line| line.strip_prefix(&*begins)).any(|how| how == "ok") {
        return Outcome::Passed;
    }
    let title = format!("---- {name} stdout ----\n");
    if let Some((_, rest)) = said.split_once(&*title) {
        let ends = rest.find("\n---- ").or_else(|| rest.find("\nfailures:\n"));
        return Outcome::Failed(rest[..ends.unwrap_or(rest.len())].trim());
    }
    // A run that ended without its summary was killed, and nobody knows at what.
    if said.contains(&*begins) || !said.contains("\ntest result: ") {
        return Outcome::Failed(said.trim());
    }
    Outcome::NotThere
}

#[test]
fn what_the_runner_says_is_understood() {
    let listed = "clusters::b::one: test\nclusters::two: test\nclusters_2::three: test\n\
        clusters::b: benchmark\n\n4 tests\n";
    assert_eq!(wanted(listed), ["clusters::b::one", "clusters::two"]);

    let said = "running 3 tests\ntest a::one ... ok\ntest a::two ... FAILED\n\
        test a::four ... FAILED\n\nfailures:\n\n---- a::two stdout ----\n\nthread 'a::two' \
        panicked at x.rs:1:1:\nno\n\n---- a::four stdout ----\nfour\n\n\nfailures:\n    a::two\n    \
        a::four\n\ntest result: FAILED. 1 passed; 2 failed\n";
    assert_eq!(outcome(said, "a::one"), Outcome::Passed);
    let how = "thread 'a::two' panicked at x.rs:1:1:\nno";
    assert_eq!(outcome(said, "a::two"), Outcome::Failed(how));
    assert_eq!(outcome(said, "a::four"), Outcome::Failed("four"));
    assert_eq!(outcome(said, "a::on"), Outcome::NotThere);
    let killed = "running 3 tests\ntest a::one ... ok\n";
    assert_eq!(outcome(killed, "a::two"), Outcome::Failed(killed.trim()));
}
