//! Files of this machine, whatever somebody has put in their way: devices, pipes, links, bombs,
//! full disks, open masks.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use capvco::snapshot::archive;
use capvco::snapshot::pack::{LEVEL, Layers, Packer};

use super::snapshot::{Desk, objects};
use crate::support::peers::etcd::{Etcd, tool_name};
use crate::support::peers::fill::Values;
use crate::support::peers::s3::Versitygw;
use crate::support::peers::{run, tool};
use crate::support::program::{Program, backup, backup_at, finish, program};
use crate::support::stored::{Backup, Shelf, database, identity_file};

const SLOT: &str = "20261130T060000Z";

fn pipe(path: &Path) {
    run(Command::new("mkfifo").arg(path)).expect(0);
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut all: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    all.sort();
    all
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// `capvco-backup` where every new file would be everybody's.
fn with_an_open_mask() -> Program {
    program("/bin/sh")
        .words("-c")
        .arg("umask 000; exec \"$0\" \"$@\"")
        .arg(env!("CARGO_BIN_EXE_capvco-backup"))
}

/// The permissions of everything below a folder.
fn modes(folder: &Path, into: &mut BTreeMap<PathBuf, u32>) {
    // What goes while it is looked at is gone.
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let Ok(facts) = entry.metadata() else { continue };
        into.insert(entry.path(), facts.permissions().mode() & 0o777);
        if facts.is_dir() {
            modes(&entry.path(), into);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_the_mask_is_a_drill_is_its_owners_alone() {
    let (desk, etcd) = (Desk::new(), Etcd::start_line("3.6"));
    etcd.fill(300, 20 << 10, Values::Random);
    let path = desk.path("snapshot.db");
    etcd.etcdctl(&["snapshot", "save", path.to_str().unwrap()]);
    let staging = desk.path("staging");
    std::fs::create_dir(&staging).unwrap();
    let run = with_an_open_mask().words("drill --from").arg(&path).arg("--staging").arg(&staging);
    let mut child = run.arg("--etcd").arg(tool(&tool_name("etcd", "3.6"))).spawn();
    let mut seen = BTreeMap::new();
    while child.try_wait().unwrap().is_none() {
        modes(&staging, &mut seen);
    }
    finish(child).await.expect(0);
    for name in ["staged.db", "etcd.log", "etcd.key", "member", "wal"] {
        assert!(seen.keys().any(|path| path.ends_with(name)), "{name} was not seen: {seen:?}");
    }
    for (path, mode) in seen {
        assert_eq!(mode & 0o077, 0, "{} is {mode:o}", path.display());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_the_mask_is_what_is_made_has_its_permissions() {
    let store = Versitygw::start();
    let shelf = Shelf::of(&store).await;
    shelf.store(&Backup { pki: true, ..Backup::of(SLOT) }).await;
    let folder = tempfile::tempdir().unwrap();
    let identity = identity_file(folder.path());
    let at = |name: &str| folder.path().join(name);
    let open = |words: &str| {
        with_an_open_mask()
            .env("CAPVCO_BACKUP_S3_ENDPOINT", store.endpoint())
            .env("CAPVCO_BACKUP_S3_BUCKET", crate::support::peers::s3::BUCKET)
            .env("AWS_ACCESS_KEY_ID", store.access_key())
            .env("AWS_SECRET_ACCESS_KEY", store.secret_key())
            .words(words)
    };
    open("status --textfile").arg(at("x.prom")).run().await.expect(0);
    let restore = open("restore -i").arg(&identity).arg("--db").arg(at("x.db"));
    restore.arg("--pki").arg(at("pki")).run().await.expect(0);
    open("restore -i").arg(&identity).arg("--data-dir").arg(at("etcd")).run().await.expect(0);
    assert_eq!(mode(&at("x.prom")), 0o644, "for the collector to read");
    let mut all = BTreeMap::new();
    modes(folder.path(), &mut all);
    all.remove(&at("x.prom"));
    // What is in there has the permissions that it had on its node.
    all.retain(|path, _| path.parent().is_some_and(|above| !above.starts_with(at("pki"))));
    for (path, mode) in all {
        assert_eq!(mode & 0o077, 0, "{} is {mode:o}", path.display());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_output_takes_the_place_of_what_is_no_file() {
    let (desk, s3, etcd) = (Desk::new(), Versitygw::start(), Etcd::start());
    Shelf::of(&s3).await.store(&Backup::of(SLOT)).await;
    let before = objects(&s3);
    let folder = desk.path("out");
    std::fs::create_dir(&folder).unwrap();
    let at = |name: &str| folder.join(name);
    pipe(&at("pipe"));
    symlink("/dev/stdout", at("link")).unwrap();
    symlink("/no/such", at("dangling")).unwrap();
    let identity = identity_file(&folder);
    for name in ["pipe", "link", "dangling"] {
        let restore = |flag: &str| {
            let run = backup_at(&s3);
            run.words("restore -i").arg(&identity).arg(flag).arg(at(name))
        };
        for program in [
            desk.unlocked(&etcd, &s3).arg("--out").arg(at(name)),
            backup_at(&s3).words("status --textfile").arg(at(name)),
            restore("--db"),
            restore("--data-dir"),
        ] {
            let shown = format!("{program:?}");
            let done = program.run().await;
            assert!([2, 3].contains(&done.code), "{shown}: {} {}", done.code, done.err);
        }
        if name != "link" {
            let done = restore("--pki").run().await;
            assert!([2, 3].contains(&done.code), "{name}: {} {}", done.code, done.err);
        }
    }
    let kind = |name: &str| std::fs::symlink_metadata(at(name)).unwrap().file_type();
    assert!(kind("pipe").is_fifo() && kind("link").is_symlink() && kind("dangling").is_symlink());
    assert_eq!(names(&folder), ["dangling", "identity.txt", "link", "pipe"]);
    assert_eq!(objects(&s3), before, "nothing was stored");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pipe_is_no_file_to_restore_from() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pipe");
    pipe(&path);
    let refused = backup().words("restore --from").arg(&path).arg("--db").arg("x").run().await;
    refused.expect(2).says("is no regular file").says("restore --from -");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_stands_where_a_restore_works_is_not_emptied() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("x.db"), database(10)).unwrap();
    std::fs::create_dir(at("victim")).unwrap();
    std::fs::write(at("victim/precious"), "x").unwrap();
    symlink(at("victim"), at(".etcd.capvco-restore")).unwrap();
    let restore = backup().words("restore --from");
    let restore = restore.arg(at("x.db")).words("--skip-hash-check --data-dir").arg(at("etcd"));
    let refused = restore.run().await.expect(3);
    refused.says(".etcd.capvco-restore").says("a symbolic link").says("remove it if nobody needs");
    assert_eq!(names(&at("victim")), ["precious"]);
    assert!(!at("etcd").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn of_several_that_make_one_file_one_does() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("from.db"), database(2000)).unwrap();
    let restore = |to: &str| {
        let run = backup().words("restore --skip-hash-check --from").arg(at("from.db"));
        run.arg("--db").arg(at(to))
    };
    restore("alone.db").run().await.expect(0);
    let children: Vec<_> = (0..4).map(|_| restore("x.db").spawn()).collect();
    let mut codes = Vec::new();
    for child in children {
        codes.push(finish(child).await.code);
    }
    codes.sort_unstable();
    assert_eq!(codes, [0, 3, 3, 3]);
    assert!(std::fs::read(at("x.db")).unwrap() == std::fs::read(at("alone.db")).unwrap());
    assert_eq!(names(folder.path()), ["alone.db", "from.db", "x.db"]);
}

/// A database of which the packed form says nothing of how long it goes on.
fn bomb(bytes: usize) -> (Vec<u8>, Vec<u8>) {
    let small = database(50);
    let mut all = small.clone();
    all.resize(bytes, 0);
    (small, all)
}

#[tokio::test(flavor = "multi_thread")]
async fn no_more_is_unpacked_than_the_manifest_says() {
    let store = Versitygw::start();
    let shelf = Shelf::of(&store).await;
    let (small, all) = bomb(200 << 20);
    let sized = Backup { db: small, ..Backup::of(SLOT) };
    let said = shelf.begin(&sized).await.db;
    let large = Backup { db: all, ..Backup::of(SLOT) };
    let mut manifest = shelf.begin(&large).await;
    manifest.db = said;
    shelf.put(&shelf.manifest_key(&large), manifest.to_json(), None).await;
    let folder = tempfile::tempdir().unwrap();
    let identity = identity_file(folder.path());
    let at = |name: &str| folder.path().join(name);
    let with = |words: &str| {
        let run = backup_at(&store);
        run.words(words).arg("-i").arg(&identity)
    };
    let more = format!("more came than the {} bytes that its manifest says", manifest.db.size);
    for flag in ["--db", "--data-dir"] {
        with("restore").arg(flag).arg(at("x")).run().await.expect(3).says(&more);
    }
    let drill = with("drill").arg("--staging").arg(folder.path()).arg("--etcd");
    drill.arg(tool(&tool_name("etcd", "3.6"))).run().await.expect(3).says(&more);
    let verified = with("verify -output json").run().await.expect(1);
    let more = format!("more than {} bytes came", manifest.db.size);
    assert!(verified.out.contains(&more), "{}", verified.out);
    assert_eq!(names(folder.path()), ["identity.txt"]);
}

/// A script in a mount of its own, `$at`, of `size`; `None` where nobody may mount.
async fn on_a_disk_of(size: &str, script: &str) -> Option<crate::support::program::Done> {
    let may_mount = Command::new("unshare").args(["-Urm", "true"]).status();
    if !may_mount.is_ok_and(|ended| ended.success()) {
        // A container that lets nobody mount anything: the unit tests hold the pure part.
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().display();
    let program_is = env!("CARGO_BIN_EXE_capvco-backup");
    let script =
        format!("at={at}; backup={program_is}; mount -t tmpfs -o size={size} none $at; {script}");
    let run = program("unshare").words("-Urm sh -c").arg(script);
    Some(run.run().await)
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut packer =
        Packer::new(Vec::new(), &Layers { level: Some(LEVEL), recipients: None }).unwrap();
    packer.write_all(bytes).unwrap();
    packer.finish().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_manifest_a_disk_is_never_filled_and_a_small_one_is_enough() {
    let folder = tempfile::tempdir().unwrap();
    let (small, all) = bomb(100 << 20);
    let (bomb, good) = (folder.path().join("bomb"), folder.path().join("good"));
    std::fs::write(&bomb, packed(&all)).unwrap();
    std::fs::write(&good, packed(&small)).unwrap();
    let script = format!(
        "$backup restore --skip-hash-check --from {} --db $at/x; echo \"rc $?\"; ls -A $at; \
         $backup restore --skip-hash-check --from {} --db $at/y >/dev/null; echo \"rc $?\"; \
         ls -A $at",
        bomb.display(),
        good.display()
    );
    let Some(done) = on_a_disk_of("10m", &script).await else { return };
    assert_eq!(done.out, "rc 3\nrc 0\ny\n", "{}", done.err);
    done.says("there is too little room").says("has more than 9.");
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_that_do_not_fit_the_disk_leave_nothing_in_the_way_of_the_next_try() {
    let folder = tempfile::tempdir().unwrap();
    let node = folder.path().join("node");
    std::fs::create_dir_all(node.join("pki")).unwrap();
    for (name, size) in [("a.key", 200 << 10), ("b.key", 300 << 10), ("c.key", 2 << 20)] {
        std::fs::write(node.join("pki").join(name), vec![b'k'; size]).unwrap();
    }
    let (_, tar) = archive::pack(&[node.join("pki")], Vec::new()).unwrap();
    let path = folder.path().join("keys.tar");
    std::fs::write(&path, tar).unwrap();
    let script = format!(
        "restore=\"$backup restore --from {} --pki $at/pki\"; $restore; echo \"rc $?\"; \
         ls -A $at; mount -o remount,size=8m $at; $restore >/dev/null; echo \"rc $?\"; \
         find $at -type f | wc -l",
        path.display()
    );
    let Some(done) = on_a_disk_of("1m", &script).await else { return };
    assert_eq!(done.out, "rc 3\nrc 0\n3\n", "{}", done.err);
    done.says("cannot write").says("c.key");
}

#[tokio::test(flavor = "multi_thread")]
async fn files_without_an_end_are_told_by_their_names() {
    let folder = tempfile::tempdir().unwrap();
    let zero = folder.path().join("zero");
    symlink("/dev/zero", &zero).unwrap();
    let with = |name: &str| backup().env(name, &zero).words("list --s3-bucket b --s3-endpoint");
    for name in ["SSL_CERT_FILE", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"] {
        let refused = with(name).arg("http://127.0.0.1:1").run().await.expect(2);
        refused.says(&format!("{name} names {}, which is a device", zero.display()));
    }
    for flag in ["--s3-ca-file", "--identity"] {
        let list = backup().words("list --s3-bucket b --s3-endpoint http://127.0.0.1:1");
        let done = list.env("AWS_ACCESS_KEY_ID", "a").env("AWS_SECRET_ACCESS_KEY", "b");
        let done = done.arg(flag).arg(&zero).run().await;
        assert!([2, 3].contains(&done.code), "{flag}: {}", done.err);
        assert!(done.err.contains("neither a file nor a pipe"), "{flag}: {}", done.err);
    }
}

/// A terminal on which somebody is asked, and the program is ended from outside.
fn ended_while_asked(folder: &Path, key: &Path, signal: &str) -> String {
    let script = folder.join("script");
    let text = format!(
        "pid={pid}\n\
         hidden() {{ stty -a </dev/tty | grep -q -- ' -echo '; }}\n\
         ( while ! hidden; do sleep 0.05; done; kill -s {signal} $(cat $pid) ) &\n\
         sh -c 'echo $$ > {pid}; exec {program} list --s3-bucket b -i {key} \
         --s3-endpoint http://127.0.0.1:1'\n\
         echo \"rc $?\"\nhidden && echo hidden || echo seen\n",
        pid = folder.join("pid").display(),
        program = env!("CARGO_BIN_EXE_capvco-backup"),
        key = key.display(),
    );
    std::fs::write(&script, text).unwrap();
    // In a group of its own, as `timeout` makes one by default, a program may not ask the terminal.
    let command = format!("timeout --foreground 60 sh {}", script.display());
    let mut terminal = Command::new("script");
    terminal
        .env("SHELL", "/bin/sh")
        .args(["-q", "-c", &command, "/dev/null"])
        .stdin(std::process::Stdio::piped());
    let output = terminal.output().expect("script of util-linux is there");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_while_somebody_types_leaves_the_terminal_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let key = super::identities::encrypted(folder.path(), false);
    for signal in ["TERM", "HUP", "INT"] {
        let (folder, key) = (folder.path().to_owned(), key.clone());
        let said = tokio::task::spawn_blocking(move || ended_while_asked(&folder, &key, signal));
        let said = tokio::time::timeout(Duration::from_mins(2), said).await.unwrap().unwrap();
        assert!(said.contains("passphrase for"), "{signal}: {said}");
        assert!(said.contains("rc 1") && said.contains("seen"), "{signal}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_data_of_before_keeps_its_inode_and_the_place_is_never_empty() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("x.db"), database(10)).unwrap();
    std::fs::create_dir_all(at("etcd/member/snap")).unwrap();
    std::fs::write(at("etcd/member/snap/db"), "old").unwrap();
    let inode = std::fs::metadata(at("etcd")).unwrap().ino();
    let restore = backup().words("restore --from");
    let restore = restore.arg(at("x.db")).words("--skip-hash-check --data-dir").arg(at("etcd"));
    let mut child = { restore }.spawn();
    let mut absent = 0;
    while child.try_wait().unwrap().is_none() {
        absent += usize::from(!at("etcd").exists());
    }
    finish(child).await.expect(0);
    assert_eq!(absent, 0, "there was no data for a moment");
    let aside = names(folder.path()).into_iter().find(|name| name.starts_with("etcd.bak-"));
    let aside = at(&aside.expect("the old data is kept"));
    assert_eq!(std::fs::metadata(&aside).unwrap().ino(), inode);
    assert_eq!(std::fs::read(aside.join("member/snap/db")).unwrap(), b"old");
}
