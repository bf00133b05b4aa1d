//! Reads our own source as text, well enough to hold it to the house's rules.
//!
//! A [`Source`] keeps every line twice: as written, and as code, with the insides of comments
//! and strings blanked out, so that a rule about code never trips over prose.

use std::path::{Path, PathBuf};

/// One file.
#[derive(Debug)]
pub struct Source {
    /// Its path below the repository, with `/`.
    pub path: String,
    /// Its lines as written.
    pub raw: Vec<String>,
    /// The same lines with comments and the insides of strings blanked.
    pub code: Vec<String>,
    /// Whether the line belongs to a test: a file below `tests` or of that name, or a
    /// `#[cfg(test)]` item.
    pub test: Vec<bool>,
}

/// A function: where it starts (line numbers from 1), how many lines it has, whose it is.
#[derive(Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// The line of its `fn`.
    pub line: usize,
    /// Lines from `fn` to the closing brace.
    pub lines: usize,
    /// Whether it is test code.
    pub test: bool,
}

/// The repository's root.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every Rust file below `folders`, in the order of their paths.
pub fn all(folders: &[&str]) -> Vec<Source> {
    let mut paths: Vec<PathBuf> = Vec::new();
    for folder in folders {
        collect(&root().join(folder), &mut paths);
    }
    paths.sort();
    let read = |path: &PathBuf| {
        let text = std::fs::read_to_string(path).expect("our own source is text");
        let below = path.strip_prefix(root()).expect("it was found below the root");
        Source::new(&below.to_string_lossy().replace('\\', "/"), &text)
    };
    paths.iter().map(read).collect()
}

fn collect(folder: &Path, paths: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("the folder of our source can be read") {
        let path = entry.expect("its entries can be read").path();
        if path.is_dir() {
            collect(&path, paths);
        } else if path.extension().is_some_and(|end| end == "rs") {
            paths.push(path);
        }
    }
}

impl Source {
    /// Reads `text` as the file `path`.
    pub fn new(path: &str, text: &str) -> Self {
        let raw: Vec<String> = text.lines().map(str::to_owned).collect();
        let code: Vec<String> = blanked(text).lines().map(str::to_owned).collect();
        let whole = path.starts_with("tests/") || path.ends_with("/tests.rs");
        let mut source = Self { path: path.to_owned(), test: vec![whole; raw.len()], raw, code };
        source.mark_tests();
        source
    }

    /// `path:line`, for a finding; `line` counts from 1.
    pub fn at(&self, line: usize) -> String {
        format!("{}:{line}", self.path)
    }

    fn mark_tests(&mut self) {
        let mut line = 0;
        while line < self.code.len() {
            if self.code[line].trim().starts_with("#[cfg(test)]") {
                let end = self.end_of_item(line).unwrap_or(line);
                self.test[line..=end].fill(true);
                line = end;
            }
            line += 1;
        }
    }

    /// The last line of the braced item that starts at `line`, or of its `;`.
    fn end_of_item(&self, line: usize) -> Option<usize> {
        let mut depth = 0_usize;
        let mut brackets = 0_usize;
        for (index, code) in self.code.iter().enumerate().skip(line) {
            for c in code.chars() {
                match c {
                    '{' => depth += 1,
                    '}' if depth <= 1 => return Some(index),
                    '}' => depth -= 1,
                    '(' | '[' => brackets += 1,
                    ')' | ']' => brackets = brackets.saturating_sub(1),
                    ';' if depth == 0 && brackets == 0 => return Some(index),
                    _ => {}
                }
            }
        }
        None
    }

    /// Every function that has a body.
    pub fn functions(&self) -> Vec<Function> {
        let mut found = Vec::new();
        for (index, code) in self.code.iter().enumerate() {
            let Some(name) = function_name(code) else { continue };
            let Some(end) = self.end_of_item(index) else { continue };
            if self.code[index..=end].iter().any(|line| line.contains('{')) {
                let (line, lines) = (index + 1, end - index + 1);
                found.push(Function { name, line, lines, test: self.test[index] });
            }
        }
        found
    }

    /// Every path segment that follows `start::`, with its line number: `crate::{a::B, c}` gives
    /// `a` and `c`.
    pub fn first_segments(&self, start: &str) -> Vec<(usize, String)> {
        let text = self.code.join("\n");
        let needle = format!("{start}::");
        let mut found = Vec::new();
        for (offset, _) in text.match_indices(&needle) {
            let before = text[..offset].chars().next_back();
            // `crate::` in `my_crate::` or in `a::crate::` is something else.
            if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':') {
                continue;
            }
            let after = offset + needle.len();
            let starts = segment_starts(&text[after..]);
            found.extend(starts.into_iter().filter_map(|at| {
                let name = identifier(&text[after + at..])?;
                Some((text[..after + at].matches('\n').count() + 1, name))
            }));
        }
        found
    }
}

/// Where the segments right after a `::` start: at 0, or after the brace and every comma of its
/// group's own level.
fn segment_starts(text: &str) -> Vec<usize> {
    if !text.starts_with('{') {
        return vec![0];
    }
    let mut depth = 0_usize;
    let mut starts = Vec::new();
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            break;
        }
        if depth == 1 && (c == ',' || (c == '{' && at == 0)) {
            let blank = text[at + 1..].chars().take_while(|c| c.is_whitespace());
            starts.push(at + 1 + blank.map(char::len_utf8).sum::<usize>());
        }
    }
    starts
}

