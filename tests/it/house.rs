//! Holds every file to the tables of `docs/design/house.md`: who may look at whom, what may be
//! used where, and which names say nothing.

use std::collections::{BTreeMap, BTreeSet};

use crate::support::rust_text::{Source, all, root};

/// The page's tables: a name, and the places or rooms that belong to it.
struct House {
    imports: BTreeMap<String, BTreeSet<String>>,
    words: BTreeMap<String, BTreeSet<String>>,
}

impl House {
    fn read(page: &str) -> Self {
        let table = |title: &str| {
            let after = page.split(title).nth(1).unwrap_or_else(|| panic!("no table {title:?}"));
            let rows = after.lines().skip(2).take_while(|line| line.starts_with('|'));
            rows.map(row).collect()
        };
        Self { imports: table("| Room | may import |"), words: table("| Word | only in |") }
    }

    fn ours() -> Self {
        let page = std::fs::read_to_string(root().join("docs/design/house.md"));
        Self::read(&page.expect("the page of the house is there"))
    }

    /// What is wrong with a file, as `path:line: what`.
    fn findings(&self, source: &Source) -> Vec<String> {
        let mut found = self.bad_imports(source);
        found.extend(self.bad_words(source));
        found.extend(waiting_deciders(source));
        found.extend(empty_names(source));
        found
    }

    fn bad_imports(&self, source: &Source) -> Vec<String> {
        let room = room(&source.path);
        let Some(may) = self.imports.get(&room) else {
            return match room.as_str() {
                "lib" => Vec::new(),
                _ => vec![format!("{}: room {room} is not in the table", source.at(1))],
            };
        };
        let start = if room.starts_with("bin/") { "capvco" } else { "crate" };
        let mut seen = source.first_segments(start);
        seen.extend(climbing_out(source));
        seen.into_iter()
            .filter(|(_, name)| *name != room && !may.contains(name))
            .filter(|(_, name)| start == "crate" || self.imports.contains_key(name))
            .map(|(line, name)| format!("{}: {room} may not import {name}", source.at(line)))
            .collect()
    }

    fn bad_words(&self, source: &Source) -> Vec<String> {
        let mut found = Vec::new();
        for (word, places) in &self.words {
            if places.iter().any(|place| is_in(&source.path, place)) {
                continue;
            }
            for line in lines_with(source, word) {
                found.push(format!("{}: {word} may not be used here", source.at(line)));
            }
        }
        found
    }
}

/// `` | `a` | `b`, `c` | `` → `a`, {`b`, `c`}
fn row(line: &str) -> (String, BTreeSet<String>) {
    let mut names = line.split('`').skip(1).step_by(2).map(str::to_owned);
    (names.next().expect("a row has a name"), names.collect())
}

/// `src/lib/cli/env.rs` → `cli`; `src/bin/x/main.rs` → `bin/x`
fn room(path: &str) -> String {
    let parts: Vec<&str> = path.split('/').collect();
    match parts[..] {
        ["src", "bin", program, ..] => format!("bin/{program}"),
        ["src", "lib", room, ..] => room.trim_end_matches(".rs").to_owned(),
        _ => path.to_owned(),
    }
}

/// Whether the file `path` is the place, or is in it.
fn is_in(path: &str, place: &str) -> bool {
    let below = path.strip_prefix("src/lib/").or_else(|| path.strip_prefix("src/"));
    let rest = below.and_then(|below| below.strip_prefix(place));
    rest.is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
}

/// Rooms reached by `super::super::…` out of the file's own room.
fn climbing_out(source: &Source) -> Vec<(usize, String)> {
    let below = source.path.trim_start_matches("src/lib/");
    let depth = below.split('/').filter(|part| *part != "mod.rs").count();
    source
        .first_segments(vec!["super"; depth].join("::").as_str())
        .into_iter()
        // Inside a module of tests one `super` more is needed to get out.
        .filter(|(line, name)| !source.test[line - 1] && name != "super")
        .collect()
}

/// The lines whose code uses `word` as a path, on its own or through a group.
fn lines_with(source: &Source, word: &str) -> Vec<usize> {
    let (head, tail) = word.split_once("::").map_or((word, ""), |(head, tail)| (head, tail));
    let whole = |code: &str| {
        code.match_indices(word).any(|(at, _)| {
            let edge = |c: Option<char>| !c.is_some_and(|c| c.is_alphanumeric() || c == '_');
            let after = &code[at + word.len()..];
            edge(code[..at].chars().next_back())
                && edge(after.chars().next())
                && (word.contains("::") || after.starts_with("::") || code.contains("use "))
        })
    };
    // A test may measure and wait in real time; the program's code may not.
    let clock = matches!(head, "Instant" | "SystemTime" | "thread") || word == "tokio::time";
    let numbered = source.code.iter().enumerate().map(|(index, code)| (index + 1, code));
    let mut lines: BTreeSet<usize> =
        numbered.filter(|(_, code)| whole(code)).map(|(line, _)| line).collect();
    if !tail.is_empty() {
        let grouped = source.first_segments(head);
        lines.extend(grouped.into_iter().filter(|(_, name)| name == tail).map(|(line, _)| line));
    }
    lines.into_iter().filter(|line| !(clock && source.test[line - 1])).collect()
}

