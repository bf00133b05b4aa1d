//! The node's keys go along, encrypted, and nothing secret is ever said.

use std::process::Command;

use super::{Desk, named, row};
use crate::support::peers::etcd::Etcd;
use crate::support::peers::fill::Values;
use crate::support::peers::run;
use crate::support::peers::s3::{S3, Versitygw};
use crate::support::program::{Done, Program, backup_at};

const PLANTED: &str = "planted-hunter2-secret";

/// A control-plane node as kubeadm lays it out, with secrets in every file.
fn node(desk: &Desk, etcd: &Etcd) {
    let root = desk.folder.path();
    for folder in ["manifests", "pki/etcd"] {
        std::fs::create_dir_all(root.join(folder)).unwrap();
    }
    let endpoint = etcd.endpoint();
    let etcd = format!(
        "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - name: etcd\n    \
         image: registry.k8s.io/etcd:3.7.3-0\n    command:\n    - etcd\n    - --name=cp-7\n    \
         - --data-dir=/var/lib/etcd\n    - --advertise-client-urls={endpoint}\n"
    );
    let server = format!(
        "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - name: kube-apiserver\n    command:\n    \
         - kube-apiserver\n    - --encryption-provider-config={0}/enc.yaml\n    \
         - --audit-policy-file={0}/audit.yaml\n",
        root.display()
    );
    for (name, text) in [
        ("manifests/etcd.yaml", etcd.as_str()),
        ("manifests/kube-apiserver.yaml", server.as_str()),
        ("enc.yaml", PLANTED),
        ("audit.yaml", "rules: []"),
        ("pki/ca.key", PLANTED),
        ("pki/etcd/ca.crt", "certificate"),
    ] {
        std::fs::write(root.join(name), text).unwrap();
    }
}

