//! Go-style flags for clap: `-url x`, `-url=x` and `--url x` mean the same.
//!
//! Published scripts write long flags with one dash. This is a pure rewriter in front of clap,
//! driven by the very command that will parse the result: it knows every long flag, its aliases,
//! and whether it takes a value. The result is canonical: `--flag=value` in one word, so a
//! value may start with a dash. Only a word that is itself a flag of the command is not taken as
//! a value (`-name -dry-run` is a forgotten name, not a run for real); `-name=-dry-run` says it.
//!
//! As in Go, a switch takes `=true` and `=false`; where a `--no-…` twin exists, `=false` is it.
//! Short flags (`-v`, `-vv`, `-qv`) and everything after `--` pass untouched, and what is
//! unknown becomes `--unknown`, so that clap can suggest what was meant.

use std::ffi::{OsStr, OsString};

use clap::{Arg, ArgAction, Command};

/// Rewrites `words` (the program's own name first) for `command`, which must be built.
///
/// Rewriting twice changes nothing more.
#[must_use]
pub fn rewrite(words: impl IntoIterator<Item = OsString>, command: &Command) -> Vec<OsString> {
    let mut words = words.into_iter().peekable();
    let mut command = command;
    let mut out: Vec<OsString> = words.next().into_iter().collect();
    while let Some(word) = words.next() {
        if word == "--" {
            out.push(word);
            out.extend(words);
            return out;
        }
        match read(&word, command) {
            Word::Plain => {
                if let Some(verb) = word.to_str().and_then(|name| command.find_subcommand(name)) {
                    command = verb;
                }
                out.push(word);
            }
            Word::Short { wants_value: false } | Word::Long(Shape::Done) => out.push(word),
            Word::Short { wants_value: true } => {
                out.push(word);
                out.extend(words.next());
            }
            Word::Long(Shape::Lift) => out.push(lifted(&word)),
            Word::Long(Shape::Wants(name)) => {
                let mut flag = OsString::from(format!("--{name}"));
                if words.peek().is_some_and(|next| is_value(next, command)) {
                    flag.push("=");
                    flag.extend(words.next());
                }
                out.push(flag);
            }
            Word::Long(Shape::Switch(switch)) => out.extend(switch.map(OsString::from)),
        }
    }
    out
}

/// What one word of the command line is.
enum Word {
    /// A positional, a verb, or a lone dash.
    Plain,
    /// Short flags, untouched; with a value of their own in the next word, or without.
    Short { wants_value: bool },
    /// A long flag, with one dash or two.
    Long(Shape),
}

/// What is to be done with a long flag.
enum Shape {
    /// It is as it should be.
    Done,
    /// It lacks its second dash.
    Lift,
    /// This flag takes its value from the next word.
    Wants(String),
    /// A switch with an explicit truth value becomes this, or vanishes.
    Switch(Option<String>),
}

fn read(word: &OsStr, command: &Command) -> Word {
    let text = word.to_string_lossy();
    let Some(rest) = text.strip_prefix('-').filter(|rest| !rest.is_empty()) else {
        return Word::Plain;
    };
    let (dashes, body) = rest.strip_prefix('-').map_or((1, rest), |body| (2, body));
    let (name, value) = body.split_once('=').map_or((body, None), |(n, v)| (n, Some(v)));
    match long_flag(name, command) {
        Some(arg) => Word::Long(shape(arg, name, value, dashes, command)),
        None if dashes == 1 && body.starts_with(|c: char| c.is_ascii_digit()) => Word::Plain,
        None if dashes == 1 && begins_as_long(name, command) => Word::Long(Shape::Lift),
        None if dashes == 1 => short_flags(name, command)
            .map_or(Word::Long(Shape::Lift), |wants| Word::Short {
                wants_value: wants && value.is_none(),
            }),
        None => Word::Long(Shape::Done),
    }
}

fn shape(arg: &Arg, name: &str, value: Option<&str>, dashes: u8, command: &Command) -> Shape {
    let as_it_is = if dashes == 2 { Shape::Done } else { Shape::Lift };
    match value {
        None if wants_value(arg) => Shape::Wants(name.to_owned()),
        Some(value) if matches!(arg.get_action(), ArgAction::SetTrue) => match value {
            "1" | "t" | "T" | "true" | "True" | "TRUE" => Shape::Switch(Some(format!("--{name}"))),
            "0" | "f" | "F" | "false" | "False" | "FALSE" => {
                let twin = format!("no-{name}");
                let twin = long_flag(&twin, command).map(|_| format!("--{twin}"));
                Shape::Switch(twin)
            }
            _ => as_it_is,
        },
        _ => as_it_is,
    }
}

