//! What the tools of others accept by mistake, and what is no snapshot at all.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Lab, everything, from_file, names};
use crate::backup::snapshot::{Desk, named};
use crate::support::bolt::{self, Layout};
use crate::support::peers::etcd::Etcd;
use crate::support::peers::fill::Values;
use crate::support::peers::run;
use crate::support::peers::s3::BUCKET;
use crate::support::program::Done;

/// A snapshot of a line by etcd's own tool.
fn snapshot(desk: &Desk, line: &str) -> (PathBuf, Vec<u8>) {
    let etcd = Etcd::start_line(line);
    etcd.fill(50, 3000, Values::Random);
    let path = desk.path(&format!("snapshot-{line}.db"));
    etcd.etcdctl(&["snapshot", "save", path.to_str().unwrap()]);
    let bytes = std::fs::read(&path).unwrap();
    (path, bytes)
}

/// Restores into a folder that holds something, which must be left as it is.
async fn untouched(desk: &Desk, path: &Path, words: &str) -> Done {
    let data_dir = desk.path("place/etcd");
    std::fs::create_dir_all(data_dir.join("member/snap")).unwrap();
    std::fs::write(data_dir.join("member/snap/db"), "old").unwrap();
    let before = everything(&desk.path("place"));
    let restore = from_file(desk, path).words(words).arg("--data-dir").arg(&data_dir);
    let done = restore.run().await;
    assert_eq!(names(&desk.path("place")), ["etcd"], "{}", done.err);
    assert_eq!(everything(&data_dir).len(), before.len() - 1, "{}", done.err);
    assert_eq!(std::fs::read(data_dir.join("member/snap/db")).unwrap(), b"old");
    done
}

