//! The generated references: what the programs say about themselves, kept beside the code.
//!
//! `make generate` (`CAPVCO_REGENERATE=1`) writes them; otherwise they are compared.

mod kinds;
mod metrics;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use capvco::cli::env;

use crate::support::program::{Program, backup, capvco, e2e, imagepublish, imageresolve};
use crate::support::rust_text::root;

const NOTE: &str = "<!-- Written by `make generate`; changes made by hand are lost. -->";

/// The page of a program: its `--help`, that of each of its verbs, and of theirs.
async fn program_page(name: &str, program: fn() -> Program) -> String {
    let mut page = format!("{NOTE}\n");
    let mut left = vec![name.to_owned()];
    while let Some(words) = left.pop() {
        let verb = words.strip_prefix(name).unwrap_or_default();
        let help = program().words(verb).arg("--help").run().await.expect(0).out;
        let level = if verb.is_empty() { "#" } else { "##" };
        let text = help.trim_end();
        write!(page, "\n{level} {words}\n\n```text\n{text}\n```\n").expect("a String takes all");
        // The last one pushed comes next.
        left.extend(verbs(&help).into_iter().rev().map(|verb| format!("{words} {verb}")));
    }
    tidy(&page)
}

/// The words below `Commands:`, without `help`.
fn verbs(help: &str) -> Vec<String> {
    let below = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let rows = below.take_while(|line| line.starts_with("  "));
    // A description that is wrapped is indented more deeply.
    let names = rows.filter(|row| !row.starts_with("   ")).filter_map(|row| {
        let name = row.split_whitespace().next()?;
        (name != "help").then(|| name.to_owned())
    });
    names.collect()
}

/// clap ends empty cells with blanks.
fn tidy(page: &str) -> String {
    let lines: Vec<&str> = page.lines().map(str::trim_end).collect();
    lines.join("\n") + "\n"
}

fn environment_page() -> String {
    let mut page = format!(
        "{NOTE}\n\n# Environment\n\nA variable that is set to nothing counts as not set.\n\n\
         | Variable | Meaning |\n|---|---|\n"
    );
    for (name, meaning) in env::ALL {
        writeln!(page, "| `{name}` | {} |", meaning.trim()).expect("a String takes all");
    }
    page
}

#[track_caller]
fn hold(name: &str, page: &str) {
    hold_file(&format!("docs/reference/{name}"), page);
}

#[track_caller]
fn hold_file(name: &str, page: &str) {
    let path: PathBuf = root().join(name);
    if std::env::var_os("CAPVCO_REGENERATE").is_some() {
        std::fs::write(&path, page).expect("the page can be written");
        return;
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    let now = page.lines().find(|line| !kept.lines().any(|old| old == *line));
    assert!(kept == page, "{name} is out of date: run `make generate`\n{now:?}");
}

#[tokio::test]
async fn capvco_is_described() {
    hold("capvco.md", &program_page("capvco", capvco).await);
}

#[tokio::test]
async fn imagepublish_is_described() {
    hold("capvco-imagepublish.md", &program_page("capvco-imagepublish", imagepublish).await);
}

#[tokio::test]
async fn imageresolve_is_described() {
    hold("capvco-imageresolve.md", &program_page("capvco-imageresolve", imageresolve).await);
}

#[tokio::test]
async fn backup_is_described() {
    hold("capvco-backup.md", &program_page("capvco-backup", backup).await);
}

#[tokio::test]
async fn e2e_is_described() {
    hold("capvco-e2e.md", &program_page("capvco-e2e", e2e).await);
}

#[test]
fn the_environment_is_described() {
    hold("environment.md", &environment_page());
}

/// The pages that a page links to.
fn linked(page: &Path) -> Vec<PathBuf> {
    let text = std::fs::read_to_string(page).expect("a page that is linked is there");
    let ends = text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
    let pages = ends.filter(|link| link.rsplit('.').next() == Some("md") && !link.contains("://"));
    let folder = page.parent().expect("a page lies in a folder");
    pages.map(|link| folder.join(link).canonicalize().expect("the link leads to a page")).collect()
}

#[test]
fn every_page_is_reached_from_the_readme() {
    let root = root().canonicalize().unwrap();
    let (mut reached, mut left) = (BTreeSet::new(), vec![root.join("README.md")]);
    while let Some(page) = left.pop() {
        if reached.insert(page.clone()) {
            left.extend(linked(&page));
        }
    }
    let folders = ["how-to", "reference", "tutorial", "design", "adr"];
    let pages = folders.iter().flat_map(|name| {
        let folder = std::fs::read_dir(root.join("docs").join(name)).unwrap();
        folder.map(|entry| entry.unwrap().path())
    });
    let lost: Vec<_> = pages.filter(|page| !reached.contains(page)).collect();
    assert!(lost.is_empty(), "nothing links to {lost:?}");
    let lines = std::fs::read_to_string(root.join("README.md")).unwrap().lines().count();
    assert!(lines <= 120, "README.md has {lines} lines");
}

#[test]
fn verbs_are_read_out_of_help() {
    let help = "About\n\nCommands:\n  cloud  Run a cloud\n         for tests\n  help   Say more\n\nOptions:\n  -q";
    assert_eq!(verbs(help), ["cloud"]);
}
