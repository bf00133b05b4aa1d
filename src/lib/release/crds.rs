//! The CRDs, as the API server should have them.

use kube::CustomResourceExt;
use serde_json::{Number, Value};

use crate::api::{VCOCluster, VCOClusterTemplate, VCOMachine, VCOMachineTemplate};

/// The four CRDs.
#[must_use]
pub fn definitions() -> Vec<Value> {
    vec![
        definition::<VCOCluster>(),
        definition::<VCOClusterTemplate>(),
        definition::<VCOMachine>(),
        definition::<VCOMachineTemplate>(),
    ]
}

fn definition<K: CustomResourceExt>() -> Value {
    let mut definition = serde_json::to_value(K::crd())
        .expect("a CRD is made of maps with text keys, lists and scalars");
    tidy(&mut definition);
    definition
}

/// Makes a schema of Rust one of Kubernetes. No nulls in place of optional fields: the API server
/// drops one that is not allowed, and `has()` would see one that is. No names of structs, whole
/// numbers as such, and descriptions without the line breaks of a source file.
fn tidy(value: &mut Value) {
    match value {
        Value::Object(map) => {
            if map.get("nullable").is_some_and(Value::is_boolean) {
                map.remove("nullable");
            }
            if map.get("title").is_some_and(Value::is_string) {
                map.remove("title");
            }
            if let Some(Value::String(text)) = map.get_mut("description") {
                *text = one_line(text);
            }
            map.values_mut().for_each(tidy);
        }
        Value::Array(items) => items.iter_mut().for_each(tidy),
        Value::Number(number) => *number = whole(number),
        _ => {}
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Bounds are kept as floating-point numbers; all of ours are whole and small.
fn whole(number: &Number) -> Number {
    number
        .to_string()
        .strip_suffix(".0")
        .and_then(|text| text.parse::<i64>().ok())
        .map_or_else(|| number.clone(), Number::from)
}
