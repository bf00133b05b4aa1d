//! What the API server refuses, in CEL: one function a form of rule.
//!
//! A rule that looks at what was there before (`oldSelf`) stands at the root of a kind, never in
//! a spec: templates embed the same specs, and a rule of that sort there stops every change of a
//! `ClusterClass` (contract, 1.4). At the root it also runs where a field was taken away, which
//! a rule on the field itself does not (contract, 11). Rules are written with `has()`, whose cost
//! the API server can estimate, and every message says what to do.

use kube::core::Rule;

/// A field below `spec` that keeps its value once it has one; taking it away is a change too.
pub(super) fn once(field: &str, remedy: &str) -> Rule {
    let (was, is) = (given("oldSelf", field), given("self", field));
    let rule = format!("!({was}) || ({is} && self.spec.{field} == oldSelf.spec.{field})");
    said(rule, field, &format!("{field} cannot be changed or removed once it is set: {remedy}"))
}

/// A field below `spec` that is what it was when the object was made.
pub(super) fn always(field: &str, remedy: &str) -> Rule {
    let message = format!("{field} cannot be changed, added or removed: {remedy}");
    said(same(field), field, &message)
}

/// A field below `spec` that keeps what it is, set or not, as soon as `mark` is set.
pub(super) fn since(mark: &str, field: &str, remedy: &str) -> Rule {
    let rule = format!("!({}) || {}", given("oldSelf", mark), same(field));
    said(rule, field, &format!("{field} cannot be changed once {mark} is set: {remedy}"))
}

/// What a template may not say, because each object made from it has its own.
pub(super) fn not_in_template(field: &str) -> Rule {
    let rule = format!("!has(self.template.spec.{field})");
    let message = format!(
        "{field} cannot be in a template, it is written for each object: remove it from spec.template.spec"
    );
    Rule::new(rule).message(message.as_str()).field_path(format!(".template.spec.{field}"))
}

/// An IPv4 address.
pub(super) fn ipv4(field: &str) -> Rule {
    let message = format!("{field} must be an IPv4 address such as 192.168.103.10");
    Rule::new("isIP(self) && ip(self).family() == 4").message(message.as_str())
}

/// An IPv4 network by its first address.
pub(super) fn network(field: &str) -> Rule {
    let message = format!(
        "{field} must be an IPv4 network in CIDR form that begins with its own first address, such as 192.168.103.0/24"
    );
    Rule::new("isCIDR(self) && cidr(self).ip().family() == 4 && cidr(self) == cidr(self).masked()")
        .message(message.as_str())
}

/// An id as the cloud has them (`crate::id`).
pub(super) fn id(field: &str) -> Rule {
    let message = format!(
        "{field} must be the id as the portal shows it, without spaces and none of / ? # ,"
    );
    Rule::new("self.matches('^[^/?#,[:space:]]+$')").message(message.as_str())
}

/// What Kubernetes and the cloud take for one part of a name.
pub(super) fn label(field: &str) -> Rule {
    let message = format!(
        "{field} must be lower-case letters, digits and -, beginning and ending with none of -"
    );
    Rule::new("self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')").message(message.as_str())
}

/// A DNS name, or a name of Kubernetes' objects.
pub(super) fn dns_name(field: &str) -> Rule {
    let message = format!(
        "{field} must be lower-case letters, digits, - and ., each part beginning and ending with a letter or digit"
    );
    Rule::new(format!("self.matches('^{DNS_NAME}$')")).message(message.as_str())
}

/// Where something is reached: an address or a DNS name.
pub(super) fn host(field: &str) -> Rule {
    let message = format!(
        "{field} must be an IP address or a lower-case DNS name, without scheme, port and path"
    );
    Rule::new(format!("isIP(self) || self.matches('^{DNS_NAME}$')")).message(message.as_str())
}

const DNS_NAME: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*";

fn said(rule: String, field: &str, message: &str) -> Rule {
    Rule::new(rule).message(message).field_path(format!(".spec.{field}"))
}

/// `a.b` of `who` is there: `has(who.spec.a) && has(who.spec.a.b)`.
fn given(who: &str, field: &str) -> String {
    let ends = field.match_indices('.').map(|(at, _)| at).chain([field.len()]);
    let parts: Vec<String> = ends.map(|end| format!("has({who}.spec.{})", &field[..end])).collect();
    parts.join(" && ")
}

fn same(field: &str) -> String {
    let (was, is) = (given("oldSelf", field), given("self", field));
    format!("(({is}) == ({was}) && (!({is}) || self.spec.{field} == oldSelf.spec.{field}))")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_of_a_path_is_asked_for() {
        assert_eq!(given("self", "a"), "has(self.spec.a)");
        assert_eq!(given("oldSelf", "a.b"), "has(oldSelf.spec.a) && has(oldSelf.spec.a.b)");
    }

    #[test]
    fn a_rule_says_where_what_and_what_to_do() {
        let rule = serde_json::to_value(once("a.b", "make another.")).unwrap();
        assert_eq!(rule["fieldPath"], ".spec.a.b");
        assert_eq!(
            rule["message"],
            "a.b cannot be changed or removed once it is set: make another."
        );
        assert_eq!(
            rule["rule"],
            "!(has(oldSelf.spec.a) && has(oldSelf.spec.a.b)) || (has(self.spec.a) && \
             has(self.spec.a.b) && self.spec.a.b == oldSelf.spec.a.b)"
        );
    }
}