#[tokio::test(flavor = "multi_thread")]
async fn what_others_restore_without_a_word_is_refused() {
    let desk = Desk::new();
    let (_, whole) = snapshot(&desk, "3.6");
    let at = whole.len() / 2;
    let mut flipped = whole.clone();
    flipped[at] ^= 1;
    let mut blank = whole.clone();
    let end = whole.len() - 32;
    blank[end..].fill(0);
    let mut sum = whole.clone();
    sum[end + 5] ^= 0x80;
    let cases: [(&str, &[u8], &str); 7] = [
        ("a flipped byte", &flipped, "does not fit the SHA-256 behind it"),
        ("a flipped byte of the sum", &sum, "does not fit the SHA-256 behind it"),
        ("the sum cut off", &whole[..end], "carries no SHA-256"),
        ("a sum of zeros", &blank, "was never written to its end"),
        ("half of it", &whole[..at / 4096 * 4096], "carries no SHA-256"),
        ("cut within a page", &whole[..at + 77], "carries no SHA-256"),
        ("one byte short", &whole[..whole.len() - 1], "carries no SHA-256"),
    ];
    for (what, bytes, says) in cases {
        let path = desk.path("bad.db");
        std::fs::write(&path, bytes).unwrap();
        let done = untouched(&desk, &path, "").await;
        assert_eq!(done.code, 3, "{what}: {}", done.err);
        assert!(done.err.contains(says), "{what}: {}", done.err);
    }
    // Without its sum only the pages themselves can tell.
    let cut = desk.path("cut.db");
    std::fs::write(&cut, &whole[..at / 4096 * 4096]).unwrap();
    let done = untouched(&desk, &cut, "--skip-hash-check").await.expect(3);
    done.says("the database is cut off");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_class_of_byte_that_a_page_has_is_held_even_without_a_sum() {
    let desk = Desk::new();
    let rows = bolt::history([("a", Some(vec![1; 900])), ("b", Some(vec![2; 900]))]);
    let layout = Layout { inline: 0, ..Layout::of(4096) };
    let whole = layout.write(&bolt::etcd(rows, "3.6.0"));
    let path = desk.path("raw.db");
    // Page 2 on: ids, flags, counts, overflows, and the elements of the first leaf with rows.
    let leaf =
        whole.chunks(4096).position(|page| page.windows(6).any(|w| w == b"\x0a\x01a\x10\x02\x18"));
    let leaf = leaf.unwrap() * 4096;
    for offset in [0, 8, 11, 14, 16, 20, 26, 30, 49] {
        let mut bad = whole.clone();
        bad[leaf + offset] ^= 0x40;
        std::fs::write(&path, bad).unwrap();
        let done = untouched(&desk, &path, "--skip-hash-check").await;
        assert_eq!(done.code, 3, "{offset}: {}", done.err);
        assert!(done.err.contains("damaged"), "{offset}: {}", done.err);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_etcd_that_is_too_old_for_the_data_is_refused() {
    let desk = Desk::new();
    let (newest, _) = snapshot(&desk, "3.7");
    let done = untouched(&desk, &newest, "--etcd-version 3.6.16").await.expect(3);
    done.says("etcd 3.6.16 may not be started on data of etcd 3.7.0").says("newer one");
    let (old, _) = snapshot(&desk, "3.5");
    untouched(&desk, &old, "--etcd-version 3.4.23").await.expect(3).says("data of etcd 3.5");
    let data_dir = desk.path("forced");
    let words = "--etcd-version 3.6 --force --data-dir";
    from_file(&desk, &newest).words(words).arg(&data_dir).run().await.expect(0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_snapshot_is_called_by_its_name() {
    let desk = Desk::new();
    let (path, whole) = snapshot(&desk, "3.6");
    let folder = desk.path("dress");
    std::fs::create_dir(&folder).unwrap();
    let by = |program: &str, args: &[&str]| {
        let out = Command::new(program).args(args).arg(&path).output().unwrap();
        assert!(out.status.success(), "{program}");
        out.stdout
    };
    let tar = by("tar", &["-cf", "-", "--absolute-names"]);
    let mut zip = b"PK\x03\x04".to_vec();
    zip.extend(&whole);
    for (name, bytes, says) in [
        ("a", by("gzip", &["-c"]), "is a gzip file, not a database of etcd"),
        ("b", zip, "is a zip archive, not"),
        ("c", tar, "is a tar archive, not"),
        ("d", Vec::new(), "is an empty file, not"),
        ("e", b"hello, world".repeat(1000), "is a file of unknown kind, not"),
        ("f", [b"BZh91AY&SY".to_vec(), whole.clone()].concat(), "is a bzip2 file, not"),
        ("g", [&b"\xfd7zXZ\0"[..], &whole].concat(), "is an xz file, not"),
    ] {
        let path = folder.join(name);
        std::fs::write(&path, bytes).unwrap();
        let done = untouched(&desk, &path, "").await;
        assert_eq!(done.code, 2, "{name}: {}", done.err);
        assert!(done.err.contains(says), "{name}: {}", done.err);
    }
    // As any file that is named in vain.
    from_file(&desk, &desk.path("none")).words("--db /x").run().await.expect(2).says("no file");
    from_file(&desk, &folder).words("--db /x").run().await.expect(2).says("is a folder");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_does_not_fit_is_known_before_anything_is_fetched() {
    let lab = Lab::new("3.6").await;
    let stranger = Desk::new();
    let data_dir = lab.desk.path("place/etcd");
    std::fs::create_dir(lab.desk.path("place")).unwrap();
    let into = |identity: &Path| {
        lab.restore()
            .env("CAPVCO_BACKUP_IDENTITY", identity)
            .env("CAPVCO_BACKUP_PASSPHRASE", "correct horse")
            .arg("--data-dir")
            .arg(&data_dir)
    };
    let done = into(&stranger.path("two.txt")).run().await.expect(3);
    let done = done.says("none of the identities given (1) opens backup");
    for recipient in &lab.desk.recipients {
        assert!(done.err.contains(recipient), "{}", done.err);
    }
    let done = lab.restore().env("CAPVCO_BACKUP_IDENTITY", "").arg("--data-dir").arg(&data_dir);
    done.run().await.expect(2).says("is encrypted, and no identity is given");
    // All of age's grammar, with a word for each kind of wrong.
    let secret = std::fs::read_to_string(lab.desk.path("one.txt")).unwrap();
    let line = secret.lines().last().unwrap();
    let path = lab.desk.path("odd.txt");
    for (text, code, says) in [
        (format!("\u{feff}# mine\r\n\r\n{line} \r\n"), 0, "byte order mark"),
        (
            format!("{}\n{line}\n", std::fs::read_to_string(stranger.path("one.txt")).unwrap()),
            0,
            "",
        ),
        (String::new(), 2, "there is no identity in it"),
        (lab.desk.recipients[0].clone(), 2, "line 1: this is a recipient"),
        (format!("# x\n{}", &line[..line.len() - 3]), 2, "line 2: the key has 71 characters"),
        (format!("AGE-SECRET-KEY-PQ-1{}", &line[16..]), 2, "post-quantum identity"),
    ] {
        std::fs::write(&path, &text).unwrap();
        let done = into(&path).words("--plan").run().await;
        assert_eq!(done.code, code, "{says}: {}", done.err);
        assert!(done.err.contains(says), "{says}: {}", done.err);
        assert!(!done.err.contains(&line[20..60]), "the key itself is never shown");
    }
    assert_eq!(names(&lab.desk.path("place")), Vec::<String>::new());
    // A file that a passphrase protects, as age itself makes it.
    let sealed = lab.desk.path("sealed.txt");
    let mut age = Command::new(crate::support::peers::tool("age"));
    let bin = crate::support::peers::tool("age").parent().unwrap().to_owned();
    age.env("PATH", &bin).env("AGE_PASSPHRASE", "correct horse").args(["-e", "-j", "batchpass"]);
    run(age.arg("-o").arg(&sealed).arg(lab.desk.path("one.txt"))).expect(0);
    into(&sealed).run().await.expect(0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_that_is_not_what_its_manifest_says_is_refused() {
    let lab = Lab::new("3.6").await;
    let key = named(&lab.s3, "data-").remove(0);
    let sealed = std::fs::read(lab.desk.fetch(&lab.s3, &key)).unwrap();
    let data_dir = lab.desk.path("place/etcd");
    std::fs::create_dir(lab.desk.path("place")).unwrap();
    let body = lab.desk.path("body");
    // Each replaces the newest version of the object; it is told by its key.
    let header = sealed.windows(4).position(|w| w == b"--- ").unwrap();
    for (what, at, says) in [
        ("magic", 0, "is a file of unknown kind"),
        ("stanza", 40, ""),
        // Another sum, or no longer a character that a sum can have.
        ("header's sum", header + 10, "age "),
        ("nonce", header + 60, "does not authenticate"),
        ("first chunk", header + 200, "does not authenticate"),
        ("last chunk", sealed.len() - 5, "does not authenticate"),
    ] {
        let mut bad = sealed.clone();
        bad[at] ^= 4;
        let done = replaced(&lab, &key, &body, &bad, &data_dir).await;
        // It is no fault of the command line.
        assert_eq!(
            done.code,
            if what == "magic" { 1 } else { 3 },
            "{what}: {} {}",
            done.code,
            done.err
        );
        assert!(done.err.contains(says), "{what}: {}", done.err);
    }
    for cut in [10, header, header + 40, sealed.len() / 2, sealed.len() - 1] {
        let done = replaced(&lab, &key, &body, &sealed[..cut], &data_dir).await;
        assert!(matches!(done.code, 1 | 3), "cut to {cut}: {} {}", done.code, done.err);
    }
    let more = [&sealed[..], b"more"].concat();
    replaced(&lab, &key, &body, &more, &data_dir).await.expect(3);
    assert_eq!(names(&lab.desk.path("place")), Vec::<String>::new());
    // The backup itself is still the locked first version.
    lab.restore().arg("--data-dir").arg(&data_dir).run().await.expect(0);
}

/// Puts other bytes under a key and restores that version.
async fn replaced(lab: &Lab, key: &str, body: &Path, bytes: &[u8], data_dir: &Path) -> Done {
    std::fs::File::create(body).unwrap().write_all(bytes).unwrap();
    let args = ["--bucket", BUCKET, "--key", key, "--body", body.to_str().unwrap()];
    let put = lab
        .s3
        .aws(&[&["s3api", "put-object", "--checksum-algorithm", "CRC32C"], &args[..]].concat());
    let put: serde_json::Value = serde_json::from_str(&put.expect(0).out).unwrap();
    let version = put["VersionId"].as_str().unwrap();
    let restore = lab.restore().arg("--object").arg(key).arg("--version-id").arg(version);
    restore.arg("--data-dir").arg(data_dir).run().await
}
