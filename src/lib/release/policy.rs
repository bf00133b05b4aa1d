//! Admission that a CRD's own rules cannot do, because it needs to know of the request or of
//! annotations: policies of the API server, in CEL.

use serde_json::{Value, json};

use crate::api::names::{GROUP, MANAGED_BY, VERSION};

/// The policies and what binds them.
#[must_use]
pub fn policies() -> Vec<Value> {
    let templates = policy(
        "capvco-templates",
        &["vcoclustertemplates", "vcomachinetemplates"],
        TEMPLATE,
        "spec.template.spec cannot be changed, because Cluster API looks at a template's name only: make another template and refer to that",
    );
    let managed = policy(
        "capvco-managed-by",
        &["vcoclusters"],
        &managed_by(),
        "the annotation or label cluster.x-k8s.io/managed-by cannot be removed, because somebody else made what the VCOCluster stands for: make another VCOCluster",
    );
    [templates, managed].into_iter().flatten().collect()
}

/// Cluster API tries a template's change in a dry run, and says so on the object; both together
/// let it through, neither alone (contract, 1.4).
const TEMPLATE: &str = "object.spec.template.spec == oldObject.spec.template.spec || \
     (has(request.dryRun) && request.dryRun && has(object.metadata.annotations) && \
     'topology.cluster.x-k8s.io/dry-run' in object.metadata.annotations)";

/// Once set it stays (contract, 1.2). That page calls it a label and its code an annotation.
fn managed_by() -> String {
    let there = |who: &str, map: &str| {
        format!("(has({who}.metadata.{map}) && '{MANAGED_BY}' in {who}.metadata.{map})")
    };
    let kept = ["annotations", "labels"]
        .map(|map| format!("(!{} || {})", there("oldObject", map), there("object", map)));
    kept.join(" && ")
}

fn policy(name: &str, resources: &[&str], rule: &str, message: &str) -> [Value; 2] {
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name, "labels": {}},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "matchPolicy": "Equivalent",
                "resourceRules": [{
                    "apiGroups": [GROUP],
                    "apiVersions": [VERSION],
                    "operations": ["UPDATE"],
                    "resources": resources,
                    "scope": "Namespaced",
                }],
            },
            "validations": [{"expression": rule, "message": message, "reason": "Invalid"}],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name, "labels": {}},
        "spec": {"policyName": name, "validationActions": ["Deny"]},
    });
    [policy, binding]
}