fn identifier(text: &str) -> Option<String> {
    let word = |c: &char| c.is_alphanumeric() || *c == '_';
    let name: String = text.chars().take_while(word).collect();
    (!name.is_empty()).then_some(name)
}

fn function_name(code: &str) -> Option<String> {
    let at = code.find("fn ").filter(|at| {
        let before = code[..*at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || c == '_')
    })?;
    identifier(&code[at + 3..])
}

/// `text` with the insides of comments, strings and character literals replaced by blanks, and
/// every line break kept.
pub fn blanked(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        if let Some(end) = comment_end(&chars, at).or_else(|| literal_end(&chars, at)) {
            let quoted = chars[at] != '/';
            for (index, c) in chars[at..end].iter().enumerate() {
                let edge = quoted && (index == 0 || index + 1 == end - at);
                match c {
                    '\n' => out.push('\n'),
                    c if edge => out.push(*c),
                    // Columns stay what they were.
                    c => out.extend(std::iter::repeat_n(' ', c.len_utf8())),
                }
            }
            at = end;
        } else {
            out.push(chars[at]);
            at += 1;
        }
    }
    out
}

fn comment_end(chars: &[char], at: usize) -> Option<usize> {
    match (chars[at], chars.get(at + 1)) {
        ('/', Some('/')) => {
            let end = chars[at..].iter().position(|c| *c == '\n');
            Some(end.map_or(chars.len(), |length| at + length))
        }
        ('/', Some('*')) => {
            let mut depth = 0_usize;
            let mut here = at;
            while here < chars.len() {
                match (chars[here], chars.get(here + 1)) {
                    ('/', Some('*')) => (depth, here) = (depth + 1, here + 1),
                    ('*', Some('/')) => (depth, here) = (depth - 1, here + 1),
                    _ => {}
                }
                here += 1;
                if depth == 0 {
                    break;
                }
            }
            Some(here)
        }
        _ => None,
    }
}

fn literal_end(chars: &[char], at: usize) -> Option<usize> {
    let before = at.checked_sub(1).map(|index| chars[index]);
    let word = before.is_some_and(|c| c.is_alphanumeric() || c == '_');
    match chars[at] {
        '"' => Some(string_end(chars, at + 1)),
        'r' if !word || before == Some('b') => raw_string_end(chars, at),
        // A lifetime has no closing quote two characters on.
        '\'' => match (chars.get(at + 1), chars.get(at + 2)) {
            (Some('\\'), _) => {
                let close = chars[at + 3..].iter().position(|c| *c == '\'')?;
                Some(at + 3 + close + 1)
            }
            (Some(_), Some('\'')) => Some(at + 3),
            _ => None,
        },
        _ => None,
    }
}

fn string_end(chars: &[char], mut at: usize) -> usize {
    while at < chars.len() && chars[at] != '"' {
        at += if chars[at] == '\\' { 2 } else { 1 };
    }
    (at + 1).min(chars.len())
}

fn raw_string_end(chars: &[char], at: usize) -> Option<usize> {
    let hashes = chars[at + 1..].iter().take_while(|c| **c == '#').count();
    let open = at + 1 + hashes;
    if chars.get(open) != Some(&'"') {
        return None;
    }
    let close: Vec<char> = std::iter::once('"').chain(std::iter::repeat_n('#', hashes)).collect();
    let length = chars[open + 1..].windows(close.len()).position(|part| part == close)?;
    Some(open + 1 + length + close.len())
}

#[test]
fn prose_is_blanked_and_code_is_not() {
    for (text, wanted) in [
        ("a // b\nc", "a     \nc"),
        ("a /* b /* c */ */ d", "a                 d"),
        (r#"f("x::y", '"') 'a"#, r#"f("    ", ' ') 'a"#),
        (r##"r#"a"b"# c"##, "r      # c"),
        (r"'\'' 'b' '\u{1}'", r"'  ' ' ' '     '"),
        ("\"a\\\"b\" c", "\"    \" c"),
    ] {
        assert_eq!(blanked(text), wanted, "{text}");
    }
}

#[test]
fn functions_and_tests_are_found() {
    let text = "\
//! A sign.
fn one(f: fn(u8)) -> [u8; 2] {
    [1, 2]
}
trait T {
    fn none(&self);
}
#[cfg(test)]
mod tests {
    fn two() {}
}
fn three() {}
";
    let source = Source::new("src/lib/a.rs", text);
    let found: Vec<_> =
        source.functions().into_iter().map(|f| (f.name, f.line, f.lines, f.test)).collect();
    let wanted = [("one", 2, 3, false), ("two", 10, 1, true), ("three", 12, 1, false)];
    let wanted: Vec<_> = wanted.map(|(n, l, s, t)| (n.to_owned(), l, s, t)).into();
    assert_eq!(found, wanted);
}

#[test]
fn first_segments_are_read_out_of_groups() {
    let text = "use crate::{\n    a::{B, C},\n    d,\n};\nfn f() { crate::e::g(\"crate::h\") } // crate::i";
    let source = Source::new("src/lib/a.rs", text);
    let wanted = [(2, "a"), (3, "d"), (5, "e")].map(|(line, name)| (line, name.to_owned()));
    assert_eq!(source.first_segments("crate"), wanted);
}
