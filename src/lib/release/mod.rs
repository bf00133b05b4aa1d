//! What a release of the manager consists of: its CRDs, everything that `clusterctl init`
//! installs, and the file that says which contract it keeps.
//!
//! **Purpose.** Three texts out of the code itself, so that what is installed, what is documented
//! and what the manager reads are one thing.
//!
//! **What may enter.** Objects of Kubernetes as values. No I/O, no client, no clock: the same
//! image and version give the same bytes.
//!
//! **Invariants**
//! - Every object carries the label `cluster.x-k8s.io/provider` (contract, 3.2).
//! - No webhook, no certificate, nothing that needs cert-manager: admission is CEL.
//! - The manager may do what it does and nothing more; each permission in [`rbac`] says what for.
//! - Nothing that clusterctl would take for a variable (`${`) or an escape (`$$`).
//!
//! **To add an object:** a function that makes it, in the file of its kind, and its place in
//! [`objects`]. To add a permission: a rule in [`rbac`] with what it is for.

mod crds;
mod deployment;
mod error;
mod policy;
mod rbac;
mod request;

use serde_json::{Value, json};

pub use crds::definitions;
pub use error::Error;
pub use policy::policies;
pub use request::{Image, Release, Version};

use crate::yaml;

/// Where the manager lives, unless clusterctl is told otherwise.
pub const NAMESPACE: &str = "capvco-system";
/// The label of everything that is installed, and its value (contract, 3.2).
pub const PROVIDER_LABEL: (&str, &str) = ("cluster.x-k8s.io/provider", "infrastructure-vco");

/// The minor versions that there are, and the contract that each keeps.
const SERIES: &[(u64, u64, &str)] = &[(0, 1, "v1beta2")];

/// The CRDs as YAML, a document a kind.
pub fn crds() -> Result<String, Error> {
    written(&definitions())
}

/// `infrastructure-components.yaml`: everything that is installed, in the order of installation.
pub fn components(release: &Release) -> Result<String, Error> {
    written(&objects(release))
}

/// `metadata.yaml`: which contract each minor version keeps (contract, 3.1).
pub fn metadata() -> Result<String, Error> {
    let series = SERIES.iter().map(
        |(major, minor, contract)| json!({"major": major, "minor": minor, "contract": contract}),
    );
    let metadata = json!({
        "apiVersion": "clusterctl.cluster.x-k8s.io/v1alpha3",
        "kind": "Metadata",
        "releaseSeries": series.collect::<Vec<_>>(),
    });
    Ok(yaml::to_string(&metadata, "metadata.yaml")?)
}

/// What [`components`] writes, as values.
#[must_use]
pub fn objects(release: &Release) -> Vec<Value> {
    let mut objects = vec![deployment::namespace()];
    objects.extend(definitions());
    objects.extend(rbac::all());
    objects.extend(policies());
    objects.push(deployment::manager(release));
    let (label, provider) = PROVIDER_LABEL;
    for object in &mut objects {
        object["metadata"]["labels"][label] = provider.into();
    }
    objects
}

fn written(objects: &[Value]) -> Result<String, Error> {
    let mut text = String::new();
    for object in objects {
        text.push_str("---\n");
        text.push_str(&yaml::to_string(object, "the release")?);
    }
    Ok(text)
}

#[cfg(test)]
mod tests;
