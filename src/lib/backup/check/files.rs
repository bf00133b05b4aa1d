//! What lies on this machine: certificates and public keys.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::super::certificates;
use super::super::node::Node;
use super::super::recipients as public_keys;
use super::super::snapshot;
use super::super::snapshot::observe::{files, key_folders};
use super::report::{Outcome, Row};
use super::{Request, judge};

/// The certificates below kubeadm's folder that a control plane cannot do without
/// (kubeadm 1.36 `cmd/kubeadm/app/phases/certs`).
const KUBEADMS: [&str; 5] =
    ["ca.crt", "etcd/ca.crt", "etcd/server.crt", "etcd/peer.crt", "etcd/healthcheck-client.crt"];

/// The days that are left to every certificate in use.
pub fn certificates(request: &Request, node: &Node, now: f64) -> Vec<Row> {
    let access = request.etcd.access(node);
    let mut paths: BTreeSet<PathBuf> =
        [access.ca, access.cert, request.target.s3.ca_file.clone()].into_iter().flatten().collect();
    if node.etcd.is_some() {
        for folder in key_folders(node, request.pki_dir.as_deref()) {
            let below = KUBEADMS.iter().map(|name| folder.join(name));
            paths.extend(below.filter(|path| path.exists()));
        }
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is after 1970")]
    let now = now as u64;
    paths.iter().map(|path| of_file(path, now)).collect()
}

/// What of the node goes along with a backup.
pub fn keys(request: &Request, node: &Node) -> Vec<Row> {
    let found = files(node, request.etcd.manifests.folder(), request.pki_dir.as_deref());
    let row = |outcome, detail: String| Row::new("node", "keys and manifests", outcome, detail);
    let plan = match snapshot::node_files::pki(request.include_pki, !request.no_encrypt, &found) {
        Ok(plan) => plan,
        Err(error) => {
            return vec![Row::of_error("node", "keys and manifests", Outcome::Failed, &error)];
        }
    };
    let went = match &plan.paths[..] {
        [] if found.control_plane => {
            row(Outcome::Warning, "they are left out: they have to be kept elsewhere".to_owned())
        }
        [] => row(Outcome::Skipped, "this is no control-plane node".to_owned()),
        paths => {
            let folders = found.pki.iter().map(|folder| folder.display().to_string());
            let folders = folders.collect::<Vec<_>>().join(", ");
            let files = paths.len() - found.pki.len();
            row(Outcome::Good, format!("{folders} and {files} files beside go along"))
        }
    };
    let told = plan.warnings.into_iter().map(|warning| row(Outcome::Warning, warning));
    std::iter::once(went).chain(told).collect()
}

fn of_file(path: &Path, now: u64) -> Row {
    let name = path.display().to_string();
    match certificates::read(path) {
        Ok(found) => match found.iter().map(|one| one.days_left(now)).min() {
            Some(days) => judge::days_left(&name, days),
            None => Row::new("certificates", name, Outcome::Failed, "it holds no certificate"),
        },
        Err(error) => Row::of_error("certificates", name, Outcome::Failed, &error),
    }
}

/// For whom backups are encrypted.
pub fn recipients(request: &Request) -> Vec<Row> {
    match public_keys::read(&request.recipients, &request.recipients_files) {
        Ok((found, remarks)) => {
            let keys = found.as_ref().map(|all| all.texts().to_vec()).unwrap_or_default();
            let told = |remark| Row::new("encryption", "recipients", Outcome::Warning, remark);
            let mut rows = vec![judge::recipients(keys.len(), request.no_encrypt)];
            rows.extend(remarks.into_iter().map(told));
            let given = request.identities.as_ref();
            rows.extend(given.map(|given| judge::identities(given.public(), &keys)));
            rows
        }
        Err(error) => {
            vec![Row::of_error("encryption", "recipients", Outcome::Failed, &error)]
        }
    }
}
