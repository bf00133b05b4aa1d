//! What a real API server takes and refuses of our kinds: rules in CRDs and policies, both ways.
//!
//! All of it is on the plane that the whole run shares, a namespace a test.

mod change;
mod create;
mod install;
mod policy;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};

use capvco::release::definitions;
use kube::api::{
    Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams,
};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use crate::support::peers::kube::KubePlane;

/// Where and why something is refused.
type Refusal = Option<(&'static str, &'static str)>;

/// A namespace on the shared plane.
pub struct Desk {
    client: Client,
    space: String,
    next: AtomicU32,
}

impl Desk {
    fn open() -> Self {
        let plane = KubePlane::shared();
        Self { client: plane.client(), space: plane.namespace(), next: AtomicU32::new(0) }
    }

    fn space(&self) -> &str {
        &self.space
    }

    fn api(&self, kind: &str) -> Api<DynamicObject> {
        let gvk = GroupVersionKind::gvk("infrastructure.cluster.x-k8s.io", "v1beta1", kind);
        Api::namespaced_with(self.client.clone(), &self.space, &ApiResource::from_gvk(&gvk))
    }

    /// An object of the kind with `over` laid over the usual spec.
    fn object(&self, kind: &str, over: &Value) -> DynamicObject {
        let name = format!("n{}", self.next.fetch_add(1, Ordering::Relaxed));
        let mut spec = match kind {
            "VCOCluster" | "VCOClusterTemplate" => {
                json!({"credentialSecretRef": {"name": "cloud"}, "location": "be-mac-dc01-001"})
            }
            _ => json!({"imageName": "k8s-v1", "vcpus": 2, "memoryMiB": 4096, "bootDiskGiB": 20}),
        };
        lay(&mut spec, over);
        if kind.ends_with("Template") {
            spec = json!({"template": {"spec": spec}});
        }
        let mut object = json!({"metadata": {"name": name}, "spec": spec});
        object["apiVersion"] = "infrastructure.cluster.x-k8s.io/v1beta1".into();
        object["kind"] = kind.into();
        serde_json::from_value(object).unwrap()
    }

    /// What the API server says to an object that is to be made, and is not.
    async fn judge(&self, kind: &str, over: &Value) -> Result<DynamicObject, String> {
        let params = PostParams { dry_run: true, ..PostParams::default() };
        said(self.api(kind).create(&params, &self.object(kind, over)).await)
    }

    /// Makes one, and gives its name.
    async fn made(&self, kind: &str, over: &Value) -> String {
        let made = self.api(kind).create(&PostParams::default(), &self.object(kind, over)).await;
        made.unwrap_or_else(|e| panic!("{kind} {over}: {e}")).name_any()
    }

    async fn change(
        &self,
        kind: &str,
        name: &str,
        change: &Value,
        dry: bool,
    ) -> Result<DynamicObject, String> {
        let params = PatchParams { dry_run: dry, ..PatchParams::default() };
        said(self.api(kind).patch(name, &params, &Patch::Merge(change)).await)
    }

    /// Lays over an object's status.
    async fn told(&self, kind: &str, name: &str, status: &Value) {
        let status = json!({"status": status});
        let (api, params) = (self.api(kind), PatchParams::default());
        let told = api.patch_status(name, &params, &Patch::Merge(&status)).await;
        told.unwrap_or_else(|e| panic!("{kind} {name} {status}: {e}"));
    }
}

fn said(answer: kube::Result<DynamicObject>) -> Result<DynamicObject, String> {
    answer.map_err(|error| match error {
        kube::Error::Api(status) => status.message,
        other => panic!("no answer: {other}"),
    })
}

/// Lays a merge patch over a value; null takes away.
fn lay(under: &mut Value, over: &Value) {
    let Value::Object(over) = over else {
        *under = over.clone();
        return;
    };
    if !under.is_object() {
        *under = json!({});
    }
    for (key, value) in over {
        match value {
            Value::Null => drop(under.as_object_mut().unwrap().remove(key)),
            _ => lay(&mut under[key], value),
        }
    }
}

/// Holds an answer to what a row of a table says of it.
#[track_caller]
fn hold(answer: Result<DynamicObject, String>, refused: Refusal, spec: &str, what: &str) -> String {
    match (answer, refused) {
        (Ok(_), None) => String::new(),
        (Err(text), Some((field, says))) => {
            let path = format!("{spec}.{field}");
            let path = path.trim_end_matches('.');
            assert!(text.contains(&format!("{path}: ")) && text.contains(says), "{what}: {text}");
            text
        }
        (Ok(_), Some((field, _))) => panic!("{what} was taken in spite of {field}"),
        (Err(text), None) => panic!("{what} was refused: {text}"),
    }
}