fn on_node(desk: &Desk, etcd: &Etcd, s3: &S3) -> Program {
    let program = desk.snapshot(etcd, s3).env("CAPVCO_BACKUP_MANIFESTS", desk.path("manifests"));
    program.env("CAPVCO_BACKUP_PKI_DIR", desk.path("pki")).env("CAPVCO_BACKUP_NODE", "")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_control_plane_nodes_keys_and_manifests_are_in_a_second_object() {
    let (desk, s3, etcd) = (Desk::new(), Versitygw::start(), Etcd::start());
    node(&desk, &etcd);
    let row = row(&on_node(&desk, &etcd, &s3).run().await.expect(0));
    assert_eq!(row["node"], "cp-7", "as its manifest names it");
    let sealed = desk.fetch(&s3, row["pkiKey"].as_str().unwrap());
    let tar = desk.open(&sealed, "two.txt", "tar");
    let listed = run(Command::new("tar").arg("-tf").arg(&tar)).expect(0).out;
    for name in ["pki/ca.key", "pki/etcd/ca.crt", "enc.yaml", "audit.yaml", "manifests/etcd.yaml"] {
        assert!(listed.lines().any(|line| line.ends_with(name)), "{name} is not in\n{listed}");
    }
    let bytes = std::fs::read(&sealed).unwrap();
    assert!(!String::from_utf8_lossy(&bytes).contains(PLANTED));
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_not_stored_in_the_clear_and_their_absence_is_warned_of() {
    let (desk, s3, etcd) = (Desk::new(), Versitygw::start(), Etcd::start());
    node(&desk, &etcd);
    let clear = |words: &str| {
        let program = on_node(&desk, &etcd, &s3).env("CAPVCO_BACKUP_RECIPIENT", "");
        program.words("--no-encrypt").words(words)
    };
    for words in ["", "--include-pki", "--include-pki=true"] {
        clear(words).run().await.expect(3).says("without encryption").says("--include-pki=false");
    }
    assert_eq!(named(&s3, "").len(), 0);
    let done = clear("--include-pki=false").run().await.expect(0);
    done.says("enc.yaml is not included").says("Secrets of this backup cannot be read");
    assert_eq!(named(&s3, "pki-").len(), 0);
    let asked = desk.snapshot(&etcd, &s3).words("--include-pki").run().await.expect(3);
    asked.says("there are none").says("--pki-dir");
    assert_eq!(named(&s3, "pki-").len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_control_plane_node_is_not_backed_up_without_its_keys_unless_that_is_said() {
    let (desk, s3, etcd) = (Desk::new(), Versitygw::start(), Etcd::start());
    node(&desk, &etcd);
    let empty = desk.path("empty");
    std::fs::create_dir(&empty).unwrap();
    for folder in [desk.path("nowhere"), empty] {
        let here = || on_node(&desk, &etcd, &s3).env("CAPVCO_BACKUP_PKI_DIR", &folder);
        let refused = here().run().await.expect(3).says(folder.to_str().unwrap());
        refused.says("--pki-dir").says("--include-pki=false");
        assert_eq!(named(&s3, "").len(), 0, "refused before anything is stored");
        let checked = backup_at(&s3)
            .words("check --output json --lock none")
            .env("CAPVCO_BACKUP_MANIFESTS", desk.path("manifests"));
        let checked = checked
            .env("CAPVCO_BACKUP_PKI_DIR", &folder)
            .env("CAPVCO_BACKUP_RECIPIENT", desk.recipients.join(","))
            .env("ETCDCTL_ENDPOINTS", etcd.endpoint());
        let checked = checked.run().await.expect(1);
        let rows = checked.json()["results"].as_array().unwrap().clone();
        let keys = rows.iter().find(|row| row["check"] == "keys and manifests").unwrap();
        assert_eq!(keys["outcome"], "failed", "{keys}");
        here().words("--include-pki=false --dry-run").run().await.expect(0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_found_where_the_manifests_name_them() {
    let (desk, s3, etcd) = (Desk::new(), Versitygw::start(), Etcd::start());
    node(&desk, &etcd);
    std::fs::rename(desk.path("pki"), desk.path("ssl")).unwrap();
    let manifest = desk.path("manifests/kube-apiserver.yaml");
    let text = std::fs::read_to_string(&manifest).unwrap();
    let ca = desk.path("ssl/ca.crt");
    std::fs::write(&manifest, format!("{text}    - --client-ca-file={}\n", ca.display())).unwrap();
    let row =
        row(&on_node(&desk, &etcd, &s3).env("CAPVCO_BACKUP_PKI_DIR", "").run().await.expect(0));
    let sealed = desk.fetch(&s3, row["pkiKey"].as_str().unwrap());
    let tar = desk.open(&sealed, "two.txt", "tar");
    let listed = run(Command::new("tar").arg("-tf").arg(&tar)).expect(0).out;
    assert!(listed.lines().any(|line| line.ends_with("ssl/ca.key")), "{listed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_recipient_is_warned_of_and_none_is_refused() {
    let (desk, s3, etcd) = (Desk::new(), Versitygw::start(), Etcd::start());
    let to = |keys: &str| {
        desk.unlocked(&etcd, &s3).env("CAPVCO_BACKUP_RECIPIENT", keys).words("--lock none")
    };
    to(&desk.recipients[0]).run().await.expect(0).says("there is only one recipient");
    to("").run().await.expect(2).says("to whom the backup is encrypted").says("age-keygen");
    to(&desk.recipients[0]).words("--no-encrypt").run().await.expect(2).says("both recipients");
    let both = to(&desk.recipients.join(",")).run().await.expect(0);
    assert!(!both.err.contains("recipient"), "{}", both.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_bucket_the_keys_lie_beside_the_copy() {
    let (desk, s3, etcd) = (Desk::new(), Versitygw::start(), Etcd::start());
    node(&desk, &etcd);
    let program = on_node(&desk, &etcd, &s3).env("CAPVCO_BACKUP_S3_BUCKET", "");
    let done = program.arg("--out").arg(desk.path("copy")).run().await.expect(0);
    let path = desk.path("copy.pki.tar.zst.age");
    assert_eq!(row(&done)["pkiKey"], path.to_str().unwrap());
    desk.open(&path, "one.txt", "tar");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_secret_is_ever_said() {
    let (desk, s3, etcd) = (Desk::new(), Versitygw::start(), Etcd::start());
    node(&desk, &etcd);
    etcd.etcdctl(&["put", "/registry/secrets/default/a", PLANTED]);
    etcd.fill(20, 100, Values::Random);
    let wrong = s3.with_key(s3.access_key(), PLANTED);
    let leaked = desk.path("leaked.txt");
    std::fs::write(&leaked, format!("AGE-SECRET-KEY-1{}\n", PLANTED.to_uppercase())).unwrap();
    let runs: Vec<(&str, Program)> = vec![
        ("a good one", on_node(&desk, &etcd, &s3)),
        ("a wrong secret", on_node(&desk, &etcd, &wrong)),
        ("an identity for a recipient", on_node(&desk, &etcd, &s3).arg("-R").arg(&leaked)),
        (
            "an identity as a recipient",
            on_node(&desk, &etcd, &s3).env("CAPVCO_BACKUP_RECIPIENT", format!("AGE-{PLANTED}")),
        ),
        (
            "a password in the endpoint",
            on_node(&desk, &etcd, &s3).env("ETCDCTL_ENDPOINTS", format!("http://a:{PLANTED}@b:1")),
        ),
        (
            "a password in the store's endpoint",
            on_node(&desk, &etcd, &s3)
                .env("CAPVCO_BACKUP_S3_ENDPOINT", format!("http://a:{PLANTED}@127.0.0.1:1"))
                .words("--stall-timeout 1s"),
        ),
        (
            "a key for a certificate",
            on_node(&desk, &etcd, &s3)
                .env("ETCDCTL_ENDPOINTS", "https://127.0.0.1:1")
                .env("ETCDCTL_CERT", desk.path("enc.yaml"))
                .env("ETCDCTL_KEY", desk.path("enc.yaml")),
        ),
    ];
    for (name, program) in runs {
        let Done { out, err, code } = program.words("-vv").run().await;
        let said = format!("{out}{err}").to_lowercase();
        assert!(!said.contains(PLANTED), "{name} (exit {code}):\n{out}\n{err}");
        assert!(!said.contains(s3.secret_key()), "{name} (exit {code}):\n{out}\n{err}");
        assert_eq!(code == 0, name == "a good one", "{name}: {err}");
    }
}
