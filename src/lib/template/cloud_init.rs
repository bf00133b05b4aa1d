//! cloud-init's user data as the cloud takes it: a JSON object, its jinja rendered.
//!
//! The cloud parses user data as YAML, wants a mapping and loses the comment that says that it
//! is a template (vco-api.md 5.1, G8S); its meta-data hold the host's name only. So what
//! cloud-init would render is rendered here, by its rules: with the header
//! `## template: jinja` everything is, without it nothing.

use minijinja::syntax::SyntaxConfig;
use minijinja::{AutoEscape, Environment, UndefinedBehavior, Value as Jinja};
use serde_json::{Map, Value};

use crate::fault::{Class, Fault};
use crate::yaml;

/// What is known of the machine, under cloud-init's names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Its name: `ds.meta_data.local_hostname`, `v1.local_hostname`, `local_hostname`.
    pub local_hostname: String,
    /// What tells its boots from another machine's: `ds.meta_data.instance_id`,
    /// `v1.instance_id`, `instance_id`.
    pub instance_id: String,
}

/// Why bootstrap data cannot be given to a machine of this cloud. Nothing of their content is in
/// it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// Another format than cloud-config, such as ignition.
    #[error("the bootstrap data are of format {0:?}: this cloud takes cloud-config only")]
    Format(String),
    /// There is nothing in them.
    #[error("the bootstrap data are empty")]
    Empty,
    /// No UTF-8.
    #[error("the bootstrap data are no text (not UTF-8)")]
    NotText,
    /// Compressed.
    #[error(
        "the bootstrap data are compressed with gzip: this cloud takes plain cloud-config only"
    )]
    Gzip,
    /// A script.
    #[error("the bootstrap data are a script (#!): this cloud takes cloud-config only")]
    Script,
    /// Several parts.
    #[error(
        "the bootstrap data are a MIME message of several parts: this cloud takes one cloud-config"
    )]
    Mime,
    /// A list of addresses.
    #[error(
        "the bootstrap data are a list of addresses to load (#include): this cloud takes the cloud-config itself"
    )]
    Include,
    /// Another of cloud-init's forms.
    #[error("the bootstrap data begin with {0}: this cloud takes plain cloud-config only")]
    Other(&'static str),
    /// The jinja cannot be rendered.
    #[error("the jinja in the bootstrap data cannot be rendered: {what} in line {line}")]
    Jinja {
        /// The line, counted from 1; 0 if it is not known.
        line: usize,
        /// The kind of mistake.
        what: String,
    },
    /// No YAML.
    #[error(
        "the bootstrap data are no YAML that can be read: mistake in line {line}, after rendering"
    )]
    Yaml {
        /// The line, counted from 1; 0 if it is not known.
        line: u64,
    },
    /// YAML, but a list or a single word.
    #[error("the bootstrap data are no mapping of keys to values, as a cloud-config is")]
    NotAMapping,
}

impl Fault for Unusable {
    fn class(&self) -> Class {
        Class::Refused
    }

    fn hints(&self) -> Vec<String> {
        let hint = match self {
            Self::Format(_) => "Set the bootstrap config's format to cloud-config.",
            Self::Jinja { .. } => {
                "Known are ds.meta_data.local_hostname, ds.meta_data.instance_id, \
                 v1.local_hostname and v1.instance_id; to keep other braces as they are, put them \
                 between {% raw %} and {% endraw %}."
            }
            Self::Empty => "The bootstrap provider has not written them, or wrote another key.",
            Self::Yaml { .. } => "A key may not occur twice, and there may be one document only.",
            _ => return Vec::new(),
        };
        vec![hint.to_owned()]
    }
}

/// The first words by which cloud-init knows a form, in its lower case.
const FORMS: [(&str, Unusable); 11] = [
    ("#!", Unusable::Script),
    ("#include", Unusable::Include),
    ("mime-version:", Unusable::Mime),
    ("content-type:", Unusable::Mime),
    ("from nobody", Unusable::Mime),
    ("h4si", Unusable::Gzip), // gzip in base64
    ("#cloud-boothook", Unusable::Other("#cloud-boothook")),
    ("#part-handler", Unusable::Other("#part-handler")),
    ("#upstart-job", Unusable::Other("#upstart-job")),
    ("#cloud-config-archive", Unusable::Other("#cloud-config-archive")),
    ("#cloud-config-jsonp", Unusable::Other("#cloud-config-jsonp")),
];

const JINJA: &str = "## template: jinja";

/// What rendering may cost, in the jinja's own unit of 64 bytes or one step each: some hundred
/// times what a long kubeadm configuration takes.
const FUEL: u64 = 1_000_000;

