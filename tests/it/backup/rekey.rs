//! `rekey` makes a copy for other keys, and believes it only when it was read back.

use std::path::{Path, PathBuf};

use capvco::s3::Mode;
use capvco::snapshot::pack::Layers;
use serde_json::Value;

use crate::support::peers::s3::{BUCKET, Moto, S3, Versitygw};
use crate::support::peers::{clean, run, tool};
use crate::support::program::{Done, backup_at};
use crate::support::stored::{Backup, PUBLIC, Shelf, identity_file};

const SLOT: &str = "20261130T060000Z";

/// A new key by the real `age-keygen`: its file and its public half.
fn keygen(folder: &Path, name: &str) -> (PathBuf, String) {
    let path = folder.join(name);
    run(clean(tool("age-keygen")).arg("-o").arg(&path)).expect(0);
    let public = run(clean(tool("age-keygen")).arg("-y").arg(&path)).expect(0).out;
    (path, public.trim().to_owned())
}

async fn rekey(store: &S3, words: &str, old: &Path, to: &[&str], code: i32) -> Done {
    let mut program = backup_at(store).words("rekey -output json").words(words);
    program = program.arg("-i").arg(old);
    for recipient in to {
        program = program.arg("-r").arg(recipient);
    }
    program.run().await.expect(code)
}

