//! The keys that backups are opened with: every form that users have, and no word of any key.

use std::path::{Path, PathBuf};

use crate::support::peers::s3::Versitygw;
use crate::support::peers::{clean, run, tool};
use crate::support::program::{Done, Program, backup_at};
use crate::support::stored::{Backup, KEY, PUBLIC, Shelf};

const SLOT: &str = "20261130T060000Z";
const PASSPHRASE: &str = "planted correct horse";

fn file(folder: &Path, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
    use std::os::unix::fs::PermissionsExt as _;
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    path
}

/// The key as a file encrypted with a passphrase by the real age.
pub fn encrypted(folder: &Path, armor: bool) -> PathBuf {
    let clear = file(folder, "clear.txt", format!("# mine\n{KEY}\n"));
    let sealed = folder.join(format!("key.{armor}.age"));
    let path = tool("age");
    let mut age = clean(&path);
    let own = path.parent().unwrap().display().to_string();
    age.env("PATH", format!("{own}:{}", std::env::var("PATH").unwrap_or_default()));
    age.env("AGE_PASSPHRASE", PASSPHRASE).env("AGE_PASSPHRASE_WORK_FACTOR", "12");
    age.args(["-e", "-j", "batchpass"]).args(if armor { &["-a"][..] } else { &[] });
    run(age.arg("-o").arg(&sealed).arg(&clear)).expect(0);
    sealed
}

/// Runs it; nothing secret may come out, however much is asked for.
async fn opens(program: Program, code: i32) -> Done {
    let done = program.words("-vv -output json").run().await.expect(code);
    for secret in [KEY, &KEY[20..60], PASSPHRASE, "root-secret"] {
        assert!(!done.out.contains(secret) && !done.err.contains(secret), "{}", done.err);
    }
    if code == 0 {
        assert_eq!(done.json()["results"][0]["readable"], true);
    }
    done
}

#[tokio::test(flavor = "multi_thread")]
async fn identity_files_of_every_form_open_a_backup() {
    let store = Versitygw::start();
    Shelf::of(&store).await.store(&Backup::of(SLOT)).await;
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let list = || backup_at(&store).words("list");
    let other = folder.join("other.txt");
    run(clean(tool("age-keygen")).arg("-o").arg(&other)).expect(0);
    let text = std::fs::read_to_string(&other).unwrap();

    opens(list().arg("-i").arg(file(folder, "plain", format!("{KEY}\n"))), 0).await;
    opens(list().arg("-i").arg(file(folder, "crlf", format!("# x\r\n\r\n{KEY}\r\n"))), 0).await;
    opens(list().arg("-i").arg(file(folder, "cut end", KEY)), 0).await;
    opens(list().arg("-i").arg(file(folder, "two", format!("{text}\n{KEY}\n"))), 0).await;
    let both = list().arg("-i").arg(&other).arg("-i").arg(folder.join("plain"));
    opens(both, 0).await;
    opens(list().arg("-i").arg("-").stdin(format!("{KEY}\n")), 0).await;
    opens(list().env("CAPVCO_BACKUP_IDENTITY", folder.join("plain")), 0).await;

    let bom = file(folder, "bom", format!("\u{FEFF}{KEY} \n"));
    let done = opens(list().arg("-i").arg(bom), 0).await;
    done.says("the byte order mark at its beginning was ignored")
        .says("blanks at the end of line 1");
    let open = file(folder, "open", KEY);
    run(clean("chmod").arg("644").arg(&open)).expect(0);
    opens(list().arg("-i").arg(open), 0).await.says("can be read by others than its owner");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_encrypted_identity_file_asks_for_its_passphrase() {
    let store = Versitygw::start();
    Shelf::of(&store).await.store(&Backup::of(SLOT)).await;
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for armor in [false, true] {
        let key = encrypted(folder, armor);
        let list = || backup_at(&store).words("list -i").arg(&key);
        let passphrase = file(folder, "passphrase", format!("{PASSPHRASE}\nmore\n"));
        opens(list().arg("--passphrase-file").arg(&passphrase), 0).await;
        opens(list().env("CAPVCO_BACKUP_PASSPHRASE", PASSPHRASE), 0).await;
        let wrong = opens(list().env("CAPVCO_BACKUP_PASSPHRASE", "planted wrong horse"), 3).await;
        assert!(!wrong.err.contains("planted wrong horse"), "{}", wrong.err);
        wrong.says("the passphrase is wrong");
        let nobody = opens(list(), 2).await;
        nobody.says("a passphrase is needed, and there is no terminal to ask on");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_identity_is_told_by_its_kind_and_line() {
    let store = Versitygw::start();
    Shelf::of(&store).await.store(&Backup::of(SLOT)).await;
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let pq = folder.join("pq");
    run(clean(tool("age-keygen")).arg("-pq").arg("-o").arg(&pq)).expect(0);
    for (name, text, said) in [
        ("empty", String::new(), "there is no identity in it"),
        ("comments", "# a\n#b\n".to_owned(), "there is no identity in it"),
        ("recipients", format!("# x\n{PUBLIC}\n"), "line 2: this is a recipient (a public key)"),
        (
            "cut",
            format!("{KEY}\n{}\n", &KEY[..40]),
            "line 2: the key has 40 characters instead of 74",
        ),
        ("mistyped", KEY.replace("Q2Y", "Q2Z"), "line 1: the key's own checksum does not fit"),
        ("plugin", "AGE-PLUGIN-YUBIKEY-1QQQQQQ\n".to_owned(), "a key of the age plugin yubikey"),
        ("ssh", "-----BEGIN OPENSSH PRIVATE KEY-----\nQ\n".to_owned(), "this is an SSH key"),
        ("indented", format!("  {KEY}\n"), "line 1: a blank at the beginning"),
        ("pq", std::fs::read_to_string(&pq).unwrap(), "post-quantum identity, not supported by"),
        ("zip", "PK\u{3}\u{4}".to_owned(), "this is a zip archive, no list of keys"),
    ] {
        let path = file(folder, name, text);
        opens(backup_at(&store).words("list -i").arg(path), 2).await.says(said);
    }
    let large = file(folder, "large", vec![b'#'; (16 << 20) + 1]);
    opens(backup_at(&store).words("list -i").arg(large), 2).await.says("larger than 16 MiB");
    let missing = backup_at(&store).words("list -i /nowhere/key.txt");
    opens(missing, 2).await.says("cannot read identity file /nowhere/key.txt");
}