/// Whether `word` may be the value of the flag before it.
fn is_value(word: &OsStr, command: &Command) -> bool {
    let text = word.to_string_lossy();
    let Some(rest) = text.strip_prefix('-').filter(|rest| !rest.is_empty()) else {
        return true;
    };
    let name = rest.strip_prefix('-').unwrap_or(rest);
    let name = name.split_once('=').map_or(name, |(name, _)| name);
    let short = text.len() == 2 && short_flags(rest, command).is_some();
    text != "--" && long_flag(name, command).is_none() && !short
}

fn long_flag<'a>(name: &str, command: &'a Command) -> Option<&'a Arg> {
    command.get_arguments().find(|arg| {
        arg.get_long() == Some(name)
            || arg.get_all_aliases().is_some_and(|aliases| aliases.contains(&name))
    })
}

/// Whether this looks like a long flag that is mistyped (`-outptu`), and not like a short one with
/// its value (`-ojson`).
fn begins_as_long(name: &str, command: &Command) -> bool {
    let Some(beginning) = name.get(..3) else { return false };
    let mut longs = command.get_arguments().filter_map(Arg::get_long);
    longs.any(|long| long.starts_with(beginning))
}

/// `None` unless `letters` starts a run of known short flags; else whether the last one still
/// wants its value.
fn short_flags(letters: &str, command: &Command) -> Option<bool> {
    let mut letters = letters.chars().peekable();
    letters.peek()?;
    while let Some(letter) = letters.next() {
        let arg = command.get_arguments().find(|arg| {
            arg.get_short() == Some(letter)
                || arg.get_all_short_aliases().is_some_and(|known| known.contains(&letter))
        })?;
        if wants_value(arg) {
            return Some(letters.peek().is_none());
        }
    }
    Some(false)
}

/// Whether the flag must have a value and takes it from the next word too.
fn wants_value(arg: &Arg) -> bool {
    let at_least_one = arg.get_num_args().is_none_or(|range| range.min_values() > 0);
    arg.get_action().takes_values() && at_least_one && !arg.is_require_equals_set()
}

