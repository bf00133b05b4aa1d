//! A variable for every option: `--claim-age` is also `PREFIX_CLAIM_AGE`.
//!
//! So one file of settings serves a timer, a pod and a shell. An option that names its variable
//! itself keeps that one.

use std::ffi::OsString;

use clap::{Arg, ArgAction, Command};

use super::env;

/// What is never taken from the environment: a forgotten variable must not turn every run into a
/// rehearsal, and how a run talks belongs to who started it.
const NEVER: &[&str] =
    &["help", "version", "dry-run", "plan", "output", "quiet", "verbose", "color"];

/// Gives every long option of `command` and of its verbs the variable `prefix` + its name.
pub(super) fn attach(command: Command, prefix: &str) -> Command {
    let command = command.mut_args(|arg| with_variable(arg, prefix));
    command.mut_subcommands(|verb| attach(verb, prefix))
}

fn with_variable(arg: Arg, prefix: &str) -> Arg {
    let arg = match (arg.get_env().is_some(), arg.get_long()) {
        (false, Some(long)) if !NEVER.contains(&long) => {
            let name = variable(prefix, long);
            arg.env(OsString::from(name)).hide_env_values(true)
        }
        _ => arg,
    };
    // A variable that is set to nothing counts as not set.
    let blank = arg.get_env().and_then(|name| name.to_str()).is_some_and(env::is_blank);
    let arg = if blank { arg.env(None::<&str>) } else { arg };
    if matches!(arg.get_action(), ArgAction::SetTrue) && arg.get_env().is_some() {
        return arg.value_parser(clap::builder::BoolishValueParser::new());
    }
    arg
}

/// The variable of an option: upper case, with underscores.
fn variable(prefix: &str, long: &str) -> String {
    format!("{prefix}_{}", long.replace('-', "_").to_uppercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command() -> Command {
        let own = Arg::new("own").long("own").env("PATH");
        let switch = Arg::new("switch").long("a-switch").action(ArgAction::SetTrue);
        let dry = Arg::new("dry").long("dry-run").action(ArgAction::SetTrue);
        let verb = Command::new("verb").args([own, switch, dry, Arg::new("place")]);
        attach(Command::new("x").subcommand(verb), "CAPVCO_TEST")
    }

    #[test]
    fn every_option_of_a_verb_has_a_variable_but_for_those_that_a_person_gives() {
        let command = command();
        let verb = command.find_subcommand("verb").unwrap();
        let of = |id: &str| {
            let arg = verb.get_arguments().find(|arg| arg.get_id() == id).unwrap();
            arg.get_env().map(|name| name.to_string_lossy().into_owned())
        };
        assert_eq!(of("own").as_deref(), Some("PATH"));
        assert_eq!(of("switch").as_deref(), Some("CAPVCO_TEST_A_SWITCH"));
        assert_eq!((of("dry"), of("place")), (None, None));
    }
}