fn row(done: &Done, at: usize) -> Value {
    done.json()["results"][at].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_opens_with_the_new_key_and_replaces_the_original() {
    let store = Versitygw::start();
    let shelf = Shelf::of(&store).await;
    let folder = tempfile::tempdir().unwrap();
    let old = identity_file(folder.path());
    let (new, public) = keygen(folder.path(), "new.txt");
    let (_, vault) = keygen(folder.path(), "vault.txt");
    let original = shelf.store(&Backup { pki: true, ..Backup::of(SLOT) }).await;

    let rehearsal = rekey(&store, "--all --dry-run", &old, &[&public, &vault], 0).await;
    assert_eq!(row(&rehearsal, 0)["outcome"], "would-be-rekeyed");
    assert_eq!(shelf.bucket.versions("etcd/").await.unwrap().len(), 3);

    let lock = format!("{SLOT} --lock governance --lock-for 1d");
    let done = rekey(&store, &lock, &old, &[&public, &vault], 0).await;
    let made = row(&done, 0);
    assert_eq!(made["outcome"], "rekeyed");
    assert_eq!(made["lockMode"], "governance");
    let name = made["rekeyedAs"].as_str().unwrap();
    assert!(name.starts_with("20261130T060000Z-"), "{name}");
    assert!(!done.err.contains("one recipient only"), "{}", done.err);

    let listed = backup_at(&store).words("list -output json -i").arg(&new).run().await.expect(0);
    let (copy, first) = (row(&listed, 0), row(&listed, 1));
    assert_eq!((&copy["backup"], &copy["readable"]), (&name.into(), &true.into()));
    assert_eq!((&first["backup"], &first["readable"]), (&SLOT.into(), &false.into()));
    assert_eq!(copy["rekeyedFrom"], SLOT);
    assert_eq!(copy["revision"], original.revision);
    assert_eq!(copy["taken"], first["taken"], "it is the same moment of the cluster");
    assert_eq!(copy["recipients"], serde_json::json!([public, vault]));

    backup_at(&store).words("verify").arg(name).arg("-i").arg(&new).run().await.expect(0);
    let shut = backup_at(&store).words("verify").arg(name).arg("-i").arg(&old).run().await;
    shut.expect(1).says("none of the identities given (1) opens");

    // Of the same backup each key restores the copy that it opens, and that is said.
    let (stranger, _) = keygen(folder.path(), "stranger.txt");
    let said =
        format!("backup {name} is the newest, and no identity given opens it; backup {SLOT}");
    for (number, (identity, code, source, says)) in [
        (&new, 0, name, ""),
        (&old, 0, SLOT, &said[..]),
        (&stranger, 3, "", "none of the identities"),
    ]
    .into_iter()
    .enumerate()
    {
        let db = folder.path().join(format!("db-{number}"));
        let restore = backup_at(&store).words("restore -output json -i").arg(identity);
        let done = restore.arg("--db").arg(&db).run().await.expect(code).says(says);
        assert_eq!(db.exists(), code == 0);
        if code == 0 {
            assert_eq!(row(&done, 0)["source"], format!("backup {source}"));
            assert!(done.err.contains("no identity given") != says.is_empty(), "{}", done.err);
        }
    }
    let keys = backup_at(&store).words("restore -output json -i").arg(&old).arg("--pki");
    let keys = keys.arg(folder.path().join("keys")).run().await.expect(0);
    assert_eq!(row(&keys, 0)["source"], format!("backup {SLOT}"));

    let again = rekey(&store, "--all", &old, &[&public, &vault], 0).await;
    assert_eq!(
        (&row(&again, 0)["outcome"], &row(&again, 1)["outcome"]),
        (&"unchanged".into(), &"unchanged".into())
    );

    // Without a key nobody can tell a copy from a forgery: the original goes when that is said.
    let pruned = backup_at(&store).words("prune -output json --keep-last 5").run().await.expect(0);
    assert_eq!(
        (&row(&pruned, 0)["outcome"], &row(&pruned, 1)["outcome"]),
        (&"kept".into(), &"kept".into())
    );
    pruned.says("--remove-rekeyed");
    let words = "prune -output json --keep-last 5 --remove-rekeyed";
    let pruned = backup_at(&store).words(words).run().await.expect(0);
    assert_eq!(row(&pruned, 0)["outcome"], "kept");
    assert_eq!(row(&pruned, 1)["outcome"], "removed");
    assert_eq!(row(&pruned, 1)["why"], format!("rekeyed as {name}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_stored_in_clear_is_encrypted() {
    let store = Versitygw::start();
    let shelf = Shelf::of(&store).await;
    let folder = tempfile::tempdir().unwrap();
    let (new, public) = keygen(folder.path(), "new.txt");
    for (slot, level) in [(SLOT, Some(3)), ("20261130T120000Z", None)] {
        let layers = Layers { level, recipients: None };
        shelf.store(&Backup { layers, ..Backup::of(slot) }).await;
    }
    let done = rekey(&store, "--all", &new, &[&public], 0).await;
    assert_eq!(
        (&row(&done, 0)["outcome"], &row(&done, 1)["outcome"]),
        (&"rekeyed".into(), &"rekeyed".into())
    );
    done.says("one recipient only");
    backup_at(&store).words("verify -i").arg(&new).run().await.expect(0);
    let keys: Vec<_> =
        shelf.bucket.versions("etcd/").await.unwrap().into_iter().map(|v| v.key).collect();
    assert!(keys.iter().any(|key| key.ends_with(".db.age")), "{keys:?}");
    assert!(keys.iter().any(|key| key.ends_with(".db.zst.age")), "{keys:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_backup_is_not_made_to_look_good() {
    let store = Versitygw::start();
    let shelf = Shelf::of(&store).await;
    let folder = tempfile::tempdir().unwrap();
    let old = identity_file(folder.path());
    let (_, public) = keygen(folder.path(), "new.txt");
    let backup = Backup { pki: true, ..Backup::of(SLOT) };
    let manifest = shelf.begin(&backup).await;
    let good = shelf.bucket.get_small(&manifest.data.key, None, 1 << 30).await.unwrap().unwrap();
    for (what, said) in [
        ("flipped", "the encrypted data was changed"),
        ("another database", "is not what its manifest says"),
        ("another sum", "is not what its manifest says"),
        ("flipped keys", "the encrypted data was changed"),
    ] {
        let (mut lying, mut bytes) = (manifest.clone(), good.clone());
        match what {
            "flipped" => bytes[1000] ^= 1,
            "another database" => lying.db.sha256 = "a".repeat(64),
            "another sum" => lying.data.content.sha256 = "a".repeat(64),
            _ => {
                let pki = lying.pki.as_mut().unwrap();
                let mut keys =
                    shelf.bucket.get_small(&pki.key, None, 1 << 30).await.unwrap().unwrap();
                *keys.last_mut().unwrap() ^= 1;
                pki.version_id = shelf.replace(&pki.key, keys).await;
            }
        }
        lying.data.version_id = shelf.replace(&manifest.data.key, bytes).await;
        shelf.replace(&shelf.manifest_key(&backup), lying.to_json()).await;
        let done = rekey(&store, SLOT, &old, &[&public], 1).await;
        assert_eq!(row(&done, 0)["outcome"], "failed", "{what}");
        done.says(said);
        let left = shelf.bucket.versions("etcd/").await.unwrap();
        assert_eq!(left.len(), 3, "{what} left something: {left:?}");
        assert!(shelf.bucket.unfinished("etcd/").await.unwrap().is_empty(), "{what}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_fitting_key_or_a_recipient_nothing_is_done() {
    let store = Versitygw::start();
    let shelf = Shelf::of(&store).await;
    shelf.store(&Backup::of(SLOT)).await;
    let folder = tempfile::tempdir().unwrap();
    let old = identity_file(folder.path());
    let (other, public) = keygen(folder.path(), "other.txt");
    shelf.store(&Backup::of("20261130T120000Z")).await;
    let done = rekey(&store, "--all", &other, &[&public], 1).await;
    let count = |text: &str| done.err.matches(text).count();
    assert_eq!((count("none of the identities given opens it"), count(PUBLIC)), (2, 1));
    rekey(&store, SLOT, &old, &[], 2).await.says("no recipient is given");
    rekey(&store, "", &old, &[&public], 2).await.says("BACKUP");
    rekey(&store, "20200101T000000Z", &old, &[&public], 3).await.says("there is no backup");
    let leaked = backup_at(&store).words("rekey --all -i").arg(&old).arg("-R").arg(&old);
    let leaked = leaked.run().await.expect(2);
    leaked.says("line 2: this is an identity: a secret key, in a place for public ones");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_a_store_forgets_is_missed() {
    let store = Moto::start();
    let shelf = Shelf::of(&store).await;
    let folder = tempfile::tempdir().unwrap();
    let old = identity_file(folder.path());
    let (_, public) = keygen(folder.path(), "new.txt");
    // Large enough to go in parts, whose lock moto drops.
    let mut seed = 1_u64;
    let mut noise = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        seed.to_be_bytes()[0]
    };
    let mut db = crate::support::stored::database(100);
    db.extend((0..17 << 20).map(|_| noise()));
    let lock = Some((Mode::Governance, 1_924_992_000));
    shelf.store(&Backup { lock, db, ..Backup::of(SLOT) }).await;
    let words = format!("{SLOT} --lock governance --lock-for 1d");
    let done = rekey(&store, &words, &old, &[&public], 5).await;
    assert_eq!(row(&done, 0)["outcome"], "rekeyed");
    done.says("is stored, and its lock is not as asked: data-");
    store.aws(&["s3api", "head-bucket", "--bucket", BUCKET]).expect(0);
}
