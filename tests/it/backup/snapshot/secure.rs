//! etcd behind TLS, as kubeadm sets it up: the node's own files are found and used.

use std::path::Path;
use std::sync::Arc;

use super::{Desk, row};
use crate::support::peers::etcd::Etcd;
use crate::support::peers::s3::Versitygw;
use crate::support::peers::tls::Tls;
use crate::support::program::Program;

/// kubeadm's files: an authority, a client certificate, and a manifest that names the authority.
fn node(desk: &Desk, tls: &Tls) {
    let pki = desk.path("pki/etcd");
    std::fs::create_dir_all(&pki).unwrap();
    std::fs::create_dir_all(desk.path("manifests")).unwrap();
    for (from, to) in [
        ("ca.crt", "ca.crt"),
        ("client.crt", "healthcheck-client.crt"),
        ("client.key", "healthcheck-client.key"),
    ] {
        std::fs::copy(tls.path(from), pki.join(to)).unwrap();
    }
    let manifest = format!(
        "spec:\n  containers:\n  - name: etcd\n    image: registry.k8s.io/etcd:3.7.3-0\n    \
         command:\n    - etcd\n    - --name=cp-9\n    - --data-dir=/var/lib/etcd\n    \
         - --trusted-ca-file={}/ca.crt\n",
        pki.display()
    );
    std::fs::write(desk.path("manifests/etcd.yaml"), manifest).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_nodes_own_certificates_are_used_and_what_is_wrong_with_others_is_told() {
    let (desk, s3, tls) = (Desk::new(), Versitygw::start(), Arc::new(Tls::new()));
    let etcd = Etcd::builder().client_auth(&tls).start();
    node(&desk, &tls);
    let on_node = || -> Program {
        let program = desk.unlocked(&etcd, &s3).words("--lock none --include-pki=false");
        program.env("CAPVCO_BACKUP_MANIFESTS", desk.path("manifests"))
    };
    let done = on_node().env("CAPVCO_BACKUP_NODE", "").run().await.expect(0);
    assert_eq!(row(&done)["node"], "cp-9");

    let other = Tls::new();
    let foreign = |name: &str| other.path(name);
    let cases: [(&str, &Path, &str); 3] = [
        ("ETCDCTL_CACERT", &foreign("ca.crt"), "an authority that is not trusted here"),
        ("ETCDCTL_CERT", &foreign("client.crt"), "does not accept the client certificate"),
        ("ETCDCTL_CERT", &desk.path("gone.crt"), "gone.crt"),
    ];
    for (variable, path, text) in cases {
        let mut program = on_node().env(variable, path);
        if variable == "ETCDCTL_CERT" {
            program = program.env("ETCDCTL_KEY", foreign("client.key"));
        }
        let done = program.run().await;
        assert!(matches!(done.code, 2 | 3), "{variable}: {}", done.err);
        done.says("no member of etcd can be asked").says(text);
    }

    // Without kubeadm's files and without flags there is no certificate to show.
    let bare = desk.unlocked(&etcd, &s3).env("ETCDCTL_CACERT", tls.path("ca.crt"));
    let bare = bare.words("--lock none").run().await.expect(3);
    bare.says("it wants a client certificate").says("healthcheck-client");
}
