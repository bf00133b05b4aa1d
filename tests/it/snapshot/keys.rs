//! Files of keys as the real programs write them.

use std::path::Path;

use capvco::snapshot::identity_file::{Sort, load};
use capvco::snapshot::passphrase::{Given, Nobody};
use capvco::snapshot::seal::{Identities, Recipients};
use secrecy::ExposeSecret as _;

use super::{keygen, must, real};
use crate::support::peers::run;

#[test]
fn recipients_as_age_keygen_derives_them_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("k.txt");
    let (keys, _) = keygen(&path);
    let derived = run(real("age-keygen").arg("-y").arg(&path));
    let (recipients, remarks) =
        Recipients::from_file(derived.out.as_bytes(), "recipients file").unwrap();
    assert_eq!(recipients.texts(), keys.public());
    assert!(remarks.is_empty());
}

#[test]
fn a_file_of_keys_is_loaded_with_a_word_about_who_else_may_read_it() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("k.txt");
    keygen(&path);
    let (bytes, remarks) = load(&path, "identity file k.txt", Sort::Identities).unwrap();
    assert!(bytes.expose_secret().starts_with(b"# created:"));
    assert!(remarks.is_empty(), "{remarks:?}");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    let (_, remarks) = load(&path, "identity file k.txt", Sort::Identities).unwrap();
    assert_eq!(remarks, ["identity file k.txt can be read by others than its owner: chmod 600"]);
    let (_, remarks) = load(&path, "recipients file k.txt", Sort::Recipients).unwrap();
    assert!(remarks.is_empty());
    let missing = load(Path::new("/nowhere/k"), "identity file k", Sort::Identities).unwrap_err();
    assert_eq!(missing.to_string(), "cannot read identity file k");
}

#[test]
fn an_identity_file_encrypted_by_age_opens_with_its_passphrase() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("k.txt");
    let (keys, _) = keygen(&path);
    for armor in [false, true] {
        let sealed = folder.path().join(format!("k.{armor}.age"));
        let mut age = real("age");
        age.args(["-e", "-j", "batchpass"]).env("AGE_PASSPHRASE", "correct horse");
        age.env("AGE_PASSPHRASE_WORK_FACTOR", "12");
        if armor {
            age.arg("-a");
        }
        must(age.arg("-o").arg(&sealed).arg(&path));
        let bytes = std::fs::read(&sealed).unwrap();
        let right = Given("correct horse".to_owned().into());
        let (read, remarks) = Identities::read(&bytes, "file k", &right).unwrap();
        assert_eq!(read.public(), keys.public());
        assert!(remarks.is_empty(), "{remarks:?}");
        let wrong = Given("correct house".to_owned().into());
        let error = Identities::read(&bytes, "file k", &wrong).unwrap_err();
        assert_eq!(error.to_string(), "file k: the passphrase is wrong");
        let error = Identities::read(&bytes, "file k", &Nobody).unwrap_err();
        assert!(error.to_string().contains("a passphrase is needed"), "{error}");
    }
}

#[test]
fn post_quantum_keys_are_named_not_called_malformed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pq.txt");
    must(real("age-keygen").arg("-pq").arg("-o").arg(&path));
    let bytes = std::fs::read(&path).unwrap();
    let error = Identities::read(&bytes, "file pq", &Nobody).unwrap_err().to_string();
    assert!(error.starts_with("file pq, line "), "{error}");
    assert!(error.ends_with(": post-quantum identity, not supported by this build"), "{error}");
    let derived = run(real("age-keygen").arg("-y").arg(&path));
    assert!(derived.out.starts_with("age1pq1"), "{}", derived.out);
    let error = Recipients::from_file(derived.out.as_bytes(), "file r").unwrap_err().to_string();
    assert_eq!(error, "file r, line 1: post-quantum recipient, not supported by this build");
    let own = Recipients::from_file(&bytes, "file r").unwrap_err().to_string();
    assert!(own.contains("this is an identity: a secret key"), "{own}");
}

#[test]
fn what_age_refuses_of_a_file_is_refused_or_trimmed_with_a_word() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("k.txt");
    let (_, recipients) = keygen(&path);
    let text = std::fs::read_to_string(&path).unwrap();
    let key = text.lines().last().unwrap();
    let cases = [
        (format!("{key}\r\n"), true, true),
        (format!("{key} \n"), false, true),
        (format!("\u{FEFF}{key}\n"), false, true),
        (format!(" {key}\n"), false, false),
        (format!(" # c\n{key}\n"), false, false),
        (key[..73].to_owned(), false, false),
        (format!("{key}X\n"), false, false),
        ("# nothing\n".to_owned(), false, false),
        (format!("{}\n", recipients.texts()[0]), false, false),
    ];
    let sealed = folder.path().join("x.age");
    must(real("age").args(["-r", &recipients.texts()[0], "-o"]).arg(&sealed).arg(&path));
    for (text, theirs, ours) in cases {
        std::fs::write(&path, &text).unwrap();
        let done = run(real("age").arg("-d").arg("-i").arg(&path).arg(&sealed));
        assert_eq!(done.code == 0, theirs, "age: {} {}", done.out, done.err);
        let read = Identities::read(text.as_bytes(), "k", &Nobody);
        assert_eq!(read.is_ok(), ours, "{:?}", read.map(|(_, remarks)| remarks));
        if let Ok((_, remarks)) = read {
            assert_eq!(remarks.is_empty(), theirs, "{remarks:?}");
        }
    }
}
