//! Holds every file to the house's shape, and prints the figures that are only aimed at.

use std::io::Write;

use crate::support::rust_text::{Source, all};

const MOST_LINES_OF_A_FILE: usize = 600;
const MOST_LINES_OF_A_FUNCTION: usize = 80;
const MOST_LINES_OF_A_MAIN: usize = 60;

/// What is wrong with a file, as `path:line: what`.
fn findings(source: &Source) -> Vec<String> {
    let mut found = Vec::new();
    let lines = source.raw.len();
    if lines > MOST_LINES_OF_A_FILE {
        found.push(format!("{}: {lines} lines", source.at(lines)));
    }
    let main = source.path.starts_with("src/bin/") && source.path.ends_with("/main.rs");
    if main && lines > MOST_LINES_OF_A_MAIN {
        found.push(format!("{}: a program's main has {lines} lines", source.at(lines)));
    }
    if !source.raw.first().is_some_and(|line| line.starts_with("//! ") && line.len() > 10) {
        found.push(format!("{}: the first line does not say what this is", source.at(1)));
    }
    for function in source.functions() {
        if function.lines > MOST_LINES_OF_A_FUNCTION {
            let (name, lines) = (&function.name, function.lines);
            found.push(format!("{}: {name} has {lines} lines", source.at(function.line)));
        }
    }
    found.extend(missing_sign(source));
    found.extend(unreasoned(source));
    found
}

/// A room's `mod.rs` says what it is for, what may enter, what holds, how to add one more.
fn missing_sign(source: &Source) -> Option<String> {
    let parts: Vec<&str> = source.path.split('/').collect();
    let ["src", "lib", _, "mod.rs"] = parts[..] else { return None };
    let sign = source.raw.iter().take_while(|line| line.starts_with("//!"));
    let sign = sign.map(|line| line.to_lowercase()).collect::<Vec<_>>().join("\n");
    let lacks = |word: &&str| !sign.contains(*word);
    let missing: Vec<_> = ["enter", "invariant", "add"].into_iter().filter(lacks).collect();
    (!missing.is_empty())
        .then(|| format!("{}: the sign at the door lacks {}", source.at(1), missing.join(", ")))
}

/// `unwrap` outside tests, and `expect` without a reason.
fn unreasoned(source: &Source) -> Vec<String> {
    let mut found = Vec::new();
    for (index, code) in source.code.iter().enumerate() {
        if source.test[index] {
            continue;
        }
        if code.contains(".unwrap()") || code.contains(".unwrap_err()") {
            found.push(format!("{}: unwrap", source.at(index + 1)));
        }
        for (at, _) in code.match_indices(".expect(") {
            let rest = source.raw[index].get(at + ".expect(".len()..).unwrap_or_default();
            let next = source.raw.get(index + 1).map_or("", |line| line.trim());
            let reason = if rest.trim().is_empty() { next } else { rest };
            let text = reason.strip_prefix('"').unwrap_or_default();
            if text.split(' ').filter(|word| word.len() > 1).count() < 3 {
                found.push(format!("{}: expect without a reason", source.at(index + 1)));
            }
        }
    }
    found
}

/// The figures that are aimed at and never failed on.
struct Figures {
    median_function: usize,
    median_file: usize,
    docs: usize,
    comments: usize,
    tests: usize,
    lines: usize,
}

impl Figures {
    fn of(sources: &[Source]) -> Self {
        let ours = || sources.iter().filter(|source| source.path.starts_with("src/"));
        let begins = |source: &Source, start: &str| {
            let lines = source.raw.iter().map(|line| line.trim_start());
            lines.filter(|line| line.starts_with(start)).count()
        };
        let sum = |start| ours().map(|source| begins(source, start)).sum::<usize>();
        let functions = ours().flat_map(Source::functions).filter(|function| !function.test);
        Self {
            median_function: median(functions.map(|function| function.lines).collect()),
            median_file: median(ours().map(|source| source.raw.len()).collect()),
            docs: sum("///"),
            comments: sum("// "),
            tests: sources.iter().flat_map(|source| &source.test).filter(|test| **test).count(),
            lines: ours().map(|source| source.raw.len()).sum(),
        }
    }

    fn text(&self, all_lines: usize) -> String {
        let share = |part: usize, whole: usize| format!("{} %", part * 100 / whole.max(1));
        format!(
            "median function {} lines (aim: 12 at most)\n\
             median file     {} lines (aim: 160 at most)\n\
             /// lines       {} (aim: 8-14 %)\n\
             // lines        {} (aim: 3-6 %)\n\
             test lines      {} of all (aim: a third)\n\
             lines           {} below src, {all_lines} with tests",
            self.median_function,
            self.median_file,
            share(self.docs, self.lines),
            share(self.comments, self.lines),
            share(self.tests, all_lines),
            self.lines,
        )
    }
}

fn median(mut numbers: Vec<usize>) -> usize {
    numbers.sort_unstable();
    numbers.get(numbers.len() / 2).copied().unwrap_or(0)
}

#[test]
fn every_file_is_in_shape() {
    let found: Vec<String> = all(&["src", "tests"]).iter().flat_map(findings).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn figures() {
    let sources = all(&["src", "tests"]);
    let all_lines = sources.iter().map(|source| source.raw.len()).sum();
    let text = Figures::of(&sources).text(all_lines);
    if std::env::var_os("CAPVCO_SHAPE").is_some() {
        writeln!(std::io::stdout(), "\n{text}").unwrap();
    }
}

#[test]
fn a_bad_file_is_found_out() {
    let long_file = format!("//! A long file.\n{}", "\n".repeat(600));
    let long_function = format!("//! A long one.\nfn long() {{\n{}}}\n", "    x();\n".repeat(80));
    let main = format!("//! A long main.\n{}", "\n".repeat(60));
    let sign = "//! The room.\n//! What may enter: nothing. How to add one more: do not.\n";
    for (path, text, wanted) in [
        ("src/lib/a.rs", long_file.as_str(), "src/lib/a.rs:601: 601 lines"),
        ("src/lib/a.rs", &long_function, "src/lib/a.rs:2: long has 82 lines"),
        ("src/bin/x/main.rs", &main, "main has 61 lines"),
        ("src/lib/a.rs", "use x;\n", "src/lib/a.rs:1: the first line"),
        ("src/lib/a.rs", "", "the first line"),
        ("src/lib/a/mod.rs", sign, "lacks invariant"),
        ("src/lib/a.rs", "//! A file of ours.\nfn f() { g().unwrap() }\n", ":2: unwrap"),
        ("src/lib/a.rs", "//! A file of ours.\nfn f() { g().expect(\"\") }\n", "without a reason"),
        (
            "src/lib/a.rs",
            "//! A file of ours.\nfn f() { g().expect(\"ok\") }\n",
            "without a reason",
        ),
    ] {
        let found = findings(&Source::new(path, text)).join("\n");
        assert!(found.contains(wanted), "{path} {text:?} gave {found:?}");
    }
}

#[test]
fn a_good_file_is_left_alone() {
    let text = "\
//! A file of ours.
// .unwrap() is only said here
fn f() -> u8 {
    g().expect(\"the table is never empty\");
    h()
        .expect(
            \"a reason on the next line\",
        )
}
#[cfg(test)]
mod tests {
    fn f() { g().unwrap().expect(\"\") }
}
";
    assert_eq!(findings(&Source::new("src/lib/a.rs", text)), Vec::<String>::new());
    assert_eq!(median(vec![3, 1, 2]), 2);
}
