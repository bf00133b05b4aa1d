//! Holds a request against its declared operation; pure.
//!
//! Every complaint is a sentence; none means that the request may pass.

use serde_json::Value;

use super::operations::{Body, Operation, Param, Type};

/// Everything that is wrong with a query.
pub(super) fn query(operation: &Operation, pairs: &[(String, String)]) -> Vec<String> {
    let mut wrong = Vec::new();
    for (index, (key, text)) in pairs.iter().enumerate() {
        match operation.query.iter().find(|p| p.name == key) {
            None => wrong.push(format!("undeclared query parameter {key}")),
            Some(_) if pairs[..index].iter().any(|(k, _)| k == key) => {
                wrong.push(format!("query parameter {key} occurs twice"));
            }
            Some(param) => wrong.extend(text_value(param, text)),
        }
    }
    for param in operation.query.iter().filter(|p| p.required) {
        if !pairs.iter().any(|(key, _)| key == param.name) {
            wrong.push(format!("required query parameter {} missing", param.name));
        }
    }
    wrong
}

/// The parameters of paths that are numbers (vco-api.md 0.2).
const NUMBERS: &[&str] = &["image_id", "vm_id", "disk_id", "external_network_id"];

/// What is wrong with the path's parameters: some are numbers.
pub(super) fn path(params: &[(&'static str, String)]) -> Vec<String> {
    let numbers = params.iter().filter(|(name, _)| NUMBERS.contains(name));
    let bad = numbers.filter(|(_, text)| !is_integer(text));
    bad.map(|(name, text)| format!("path {name}: {text:?} is no integer")).collect()
}

fn is_integer(text: &str) -> bool {
    text.parse::<i64>().is_ok() && !text.starts_with('+')
}

fn text_value(param: &Param, text: &str) -> Option<String> {
    let right = match param.kind {
        Type::Text | Type::Csv | Type::ListOf(_) | Type::Object(_) | Type::Map => true,
        Type::Integer => is_integer(text),
        Type::Number => text.parse::<f64>().is_ok_and(f64::is_finite) && !text.starts_with('+'),
        Type::Boolean => matches!(text, "true" | "false"),
        Type::OneOf(values) => values.contains(&text),
    };
    (!right).then(|| format!("query {}: {text:?} is not allowed", param.name))
}

/// Everything that is wrong with a body.
pub(super) fn body(operation: &Operation, body: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    match operation.body {
        Body::Object(_) if body.is_null() => wrong.push("required body missing".to_owned()),
        Body::Maybe(_) if body.is_null() => {}
        Body::Object(fields) | Body::Maybe(fields) => object(fields, body, "body", &mut wrong),
        Body::Nothing if !is_empty(body) => {
            wrong.push("a body where none is declared".to_owned());
        }
        Body::Nothing | Body::Bytes => {}
    }
    wrong
}

fn is_empty(body: &Value) -> bool {
    body.is_null() || body.as_object().is_some_and(serde_json::Map::is_empty)
}

fn object(fields: &[Param], value: &Value, at: &str, wrong: &mut Vec<String>) {
    let Some(map) = value.as_object() else {
        wrong.push(format!("{at}: declared object"));
        return;
    };
    for (key, value) in map {
        match fields.iter().find(|f| f.name == key) {
            None => wrong.push(format!("{at}.{key}: undeclared field")),
            Some(field) => json_value(field, value, &format!("{at}.{key}"), wrong),
        }
    }
    for field in fields.iter().filter(|f| f.required && !map.contains_key(f.name)) {
        wrong.push(format!("{at}.{}: required field missing", field.name));
    }
}

fn json_value(field: &Param, value: &Value, at: &str, wrong: &mut Vec<String>) {
    let right = match field.kind {
        Type::Text | Type::Csv => value.is_string(),
        Type::Integer => value.is_i64() || value.is_u64(),
        Type::Number => value.is_number(),
        Type::Map => value.is_object(),
        Type::Boolean => value.is_boolean(),
        Type::OneOf(values) => value.as_str().is_some_and(|v| values.contains(&v)),
        Type::ListOf(fields) => {
            let items = value.as_array();
            for item in items.into_iter().flatten() {
                object(fields, item, &format!("{at}[]"), wrong);
            }
            items.is_some()
        }
        Type::Object(fields) => {
            object(fields, value, at, wrong);
            true
        }
    };
    if !right {
        wrong.push(format!("{at}: of another type than declared"));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::operations::{self, Op};
    use super::*;

    fn operation(op: Op) -> &'static Operation {
        operations::all().find(|o| o.op == op).unwrap()
    }

    fn pairs(query: &str) -> Vec<(String, String)> {
        url::form_urlencoded::parse(query.as_bytes()).into_owned().collect()
    }

    const FULL: &str = "name=n&url=http%3A%2F%2Fx&memory=512&boot_disk_size=5&boot_type=uefi\
                        &os_name=Linux+-+other&os_type=Linux";

    #[test]
    fn queries() {
        for (text, complaints) in [
            (FULL.to_owned(), 0),
            (format!("{FULL}&tags=&add_nic=false"), 0),
            (format!("{FULL}&add_nic=True"), 1),
            (format!("{FULL}&x=1"), 1),
            (format!("{FULL}&name=again"), 1),
            (FULL.replace("name=n&", ""), 1),
            (FULL.replace("uefi", "UEFI"), 1),
            (FULL.replace("512", "512.5"), 1),
            (FULL.replace("512", ""), 1),
            (String::new(), 7),
        ] {
            let wrong = query(operation(Op::CreateImage), &pairs(&text));
            assert_eq!(wrong.len(), complaints, "{text}: {wrong:?}");
        }
    }

    #[test]
    fn bodies() {
        let finish = operation(Op::FinishUpload);
        for (value, complaints) in [
            (json!({"object_name": "o", "uploaded_parts": [{"part_number": 1, "etag": "e"}]}), 0),
            (json!({"object_name": "o", "uploaded_parts": []}), 0),
            (json!({"object_name": "o", "uploaded_parts": [{"part_number": "1"}]}), 2),
            (json!({"object_name": null, "uploaded_parts": {}}), 2),
            (json!({"object_name": "o", "uploaded_parts": [], "more": 1}), 1),
            (json!([]), 1),
            (json!(null), 1),
        ] {
            assert_eq!(body(finish, &value).len(), complaints, "{value}");
        }
        let list = operation(Op::Images);
        assert!(body(list, &json!(null)).is_empty() && body(list, &json!({})).is_empty());
        assert_eq!(body(list, &json!({"a": 1})).len(), 1);
    }

    #[test]
    fn numbers_in_paths() {
        for (text, complaints) in [("7", 0), ("-7", 0), ("seven", 1), ("+7", 1), ("7.0", 1)] {
            let params = [("image_id", text.to_owned()), ("location", "x".to_owned())];
            assert_eq!(path(&params).len(), complaints, "{text}");
        }
    }
}
