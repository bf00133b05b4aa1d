//! What is promised of a release, read out of what would be installed.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::*;

fn release() -> Release {
    let image = "registry.example.com/capvco/capvco".parse::<Image>().unwrap();
    Release::new(&image, "v0.1.0".parse().unwrap())
}

/// The schema of a kind.
fn schema(definition: &Value) -> &Value {
    &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
}

/// Calls `look` with every node of a schema below `path`, and whether it is in a status.
fn walk(schema: &Value, path: &str, look: &mut impl FnMut(&str, &Value)) {
    look(path, schema);
    let properties = schema["properties"].as_object().into_iter().flatten();
    for (name, below) in properties {
        walk(below, &format!("{path}.{name}"), look);
    }
    for (word, mark) in [("items", "[]"), ("additionalProperties", "{}")] {
        if let Some(below) = schema.get(word).filter(|below| below.is_object()) {
            walk(below, &format!("{path}{mark}"), look);
        }
    }
}

fn walk_all(mut look: impl FnMut(&str, &Value)) {
    for definition in definitions() {
        let kind = definition["spec"]["names"]["kind"].as_str().unwrap().to_owned();
        walk(schema(&definition), &kind, &mut look);
    }
}

#[test]
fn the_names_are_those_that_cluster_api_derives() {
    let names: Vec<_> = definitions().iter().map(|d| d["metadata"]["name"].clone()).collect();
    let wanted = ["vcoclusters", "vcoclustertemplates", "vcomachines", "vcomachinetemplates"];
    assert_eq!(names, wanted.map(|p| json!(format!("{p}.infrastructure.cluster.x-k8s.io"))));
    for definition in definitions() {
        let (labels, spec) = (&definition["metadata"]["labels"], &definition["spec"]);
        assert_eq!(labels["cluster.x-k8s.io/v1beta2"], "v1beta1");
        assert_eq!(labels["cluster.x-k8s.io/provider"], "infrastructure-vco");
        assert_eq!(labels["clusterctl.cluster.x-k8s.io"], "");
        assert_eq!(spec["scope"], "Namespaced");
        assert_eq!(spec["names"]["categories"], json!(["cluster-api"]));
        assert!(spec["names"]["shortNames"][0].as_str().unwrap().starts_with("vco"));
        let version = &spec["versions"][0];
        assert_eq!((&version["name"], &version["storage"]), (&json!("v1beta1"), &json!(true)));
        let has_status = schema(&definition)["properties"].get("status").is_some();
        assert_eq!(version["subresources"].get("status").is_some(), has_status);
        let columns = version["additionalPrinterColumns"].as_array().unwrap();
        assert!(columns.iter().any(|column| column["name"] == "Age"));
    }
}

#[test]
fn every_field_says_what_it_is() {
    walk_all(|path, node| {
        let wrapper = path.ends_with("{}") || path.ends_with("[]") && node["type"] != "object";
        let standard = [".metadata", ".apiVersion", ".kind"]
            .iter()
            .any(|s| path.strip_suffix(s).is_some_and(|kind| !kind.contains('.')));
        let told = node["description"].as_str().is_some_and(|text| !text.is_empty());
        assert!(told || wrapper || standard, "{path} has no description: {node}");
    });
}

#[test]
fn schemas_are_structural_and_say_nothing_of_null() {
    walk_all(|path, node| {
        let node = node.as_object().unwrap();
        for word in ["nullable", "$ref", "anyOf", "oneOf", "default", "title"] {
            assert!(!node.contains_key(word), "{path} has {word}");
        }
        assert!(node.contains_key("type"), "{path} has no type");
        let format = node.get("format").and_then(Value::as_str);
        assert!(
            matches!(format, None | Some("int32" | "int64" | "date-time")),
            "{path}: {format:?}"
        );
    });
}

#[test]
fn whatever_a_rule_may_look_at_is_bounded() {
    walk_all(|path, node| {
        if !path.contains(".spec") || path.contains(".metadata") {
            return;
        }
        let has = |word: &str| node.get(word).is_some();
        let bounded = match node["type"].as_str().unwrap() {
            "string" => has("maxLength") || has("enum"),
            "array" => has("maxItems"),
            "integer" => has("minimum") && has("maximum"),
            "object" => has("properties"),
            _ => true,
        };
        assert!(bounded, "{path} has no bounds: {node}");
    });
}

