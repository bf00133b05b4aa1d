//! What a kubelet does in its cluster: it shows its Node and the mirrors of its static pods, and
//! keeps them up.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};

use super::dark::Dark;
use super::objects::{Kubelet, lease, running, unknown};
use crate::clock::{Clock as _, System};

/// How often one looks for pods that are to end.
const LOOK: Duration = Duration::from_secs(2);

/// After how many looks the Lease is renewed: every 10 s, as a kubelet does.
const LOOKS_A_LEASE: u32 = 5;

/// What is known of a machine's static pods.
pub(super) trait StaticPods: Send + Sync {
    /// Whether the server of one runs.
    fn runs(&self, component: &str) -> bool;

    /// The annotations of its manifest: kubeadm finds etcd's members by them.
    fn annotations(&self, component: &str) -> BTreeMap<String, String>;
}

/// Writes what a kubelet would: its Node, and the mirrors of its static pods.
pub(super) async fn show(
    client: &Client,
    kubelet: &Kubelet,
    pods: &dyn StaticPods,
) -> Result<(), Dark> {
    let now = now();
    let nodes: Api<Node> = Api::all(client.clone());
    let made = nodes.create(&PostParams::default(), &object(kubelet.node(&now))?).await;
    let node = match made {
        Err(kube::Error::Api(status)) if status.is_already_exists() => {
            let status = json!({"status": kubelet.status(&now)});
            nodes.patch_status(kubelet.name(), &PatchParams::default(), &Patch::Merge(status)).await
        }
        made => made,
    };
    let node = node.map_err(Dark::api("the Node"))?;
    mirror(client, kubelet, &node, pods).await
}

/// Makes the mirrors of static pods that are not there, and says of each whether it runs.
async fn mirror(
    client: &Client,
    kubelet: &Kubelet,
    node: &Node,
    pods: &dyn StaticPods,
) -> Result<(), Dark> {
    let (now, uid) = (now(), node.uid().unwrap_or_default());
    let api: Api<Pod> = Api::namespaced(client.clone(), "kube-system");
    for component in kubelet.components() {
        let (name, runs) = (format!("{component}-{}", kubelet.name()), pods.runs(component));
        let there = api.get_opt(&name).await.map_err(Dark::api("a static pod's mirror"))?;
        if there.as_ref().is_some_and(|pod| is_ready(pod) == Some(runs)) {
            continue;
        }
        if there.is_none() {
            let pod = kubelet.pod(component, &uid, pods.annotations(component), &now);
            let made = api.create(&PostParams::default(), &object(pod)?).await;
            made.map_err(Dark::api("a static pod's mirror"))?;
        }
        let status = Patch::Strategic(running(component, runs, &now));
        let patched = api.patch_status(&name, &PatchParams::default(), &status).await;
        patched.map_err(Dark::api("a static pod's status"))?;
    }
    Ok(())
}

fn is_ready(pod: &Pod) -> Option<bool> {
    let all = pod.status.as_ref()?.conditions.as_ref()?;
    all.iter().find(|one| one.type_ == "Ready").map(|one| one.status == "True")
}

/// Takes back what was shown: what a cluster would notice by itself of a machine that is off.
pub(super) async fn hide(client: &Client, kubelet: &Kubelet) -> Result<(), Dark> {
    let absent = |error: &kube::Error| matches!(error, kube::Error::Api(s) if s.is_not_found());
    let (nodes, name) = (Api::<Node>::all(client.clone()), kubelet.name());
    let silent = Patch::Strategic(unknown(&now()));
    match nodes.patch_status(name, &PatchParams::default(), &silent).await {
        Err(error) if absent(&error) => {}
        patched => drop(patched.map_err(Dark::api("the Node's status"))?),
    }
    let pods: Api<Pod> = Api::namespaced(client.clone(), "kube-system");
    for component in kubelet.components() {
        match pods.delete(&format!("{component}-{name}"), &at_once()).await {
            Err(error) if absent(&error) => {}
            deleted => drop(deleted.map_err(Dark::api("to delete a mirror"))?),
        }
    }
    Ok(())
}

/// Goes on as a kubelet does: renews the Lease, comes back where it was taken for lost, keeps the
/// mirrors up, and ends the pods that are to end. A cluster that does not answer is asked again.
pub(super) async fn keep(client: Client, kubelet: Kubelet, pods: &dyn StaticPods) {
    let clock = System::new();
    for look in 0_u32.. {
        let looked = async {
            if look.is_multiple_of(LOOKS_A_LEASE) {
                beat(&client, &kubelet, pods).await?;
            }
            finish(&client, kubelet.name()).await
        };
        if let Err(error) = looked.await {
            tracing::debug!(target: "capvco::sim", "{}: {}", kubelet.name(), error.whole());
        }
        clock.sleep(LOOK).await;
    }
}

async fn beat(client: &Client, kubelet: &Kubelet, pods: &dyn StaticPods) -> Result<(), Dark> {
    let nodes: Api<Node> = Api::all(client.clone());
    let node = nodes.get_opt(kubelet.name()).await.map_err(Dark::api("to read the Node"))?;
    // A Node that somebody deletes does not come back before the next boot.
    let Some(node) = node else { return Ok(()) };
    let renewed = object::<Lease>(lease(&json!(node), &micros()))?;
    let leases: Api<Lease> = Api::namespaced(client.clone(), "kube-node-lease");
    let params = PatchParams::apply("kubelet").force();
    let patched = leases.patch(kubelet.name(), &params, &Patch::Apply(&renewed)).await;
    patched.map_err(Dark::api("its Lease"))?;
    let status = node.status.as_ref();
    let all = status.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    if !all.iter().any(|one| one.type_ == "Ready" && one.status == "True") {
        let status = Patch::Strategic(json!({"status": kubelet.status(&now())}));
        let patched = nodes.patch_status(kubelet.name(), &PatchParams::default(), &status).await;
        patched.map_err(Dark::api("the Node's status"))?;
    }
    mirror(client, kubelet, &node, pods).await
}

/// Ends the pods of a Node that are to end: whoever drains it waits for that.
pub(super) async fn finish(client: &Client, node: &str) -> Result<(), Dark> {
    let pods: Api<Pod> = Api::all(client.clone());
    let here = ListParams::default().fields(&format!("spec.nodeName={node}"));
    let all = pods.list_metadata(&here).await.map_err(Dark::api("to list its pods"))?;
    for pod in all.items.iter().filter(|pod| pod.metadata.deletion_timestamp.is_some()) {
        let there: Api<Pod> =
            Api::namespaced(client.clone(), pod.namespace().as_deref().unwrap_or_default());
        match there.delete(&pod.name_any(), &at_once()).await {
            Err(kube::Error::Api(status)) if status.is_not_found() => {}
            deleted => drop(deleted.map_err(Dark::api("to end a pod"))?),
        }
    }
    Ok(())
}

fn at_once() -> DeleteParams {
    DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() }
}

fn object<T: serde::de::DeserializeOwned>(of: Value) -> Result<T, Dark> {
    serde_json::from_value(of).map_err(|_| Dark::Strange("an object of a guest"))
}

fn now() -> String {
    at(System::new().unix().floor()).to_string()
}

fn micros() -> String {
    format!("{:.6}", at(System::new().unix()))
}

fn at(unix: f64) -> Timestamp {
    let since = SignedDuration::try_from_secs_f64(unix);
    since.and_then(Timestamp::from_duration).unwrap_or_default()
}
