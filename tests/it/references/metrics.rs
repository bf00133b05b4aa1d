//! The page about the manager's metrics, made out of what it serves.

use std::fmt::Write;

use capvco::manager::sample_of_metrics;

use super::{NOTE, hold};

/// One metric as it is told of.
struct Metric {
    name: String,
    kind: String,
    meaning: String,
}

/// The metrics of a text in the form of `OpenMetrics`.
fn metrics(text: &str) -> Vec<Metric> {
    let mut all = Vec::new();
    let mut meaning = String::new();
    for line in text.lines() {
        if let Some((_, help)) = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' '))
        {
            help.trim_end_matches('.').clone_into(&mut meaning);
        } else if let Some((name, kind)) =
            line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' '))
        {
            let (name, kind) = (name.to_owned(), kind.to_owned());
            all.push(Metric { name, kind, meaning: meaning.clone() });
        }
    }
    all
}

/// The labels that a metric's lines have, without those of its form.
fn labels(text: &str, name: &str) -> String {
    let of = |line: &&str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', '_']));
    let line = text.lines().find(|line| of(line) && line.contains('{'));
    let inside =
        line.and_then(|line| line.split_once('{')?.1.split_once('}')).map(|(inside, _)| inside);
    let names = inside.into_iter().flat_map(|inside| inside.split(','));
    let names = names.filter_map(|pair| pair.split_once('=')).map(|(name, _)| name);
    names
        .filter(|name| *name != "le")
        .map(|name| format!("`{name}`"))
        .collect::<Vec<_>>()
        .join(", ")
}

#[test]
fn metrics_of_the_manager_are_described() {
    let text = sample_of_metrics();
    let mut page = format!(
        "{NOTE}\n\n# Metrics of the manager\n\n`capvco manager` serves them at `/metrics` of \
         `--diagnostics-address`, in the form of OpenMetrics. Those with `controller_runtime`, \
         `workqueue` and `leader_election` are named as in other managers.\n\n\
         | Metric | Type | Labels | Meaning |\n|---|---|---|---|\n"
    );
    for Metric { name, kind, meaning } in metrics(&text) {
        // Counters are served with this ending, which their name has not.
        let ending = if kind == "counter" { "_total" } else { "" };
        let labels = labels(&text, &name);
        writeln!(page, "| `{name}{ending}` | {kind} | {labels} | {meaning} |").unwrap();
    }
    page.push_str(
        "\nA histogram has `_bucket` (label `le`), `_sum` and `_count`. `operation` is what was asked \
         of the cloud, in words; `status` the answer's number, or what kept it from coming.\n",
    );
    hold("manager-metrics.md", &page);
}