#[test]
fn rules_that_look_back_are_at_the_root_of_kinds_that_are_no_templates() {
    let mut rules = 0;
    walk_all(|path, node| {
        for rule in node["x-kubernetes-validations"].as_array().into_iter().flatten() {
            rules += 1;
            let (text, message) = (rule["rule"].as_str().unwrap(), rule["message"].as_str());
            assert!(message.is_some_and(|m| m.len() > 20), "{path}: {rule}");
            if text.contains("oldSelf") {
                assert!(matches!(path, "VCOCluster" | "VCOMachine"), "{path}: {text}");
            }
        }
    });
    assert!(rules > 40, "{rules}");
}

#[test]
fn what_core_reads_otherwise_and_what_is_not_offered_yet_is_not_there() {
    walk_all(|path, _| {
        assert_ne!(path, "VCOMachine.spec.failureDomain");
        for field in [".sites", ".registry"] {
            assert!(!path.ends_with(field), "{path}");
        }
    });
}

#[test]
fn the_parts_of_vco_machine_that_a_vm_is_made_of_are_all_fixed() {
    let definitions = definitions();
    let machine = definitions.iter().find(|d| d["spec"]["names"]["kind"] == "VCOMachine").unwrap();
    let rules = schema(machine)["x-kubernetes-validations"].as_array().unwrap();
    let held: BTreeSet<&str> = rules
        .iter()
        .map(|r| r["fieldPath"].as_str().unwrap().trim_start_matches(".spec."))
        .collect();
    let spec = schema(machine)["properties"]["spec"]["properties"].as_object().unwrap();
    assert_eq!(held, spec.keys().map(String::as_str).collect());
}

#[test]
fn every_object_is_labelled_and_clusterctl_finds_nothing_to_replace() {
    let text = components(&release()).unwrap();
    let objects: Vec<Value> = crate::yaml::from_multiple(&text, "components").unwrap();
    assert_eq!(objects, super::objects(&release()), "what is written is what is meant");
    for object in &objects {
        let labels = &object["metadata"]["labels"];
        assert_eq!(labels["cluster.x-k8s.io/provider"], "infrastructure-vco", "{object}");
    }
    assert!(!text.contains("${") && !text.contains("$$"));
    let count = |kind: &str| objects.iter().filter(|object| object["kind"] == kind).count();
    assert_eq!((count("Namespace"), count("Deployment")), (1, 1));
    assert_eq!(count("CustomResourceDefinition"), 4);
    let kinds: BTreeSet<_> = objects.iter().map(|o| o["kind"].as_str().unwrap()).collect();
    for webhook in ["ValidatingWebhookConfiguration", "Certificate", "Service", "Secret"] {
        assert!(!kinds.contains(webhook));
    }
    assert_eq!(text, components(&release()).unwrap());
}

#[test]
fn the_manager_is_found_waited_for_and_has_no_rights_on_its_node() {
    let objects = super::objects(&release());
    let spec = &objects.last().unwrap()["spec"]["template"]["spec"];
    let containers = spec["containers"].as_array().unwrap();
    assert_eq!(containers.len(), 1);
    let manager = &containers[0];
    assert_eq!(manager["name"], "manager");
    assert_eq!(manager["image"], "registry.example.com/capvco/capvco:v0.1.0");
    assert_eq!(
        manager["args"],
        json!(["manager", "--leader-elect", "--diagnostics-address=:8443", "--health-addr=:9440"])
    );
    assert_eq!(spec["securityContext"]["runAsNonRoot"], true);
    assert_eq!(manager["securityContext"]["capabilities"], json!({"drop": ["ALL"]}));
}

#[test]
fn nothing_is_permitted_by_a_star() {
    for object in super::objects(&release()) {
        for rule in object["rules"].as_array().into_iter().flatten() {
            assert!(!rule.to_string().contains('*'), "{}: {rule}", object["metadata"]["name"]);
        }
    }
}

#[test]
fn the_metadata_name_the_contract_that_the_labels_name() {
    let metadata: Value = crate::yaml::from_str(&metadata().unwrap(), "metadata").unwrap();
    assert_eq!(metadata["kind"], "Metadata");
    let series = json!([{"major": 0, "minor": 1, "contract": "v1beta2"}]);
    assert_eq!(metadata["releaseSeries"], series);
}