/// What decides does not wait.
fn waiting_deciders(source: &Source) -> Vec<String> {
    let stem = source.path.rsplit('/').next().unwrap_or_default().trim_end_matches(".rs");
    if !matches!(stem, "plan" | "status" | "retention" | "retry") {
        return Vec::new();
    }
    let words = |code: &str| code.split(|c: char| !c.is_alphanumeric()).any(|w| w == "async");
    let numbered = source.code.iter().enumerate();
    let bad = numbered.filter(|(index, code)| words(code) && !source.test[*index]);
    bad.map(|(index, _)| format!("{}: a {stem} holds no async", source.at(index + 1))).collect()
}

fn empty_names(source: &Source) -> Vec<String> {
    let empty = ["util", "utils", "common", "helper", "helpers", "types", "models"];
    let parts = source.path.split('/').map(|part| part.trim_end_matches(".rs"));
    parts
        .filter(|part| empty.contains(part))
        .map(|part| format!("{}: the name {part} says nothing", source.at(1)))
        .collect()
}

#[test]
fn every_file_keeps_to_its_room() {
    let house = House::ours();
    let sources = all(&["src"]);
    assert!(sources.len() > 10, "the source was not found");
    let found: Vec<String> = sources.iter().flat_map(|source| house.findings(source)).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn every_room_of_the_table_is_there() {
    for room in House::ours().imports.keys() {
        let place = room.strip_prefix("bin/").map_or(format!("lib/{room}"), |p| format!("bin/{p}"));
        let path = root().join("src").join(place);
        assert!(
            path.is_dir() || path.with_extension("rs").is_file(),
            "{room} is in the table only"
        );
    }
}

#[test]
fn a_bad_file_is_found_out() {
    let house = House::ours();
    for (path, text, wanted) in [
        ("src/lib/vco/image.rs", "use crate::publish::X;", "vco may not import publish"),
        (
            "src/lib/vco/image.rs",
            "use crate::{\n  id::A,\n  sim,\n};",
            ":3: vco may not import sim",
        ),
        ("src/lib/clock.rs", "use super::vco;", "clock may not import vco"),
        ("src/lib/cli/x.rs", "use super::super::vco::Y;", "cli may not import vco"),
        ("src/bin/capvco-e2e/main.rs", "use capvco::vco;", "bin/capvco-e2e may not import vco"),
        ("src/lib/attic/mod.rs", "", "room attic is not in the table"),
        ("src/lib/vco/image.rs", "fn f(c: reqwest::Client) {}", "reqwest may not be used here"),
        ("src/lib/publish/mod.rs", "use clap::Parser;", "clap may not be used here"),
        ("src/lib/cli/args.rs", "use std::{env, fs};", "std::env may not be used here"),
        ("src/lib/cli/args.rs", "fn f() {\n  std::env::var(\"A\");\n}", ":2: std::env"),
        ("src/lib/sim/x.rs", "let a = Instant::now();", "Instant::now may not"),
        ("src/lib/sim/x.rs", "tokio::time::sleep(t).await;", "tokio::time may not"),
        ("src/lib/publish/plan.rs", "async fn plan() {}", "a plan holds no async"),
        ("src/lib/publish/util.rs", "", "the name util says nothing"),
        ("src/lib/sim/types/mod.rs", "", "the name types says nothing"),
    ] {
        let found = house.findings(&Source::new(path, text)).join("\n");
        assert!(found.contains(wanted), "{path} {text:?} gave {found:?}");
    }
}

#[test]
fn a_good_file_is_left_alone() {
    let house = House::ours();
    for (path, text) in [
        ("src/lib/vco/transport.rs", "use crate::fault::Fault;\nuse reqwest::Client;"),
        ("src/lib/publish/source/url.rs", "use super::super::request::R;\nuse reqwest::Url;"),
        ("src/lib/sim/x.rs", "// Instant::now would be wrong\nlet a = \"std::env\";"),
        ("src/lib/vco/x.rs", "#[cfg(test)]\nmod tests {\n  fn a() { tokio::time::sleep(t); }\n}"),
        ("src/lib/vco/x.rs", "let env = env!(\"CARGO_PKG_VERSION\"); let types = 1;"),
        ("src/bin/capvco-e2e/main.rs", "use capvco::sim::Sim;\nuse capvco::cli;"),
        ("src/lib/publish/plan/mod.rs", "async fn allowed_in_a_folder_of_that_name() {}"),
    ] {
        let found = house.findings(&Source::new(path, text));
        assert!(found.is_empty(), "{path} {text:?} gave {found:?}");
    }
}