/// Bootstrap data as text.
///
/// # Errors
/// [`Unusable::Gzip`] or [`Unusable::NotText`].
pub fn text(bytes: &[u8]) -> Result<&str, Unusable> {
    if bytes.starts_with(&[0x1f, 0x8b]) {
        return Err(Unusable::Gzip);
    }
    std::str::from_utf8(bytes).map_err(|_| Unusable::NotText)
}

/// The user data of a machine: the cloud-config in `text`, rendered if its header says so, as a
/// mapping, with `ssh_pwauth: false` unless it says something itself: the cloud would add true
/// (vco-api.md 5.1, G8S).
///
/// `format` is what the bootstrap provider says of it; without it, cloud-config.
///
/// # Errors
/// Why it cannot be given to a machine of this cloud.
pub fn userdata(
    text: &str,
    format: Option<&str>,
    facts: &Facts,
) -> Result<Map<String, Value>, Unusable> {
    if let Some(format) = format.filter(|format| !format.is_empty() && *format != "cloud-config") {
        return Err(Unusable::Format(format.chars().take(40).collect()));
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let rendered = match without_header(text) {
        Some(template) => render(&template, facts)?,
        None => text.to_owned(),
    };
    refuse_other_forms(&rendered)?;
    let read = yaml::from_str_1_1(&rendered, "bootstrap data")
        .map_err(|error| Unusable::Yaml { line: error.line().unwrap_or_default() })?;
    match read {
        Value::Object(config) if config.contains_key("ignition") => {
            Err(Unusable::Format("ignition".to_owned()))
        }
        Value::Object(mut config) => {
            config.entry("ssh_pwauth").or_insert(Value::Bool(false));
            Ok(config)
        }
        Value::Null => Err(Unusable::Empty),
        _ => Err(Unusable::NotAMapping),
    }
}

/// The template below the header, if there is one; empty lines keep the lines' numbers.
fn without_header(text: &str) -> Option<String> {
    let start = text.trim_start();
    let is_jinja = start.get(..JINJA.len())?.eq_ignore_ascii_case(JINJA);
    let (_, rest) = start.split_once('\n').unwrap_or((start, ""));
    let above = text[..text.len() - rest.len()].matches('\n').count();
    is_jinja.then(|| "\n".repeat(above) + rest)
}

fn refuse_other_forms(text: &str) -> Result<(), Unusable> {
    let start = text.trim_start();
    if start.is_empty() {
        return Err(Unusable::Empty);
    }
    let begins = |word: &str| start.get(..word.len()).is_some_and(|s| s.eq_ignore_ascii_case(word));
    match FORMS.into_iter().find(|(word, _)| begins(word)) {
        Some((_, form)) => Err(form),
        None => Ok(()),
    }
}

fn render(template: &str, facts: &Facts) -> Result<String, Unusable> {
    let mut jinja = Environment::new();
    jinja.set_undefined_behavior(UndefinedBehavior::Strict);
    jinja.set_auto_escape_callback(|_| AutoEscape::None);
    jinja.set_fuel(Some(FUEL));
    // As cloud-init sets its own.
    let mut syntax = SyntaxConfig::builder();
    syntax.trim_blocks(true).keep_trailing_newline(true);
    jinja.set_syntax(syntax.build().map_err(|error| failed(&error))?);
    jinja.render_str(template, variables(facts)).map_err(|error| failed(&error))
}

/// Under the names that cloud-init gives them: with hyphens, with underscores, in the data
/// source's part, in the standardized one, and from there at the top.
fn variables(facts: &Facts) -> Jinja {
    let Facts { local_hostname, instance_id } = facts;
    let known = Jinja::from_pairs([
        ("local_hostname", local_hostname.as_str()),
        ("local-hostname", local_hostname),
        ("instance_id", instance_id),
        ("instance-id", instance_id),
    ]);
    Jinja::from_pairs([
        ("ds", Jinja::from_pairs([("meta_data", known.clone())])),
        ("v1", known),
        ("local_hostname", local_hostname.as_str().into()),
        ("instance_id", instance_id.as_str().into()),
    ])
}

/// The kind of mistake and its line: the rest may quote the text.
fn failed(error: &minijinja::Error) -> Unusable {
    Unusable::Jinja { line: error.line().unwrap_or_default(), what: error.kind().to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn facts() -> Facts {
        Facts { local_hostname: "cp-1".to_owned(), instance_id: "i-7".to_owned() }
    }

    fn read(text: &str) -> Result<Value, Unusable> {
        userdata(text, Some("cloud-config"), &facts()).map(Value::Object)
    }

    /// As Cluster API's kubeadm bootstrap provider writes it.
    const KUBEADM: &str = "## template: jinja
#cloud-config

write_files:
-   path: /etc/kubernetes/pki/ca.crt
    owner: root:root
    permissions: '0640'
    content: |
      -----BEGIN CERTIFICATE-----
      MIIC6jCCAdKgAwIBAgIBADANBgkqhkiG9w0BAQsFADAVMRMwEQYDVQQDEwprdWJl
      -----END CERTIFICATE-----

-   path: /run/kubeadm/kubeadm.yaml
    owner: root:root
    permissions: '0640'
    content: |
      ---
      apiVersion: kubeadm.k8s.io/v1beta4
      kind: InitConfiguration
      nodeRegistration:
        name: '{{ ds.meta_data.local_hostname }}'
        kubeletExtraArgs:
        - name: provider-id
          value: vco://be-1/{{ v1.instance_id }}
-   path: /run/cluster-api/placeholder
    owner: root:root
    permissions: 0640
    content: \"This placeholder file is used to create the /run/cluster-api sub directory\"
disk_setup:
  /dev/vdb:
    layout: true
    overwrite: no
runcmd:
  - 'kubeadm init --config /run/kubeadm/kubeadm.yaml  && echo success > /run/cluster-api/bootstrap-success.complete'
";

    #[test]
    fn a_kubeadm_configuration_becomes_an_object() {
        let config = read(KUBEADM).unwrap();
        let files = config["write_files"].as_array().unwrap();
        assert_eq!(files[0]["permissions"], "0640");
        assert_eq!(files[2]["permissions"], "0640", "to be read as octal by cloud-init");
        let pem = files[0]["content"].as_str().unwrap();
        assert!(pem.starts_with("-----BEGIN") && pem.ends_with("CERTIFICATE-----\n"), "{pem}");
        let kubeadm = files[1]["content"].as_str().unwrap();
        assert!(kubeadm.contains("  name: 'cp-1'\n"), "{kubeadm}");
        assert!(kubeadm.ends_with("value: vco://be-1/i-7\n"), "{kubeadm}");
        assert_eq!(config["disk_setup"]["/dev/vdb"]["overwrite"], false);
        assert_eq!(config["ssh_pwauth"], false);
    }

    #[test]
    fn every_name_of_a_fact_is_known() {
        for (expression, value) in [
            ("ds.meta_data.local_hostname", "cp-1"),
            ("ds.meta_data['local-hostname']", "cp-1"),
            ("ds.meta_data.instance_id", "i-7"),
            ("v1.local_hostname", "cp-1"),
            ("v1['instance-id']", "i-7"),
            ("local_hostname | upper", "CP-1"),
            ("instance_id", "i-7"),
            ("'a' if v1.instance_id == 'i-7' else 'b'", "a"),
        ] {
            let text = format!("{JINJA}\n#cloud-config\nk: \"{{{{ {expression} }}}}\"\n");
            assert_eq!(read(&text).unwrap()["k"], value, "{expression}");
        }
    }

    #[test]
    fn without_the_header_nothing_is_rendered() {
        let config = read("#cloud-config\nk: '{{ ds.meta_data.local_hostname }} {% if %}'\n");
        assert_eq!(config.unwrap()["k"], "{{ ds.meta_data.local_hostname }} {% if %}");
        let raw = read("## Template: Jinja\r\nk: '{% raw %}{{ x }}{% endraw %}'\n");
        assert_eq!(raw.unwrap()["k"], "{{ x }}");
        let late = read("#cloud-config\n## template: jinja\nk: '{{ x }}'\n");
        assert_eq!(late.unwrap()["k"], "{{ x }}");
    }

    #[test]
    fn what_it_says_of_passwords_stands() {
        for (text, want) in [
            ("a: 1", json!(false)),
            ("ssh_pwauth: true", json!(true)),
            ("ssh_pwauth: unchanged", json!("unchanged")),
        ] {
            assert_eq!(read(text).unwrap()["ssh_pwauth"], want, "{text}");
        }
    }

    #[test]
    fn what_is_no_cloud_config_is_refused_with_its_own_sentence() {
        for (text, why) in [
            ("", Unusable::Empty),
            (" \n", Unusable::Empty),
            ("#cloud-config\n", Unusable::Empty),
            ("## template: jinja", Unusable::Empty),
            ("#!/bin/sh\necho hunter2", Unusable::Script),
            ("## template: jinja\n#!/bin/sh\necho hunter2", Unusable::Script),
            ("#include https://hunter2", Unusable::Include),
            ("#include-once\nhttps://hunter2", Unusable::Include),
            ("MIME-Version: 1.0\n\nhunter2", Unusable::Mime),
            ("Content-Type: multipart/mixed; boundary=hunter2", Unusable::Mime),
            ("H4sIAAAAAAAAA8tIzcnJBwCGphA2BQAAAA==", Unusable::Gzip),
            ("#cloud-boothook\nhunter2", Unusable::Other("#cloud-boothook")),
            ("#cloud-config-archive\n- hunter2", Unusable::Other("#cloud-config-archive")),
            ("- hunter2", Unusable::NotAMapping),
            ("hunter2", Unusable::NotAMapping),
            ("{\"ignition\": {\"version\": \"3.4.0\"}}", Unusable::Format("ignition".to_owned())),
            ("a: 1\na: hunter2\n", Unusable::Yaml { line: 2 }),
            ("a: [hunter2\n", Unusable::Yaml { line: 2 }),
        ] {
            let error = read(text).unwrap_err();
            let line = |e: &Unusable| matches!(e, Unusable::Yaml { .. });
            assert!(error == why || (line(&error) && line(&why)), "{text:?}: {error}");
            let told = format!("{error} {error:?} {:?}", error.hints());
            assert!(!told.contains("hunter2"), "{told}");
            assert_eq!(error.class(), Class::Refused);
        }
        for format in ["ignition", "talos"] {
            let error = userdata("a: 1", Some(format), &facts()).unwrap_err();
            assert_eq!(error, Unusable::Format(format.to_owned()));
        }
        assert!(userdata("a: 1", None, &facts()).is_ok());
        assert!(userdata("a: 1", Some(""), &facts()).is_ok());
    }

    #[test]
    fn jinja_that_cannot_be_rendered_names_its_line_only() {
        for (text, line) in [
            ("## template: jinja\n#cloud-config\nk: '{{ hunter2 }}'\n", 3),
            ("\n\n## template: jinja\n#cloud-config\nk: {{ ds.meta_data.hunter2 }}\n", 5),
            ("## template: jinja\nk: '{{ ds.hunter2.x }}'\n", 2),
            ("## template: jinja\na: 1\nb: {% hunter2 %}\n", 3),
            ("## template: jinja\nk: '{{ unclosed hunter2 '\n", 2),
            ("## template: jinja\n{% include 'hunter2' %}\n", 2),
        ] {
            match read(text).unwrap_err() {
                Unusable::Jinja { line: told, what } => {
                    assert_eq!(told, line, "{text:?} {what}");
                    assert!(!what.contains("hunter2"), "{what}");
                }
                other => panic!("{text:?}: {other}"),
            }
        }
    }

    #[test]
    fn rendering_comes_to_an_end() {
        let endless = [
            "{% for a in range(99999) %}{% for b in range(99999) %}{{ b }}{% endfor %}{% endfor %}",
            "{{ 'x' * 99999999 }}",
        ];
        for text in endless {
            let error = read(&format!("{JINJA}\nk: {text}\n")).unwrap_err();
            assert!(matches!(error, Unusable::Jinja { .. }), "{error}");
        }
        let long = format!(
            "{JINJA}\nk: |\n{}",
            "  0123456789abcdef {{ v1.instance_id }}\n".repeat(20_000)
        );
        assert!(read(&long).is_ok(), "a long configuration is no attack");
    }

    #[test]
    fn bytes_are_text_or_refused() {
        assert_eq!(text(b"a: \xc3\xa9"), Ok("a: \u{e9}"));
        assert_eq!(text(&[0x1f, 0x8b, 8, 0]), Err(Unusable::Gzip));
        assert_eq!(text(&[b'a', 0xff]), Err(Unusable::NotText));
    }

    proptest! {
        #[test]
        fn texts_are_kept_exactly(words in prop::collection::vec(
            prop_oneof![
                "[ -~]{0,40}", "\\PC{0,20}", "0[0-7]{3}", "[A-Za-z0-9+/]{0,60}={0,2}",
                Just("yes".to_owned()), Just("No".to_owned()), Just("null".to_owned()),
                Just("1e3".to_owned()), Just("a: b\n  c\n\n#d".to_owned()), Just("0x1f".to_owned()),
            ], 0..8))
        {
            // JSON is YAML whose strings are all quoted.
            let config = json!({"write_files": words, "ssh_pwauth": false});
            prop_assert_eq!(read(&format!("#cloud-config\n{config}")).unwrap(), config.clone());
            let yaml = crate::yaml::to_string(&config, "t").unwrap();
            prop_assert_eq!(read(&yaml).unwrap(), config);
        }

        #[test]
        fn a_block_keeps_its_lines(lines in prop::collection::vec("[!-~]([ -~]{0,30}[!-~])?", 1..10)) {
            let block = lines.join("\n    ");
            let config = read(&format!("#cloud-config\nwrite_files:\n- content: |\n    {block}\n"));
            let want = lines.join("\n") + "\n";
            let config = config.unwrap();
            prop_assert_eq!(config["write_files"][0]["content"].as_str(), Some(&*want));
        }

        #[test]
        fn no_text_makes_it_panic(text in "\\PC{0,80}", odd in "[#!{}%: \\n'\"a-z-]{0,60}") {
            let _ = (read(&text), read(&odd), read(&format!("{JINJA}\n{odd}")));
        }
    }
}
