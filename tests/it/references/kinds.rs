//! The pages about what Kubernetes knows of us, made out of the CRDs and the constants of `api`.

use std::fmt::Write;

use capvco::api::condition::{REASONS, TYPES};
use capvco::release::{definitions, policies};
use serde_json::Value;

use super::{NOTE, hold, hold_file};

/// The CRDs are kept in one file, because they are applied together, under the folder where people
/// look for them in a provider's repository: `kubectl apply -f config/crds.yaml`.
#[test]
fn crds_are_kept() {
    hold_file("config/crds.yaml", &capvco::release::crds().unwrap());
}

#[test]
fn kinds_are_described() {
    let mut page = format!(
        "{NOTE}\n\n# Kinds\n\nWhat `kubectl explain` tells, in one page. Group \
         `infrastructure.cluster.x-k8s.io`, version `v1beta1`; `*` marks what must be given. A field \
         that is not listed is refused by kubectl and dropped by the API server otherwise.\n"
    );
    for definition in definitions() {
        kind(&mut page, &definition);
    }
    page.push_str(
        "\n## Policies\n\nRefused by a ValidatingAdmissionPolicy, as a kind cannot say it:\n\n",
    );
    for policy in policies() {
        for rule in policy["spec"]["validations"].as_array().into_iter().flatten() {
            let name = policy["metadata"]["name"].as_str().expect("a name");
            writeln!(page, "- `{name}`: {}", rule["message"].as_str().expect("a message")).unwrap();
        }
    }
    hold("kinds.md", &page);
}

fn kind(page: &mut String, definition: &Value) {
    let (names, version) = (&definition["spec"]["names"], &definition["spec"]["versions"][0]);
    let schema = &version["schema"]["openAPIV3Schema"];
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let short = text(&names["shortNames"][0]);
    write!(page, "\n## {}\n\n{}\n\n", text(&names["kind"]), text(&schema["description"])).unwrap();
    let columns = version["additionalPrinterColumns"].as_array().expect("columns");
    let shown = |wide: bool| {
        let these = columns.iter().filter(|column| column.get("priority").is_some() == wide);
        these.map(|column| text(&column["name"])).collect::<Vec<_>>().join(", ")
    };
    writeln!(page, "`kubectl get {short}` shows {}.", shown(false)).unwrap();
    if !shown(true).is_empty() {
        writeln!(page, "With `-o wide` also {}.", shown(true)).unwrap();
    }
    let spec = match &schema["properties"]["spec"]["properties"]["template"] {
        Value::Null => "spec",
        _ => "spec.template.spec",
    };
    let is_template = spec != "spec";
    page.push_str("\n| Field | Type | Meaning |\n|---|---|---|\n");
    for part in ["spec", "status"] {
        if let Some(schema) = schema["properties"].get(part) {
            fields(page, schema, part, is_template);
        }
    }
    let mut found = Vec::new();
    rules(schema, spec, &mut found);
    if !found.is_empty() {
        page.push_str("\nRefused:\n\n");
        for message in found {
            writeln!(page, "- {message}").unwrap();
        }
    }
}

/// A row a field below `path`; what a template repeats of another kind is not repeated here.
fn fields(page: &mut String, schema: &Value, path: &str, is_template: bool) {
    let required = schema["required"].as_array();
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let below = format!("{path}.{name}");
        let must = required.is_some_and(|names| names.iter().any(|n| n == name));
        let mark = if must { "\\*" } else { "" };
        let meaning = field["description"].as_str().unwrap_or_default();
        writeln!(page, "| `{below}`{mark} | {} | {meaning} |", form(field)).unwrap();
        if below.ends_with(".conditions") || (is_template && below == "spec.template.spec") {
            continue;
        }
        let items = &field["items"];
        if items["type"] == "object" {
            fields(page, items, &format!("{below}[]"), is_template);
        } else {
            fields(page, field, &below, is_template);
        }
    }
}

/// `integer 1–64`, `string, 1–63 long`, `list of object, at most 8`.
fn form(field: &Value) -> String {
    let kind = field["type"].as_str().unwrap_or_default();
    if let Some(words) = field["enum"].as_array() {
        let words: Vec<String> =
            words.iter().map(|w| format!("`{}`", w.as_str().unwrap())).collect();
        return words.join(", ");
    }
    let number = |word: &str| field.get(word).and_then(Value::as_i64);
    let range = match (number("minimum"), number("maximum")) {
        (Some(low), Some(high)) => format!(" {low}–{high}"),
        _ => String::new(),
    };
    let length = match (number("minLength"), number("maxLength")) {
        (Some(low), Some(high)) => format!(", {low}–{high} long"),
        _ => String::new(),
    };
    let most = number("maxItems").map_or_else(String::new, |most| format!(", at most {most}"));
    match kind {
        "array" => format!("list of {}{most}", field["items"]["type"].as_str().unwrap_or_default()),
        "object" if field.get("additionalProperties").is_some() => "map of text".to_owned(),
        "string" => format!("text{length}"),
        _ => format!("{kind}{range}{length}"),
    }
}

/// Every message of a rule with its field, except those of a spec that a template repeats.
fn rules(schema: &Value, spec: &str, found: &mut Vec<String>) {
    fn walk(node: &Value, path: &str, repeated: Option<&str>, found: &mut Vec<String>) {
        for rule in node["x-kubernetes-validations"].as_array().into_iter().flatten() {
            let field = format!("{path}{}", rule["fieldPath"].as_str().unwrap_or_default());
            let message = rule["message"].as_str().unwrap_or_default();
            found.push(format!("`{}`: {message}", field.trim_start_matches('.')));
        }
        for (name, below) in node["properties"].as_object().into_iter().flatten() {
            let path = format!("{path}.{name}");
            if repeated != Some(path.trim_start_matches('.')) {
                walk(below, &path, repeated, found);
            }
        }
        if node["items"].is_object() {
            walk(&node["items"], &format!("{path}[]"), repeated, found);
        }
    }
    walk(schema, "", (spec != "spec").then_some(spec), found);
}

#[test]
fn conditions_are_described() {
    let mut page = format!(
        "{NOTE}\n\n# Conditions\n\n`clusterctl describe cluster NAME --show-conditions all` and \
         `kubectl describe` show them. `False` and `Unknown` always come with a message.\n\n\
         | Type | Of | What it is about |\n|---|---|---|\n"
    );
    for one in TYPES {
        writeln!(page, "| `{}` | {} | {} |", one.word, one.kinds.join(", "), one.meaning).unwrap();
    }
    page.push_str("\n## Reasons\n\n| Reason | Meaning | What to do |\n|---|---|---|\n");
    for one in REASONS {
        writeln!(page, "| `{}` | {} | {} |", one.word, one.meaning, one.remedy).unwrap();
    }
    hold("conditions.md", &page);
}