#[tokio::test]
async fn every_rule_is_tried_and_says_what_to_do() {
    let desk = Desk::open();
    let mut heard = String::new();
    for case in create::cases() {
        let what = format!("{} {}", case.kind, case.over);
        let alone = desk.judge(case.kind, &case.over).await;
        heard += &hold(alone, case.refused, "spec", &what);
        let in_template = desk.judge(&format!("{}Template", case.kind), &case.over).await;
        let by_itself = ["providerID", "cloudspaceId"].iter().any(|f| case.over.get(f).is_some());
        assert!(!by_itself, "{what}: a template refuses it in any case");
        heard += &hold(in_template, case.refused, "spec.template.spec", &what);
    }
    for case in change::cases() {
        let what = format!("{} {} → {}", case.kind, case.before, case.change);
        let name = desk.made(case.kind, &case.before).await;
        let change = json!({"spec": case.change});
        heard +=
            &hold(desk.change(case.kind, &name, &change, false).await, case.refused, "spec", &what);
    }
    for (kind, field, value) in [
        ("VCOMachine", "providerID", "vco://be-mac-dc01-001/7"),
        ("VCOCluster", "cloudspaceId", "abc"),
    ] {
        let of_each = Some((field, "cannot be in a template"));
        let (over, template) = (json!({field: value}), format!("{kind}Template"));
        hold(desk.judge(kind, &over).await, None, "spec", field);
        heard += &hold(desk.judge(&template, &over).await, of_each, "spec.template.spec", field);
        let strange = json!({field: "a b"});
        let says = "must be";
        heard += &hold(desk.judge(kind, &strange).await, Some((field, says)), "spec", field);
    }
    let silent: Vec<String> = messages().into_iter().filter(|text| !heard.contains(text)).collect();
    assert!(silent.is_empty(), "no case has them refuse: {silent:#?}");
}

/// What the rules of all kinds say.
fn messages() -> BTreeSet<String> {
    fn collect(node: &Value, into: &mut BTreeSet<String>) {
        for rule in node["x-kubernetes-validations"].as_array().into_iter().flatten() {
            into.insert(rule["message"].as_str().unwrap().to_owned());
        }
        let below = node["properties"].as_object().into_iter().flatten().map(|(_, below)| below);
        below.chain(node.get("items")).for_each(|below| collect(below, into));
    }
    let mut all = BTreeSet::new();
    for definition in definitions() {
        collect(&definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"], &mut all);
    }
    all
}

#[tokio::test]
async fn policies_know_of_requests_and_annotations() {
    let desk = Desk::open();
    policy::are_in_force(&desk).await;
    policy::templates_change_in_the_dry_runs_of_cluster_api_alone(&desk).await;
    policy::who_manages_a_cluster_from_outside_stays(&desk).await;
}

#[tokio::test]
async fn what_is_not_offered_is_refused_to_people_and_dropped_for_programs() {
    let desk = Desk::open();
    for field in ["sites", "registry"] {
        let over = json!({field: [{"location": "be-2"}]});
        let taken = desk.judge("VCOCluster", &over).await.expect("programs do not ask strictly");
        assert!(taken.data["spec"].get(field).is_none(), "{}", taken.data);
        let object = desk.object("VCOCluster", &over);
        // As kubectl asks.
        let params = PatchParams::apply("test").validation_strict();
        let (api, name) = (desk.api("VCOCluster"), object.name_any());
        let said = said(api.patch(&name, &params, &Patch::Apply(&object)).await)
            .expect_err("kubectl asks strictly");
        assert!(said.contains(&format!("spec.{field}: field not declared in schema")), "{said}");
    }
    let mut object = desk.object("VCOCluster", &json!({"cloudspace": {"adopt": {"id": "x"}}}));
    object.data["spec"]["cloudspace"]["adopt"]["name"] = Value::Null;
    let made = desk.api("VCOCluster").create(&PostParams::default(), &object).await.unwrap();
    assert_eq!(made.data["spec"]["cloudspace"], json!({"adopt": {"id": "x"}}), "a null is nothing");
}