fn lifted(word: &OsStr) -> OsString {
    let mut out = OsString::from("-");
    out.push(word);
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn command() -> Command {
        let switch = |name: &'static str| Arg::new(name).long(name).action(ArgAction::SetTrue);
        let valued = |name: &'static str| Arg::new(name).long(name);
        let verbose = Arg::new("verbose").short('v').long("verbose").action(ArgAction::Count);
        let mut command = Command::new("program")
            .version("1")
            .arg(valued("url").alias("from"))
            .arg(valued("tags"))
            .arg(valued("file").short('k'))
            .arg(Arg::new("color").long("color").num_args(0..=1))
            .arg(switch("dry-run"))
            .arg(switch("wait"))
            .arg(switch("no-wait"))
            .arg(switch("quiet").short('q'))
            .arg(verbose.global(true))
            .arg(Arg::new("rest").num_args(0..))
            .subcommand(Command::new("cloud").arg(valued("listen")));
        command.build();
        command
    }

    fn rewritten(words: &[&str]) -> Vec<String> {
        let words = std::iter::once("program").chain(words.iter().copied()).map(OsString::from);
        let out = rewrite(words, &command());
        out.into_iter().skip(1).map(|word| word.into_string().unwrap()).collect()
    }

    #[test]
    fn each_way_of_writing_a_flag_becomes_one() {
        let table: &[(&[&str], &[&str])] = &[
            (&["-url", "x"], &["--url=x"]),
            (&["-url=x"], &["--url=x"]),
            (&["--url", "x"], &["--url=x"]),
            (&["--url=x"], &["--url=x"]),
            (&["-from", "x"], &["--from=x"]),
            (&["-url=a=b"], &["--url=a=b"]),
            (&["-url", "a=b"], &["--url=a=b"]),
            (&["-url", ""], &["--url="]),
            (&["-file", "-"], &["--file=-"]),
            (&["-k", "-x"], &["-k", "-x"]),
            (&["-k-x"], &["-k-x"]),
            (&["-k=x", "-url", "y"], &["-k=x", "--url=y"]),
            (&["-kfil"], &["-kfil"]),
            (&["-quite", "-filly"], &["--quite", "--filly"]),
            (&["-tags", "-x"], &["--tags=-x"]),
            (&["-tags", "--x"], &["--tags=--x"]),
            (&["-tags", "-xyz=1"], &["--tags=-xyz=1"]),
            (&["-tags", "-dry-run"], &["--tags", "--dry-run"]),
            (&["-tags", "--url", "x"], &["--tags", "--url=x"]),
            (&["-tags", "-q"], &["--tags", "-q"]),
            (&["-tags=-q"], &["--tags=-q"]),
            (&["-tags"], &["--tags"]),
            (&["-tags", "--", "x"], &["--tags", "--", "x"]),
            (&["--", "-url", "x"], &["--", "-url", "x"]),
            (&["-v", "-vv", "-qv", "-h", "-V"], &["-v", "-vv", "-qv", "-h", "-V"]),
            (&["-verbose", "-quiet"], &["--verbose", "--quiet"]),
            (&["-help"], &["--help"]),
            (&["-version"], &["--version"]),
            (&["-dry-run", "x"], &["--dry-run", "x"]),
            (&["-dry-run=true", "--quiet=F"], &["--dry-run"]),
            (&["-wait=false", "-wait=1"], &["--no-wait", "--wait"]),
            (&["-wait=maybe"], &["--wait=maybe"]),
            (&["-color", "x"], &["--color", "x"]),
            (&["-foo", "--bar", "-foo=1"], &["--foo", "--bar", "--foo=1"]),
            (&["-5", "-", ""], &["-5", "-", ""]),
            (&["cloud", "-listen", "x", "-v"], &["cloud", "--listen=x", "-v"]),
            (&["-url", "cloud", "-listen"], &["--url=cloud", "--listen"]),
        ];
        for (given, wanted) in table {
            assert_eq!(rewritten(given), *wanted, "{given:?}");
        }
    }

    #[test]
    fn an_unknown_flag_reaches_clap_with_two_dashes() {
        let words = ["program", "-foo"].map(OsString::from);
        let error = command().try_get_matches_from(rewrite(words, &command())).unwrap_err();
        assert!(error.to_string().contains("'--foo'"), "{error}");
    }

    #[cfg(unix)]
    #[test]
    fn words_that_are_no_text_pass() {
        use std::os::unix::ffi::OsStringExt;
        let raw = OsString::from_vec(b"-file=\xff".to_vec());
        let out = rewrite([OsString::from("program"), raw], &command());
        assert_eq!(out[1], OsString::from_vec(b"--file=\xff".to_vec()));
    }

    fn word() -> impl Strategy<Value = String> {
        let flag =
            "-{1,2}(url|tags|file|from|color|dry-run|wait|quiet|verbose|foo)(=[-a-z=]{0,4})?";
        prop_oneof!["-?-?[a-zé=-]{0,6}", flag, Just("--".to_owned()), Just("cloud".to_owned())]
    }

    proptest! {
        #[test]
        fn rewriting_twice_changes_nothing(words in proptest::collection::vec(word(), 0..8)) {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let once = rewritten(&words);
            let again: Vec<&str> = once.iter().map(String::as_str).collect();
            prop_assert_eq!(rewritten(&again), once.clone());
        }

        #[test]
        fn any_value_reaches_its_flag(value in ".{0,12}", form in 0..4) {
            let joined = [format!("-tags={value}"), format!("--tags={value}")];
            let apart = ["-tags", "--tags"];
            let index = usize::try_from(form % 2).unwrap();
            let words = match form {
                0 | 1 => vec![joined[index].as_str()],
                _ if !is_value(OsStr::new(&value), &command()) => return Ok(()),
                _ => vec![apart[index], value.as_str()],
            };
            let words = ["program"].into_iter().chain(words).map(OsString::from);
            let matches = command().try_get_matches_from(rewrite(words, &command())).unwrap();
            prop_assert_eq!(matches.get_one::<String>("tags"), Some(&value));
        }
    }
}
