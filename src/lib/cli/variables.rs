//! A variable for an option: `--claim-age` is also `PREFIX_CLAIM_AGE`.
//!
//! So one file of settings serves a timer, a pod and a shell. An option that names its variable
//! itself keeps that one.

use std::collections::BTreeSet;
use std::ffi::OsString;

use clap::{Arg, ArgAction, Command};

use super::env;
use crate::near::near;

/// How the variables of the cloud begin, which all programs share.
const CLOUD: &str = "VCO_";

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

/// A sentence for each variable that is set, begins as ours do, and is none of them: it is
/// mistyped, and what it should have set is not set.
pub(super) fn strange(command: &Command, prefix: Option<&str>) -> Vec<String> {
    let mut said = Vec::new();
    if let Some(prefix) = prefix.map(|prefix| format!("{prefix}_")) {
        said.extend(of_options(command, &prefix, &env::names(&prefix)));
    }
    said.extend(of_the_cloud(command, &env::names(CLOUD)));
    said
}

fn of_options(command: &Command, prefix: &str, set: &[String]) -> Vec<String> {
    let (mut known, mut never) = (own(prefix), BTreeSet::new());
    for long in longs(command) {
        let name = variable(prefix.trim_end_matches('_'), long);
        if NEVER.contains(&long) {
            never.insert(name)
        } else {
            known.insert(name)
        };
    }
    let say = |name: &String| {
        let rest = name.strip_prefix(prefix).unwrap_or(name);
        // What a cluster sets in a pod beside a Service of our name.
        let of_service = rest.starts_with("SERVICE_") || rest.starts_with("PORT");
        if known.contains(name) || of_service {
            return None;
        }
        if never.contains(name) {
            let flag = rest.to_lowercase().replace('_', "-");
            return Some(format!("{name} is not read: --{flag} is said on the command line only"));
        }
        let near = nearest(rest, prefix, &known).map(|near| format!("; {near} is meant?"));
        let near = near.unwrap_or_else(|| ": no option has this name".to_owned());
        Some(format!("the variable {name} is not read{near}"))
    };
    set.iter().filter_map(say).collect()
}

/// Others may have variables that begin so; only what is nearly one of ours is spoken of.
fn of_the_cloud(command: &Command, set: &[String]) -> Vec<String> {
    let uses =
        |arg: &Arg| arg.get_env().is_some_and(|name| name.to_string_lossy().starts_with(CLOUD));
    if !any_argument(command, &uses) {
        return Vec::new();
    }
    let known = own(CLOUD);
    let strange = set.iter().filter(|name| !known.contains(*name));
    let say = |name: &String| {
        let near = nearest(name.strip_prefix(CLOUD)?, CLOUD, &known)?;
        Some(format!("the variable {name} is not read; {near} is meant?"))
    };
    strange.filter_map(say).collect()
}

/// Documented variables that begin so.
fn own(prefix: &str) -> BTreeSet<String> {
    let names = env::ALL.iter().map(|(name, _)| *name);
    names.filter(|name| name.starts_with(prefix)).map(str::to_owned).collect()
}

/// Compared without the beginning that all share, which would make all of them near.
fn nearest(rest: &str, prefix: &str, known: &BTreeSet<String>) -> Option<String> {
    let ends = known.iter().filter_map(|name| name.strip_prefix(prefix));
    near(rest, ends).first().map(|end| format!("{prefix}{end}"))
}

fn longs(command: &Command) -> Vec<&str> {
    let own = command.get_arguments().filter_map(Arg::get_long);
    own.chain(command.get_subcommands().flat_map(longs)).collect()
}

fn any_argument(command: &Command, is: &dyn Fn(&Arg) -> bool) -> bool {
    command.get_arguments().any(is) || command.get_subcommands().any(|verb| any_argument(verb, is))
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

    #[test]
    fn the_options_without_a_variable_are_named_where_variables_are_documented() {
        let page = env::ALL.iter().find(|(name, _)| *name == env::BACKUP_PASSPHRASE).unwrap().1;
        for long in NEVER.iter().filter(|long| !["help", "version"].contains(long)) {
            assert!(page.contains(&format!("`--{long}`")), "{long}");
        }
    }

    #[test]
    fn a_variable_that_is_nearly_ours_is_told_with_the_one_that_was_meant() {
        let bucket = Arg::new("bucket").long("s3-bucket");
        let dry = Arg::new("dry").long("dry-run").action(ArgAction::SetTrue);
        let command = Command::new("x").subcommand(Command::new("verb").args([bucket, dry]));
        for (name, said) in [
            ("CAPVCO_BACKUP_S3_BUCKET", ""),
            ("CAPVCO_BACKUP_PASSPHRASE", ""),
            ("CAPVCO_BACKUP_SERVICE_HOST", ""),
            ("CAPVCO_BACKUP_PORT_443_TCP", ""),
            ("CAPVCO_BACKUP_S3_BUKET", "; CAPVCO_BACKUP_S3_BUCKET is meant?"),
            ("CAPVCO_BACKUP_BUCKETS", ": no option has this name"),
            ("CAPVCO_BACKUP_DRY_RUN", "--dry-run is said on the command line only"),
        ] {
            let found = of_options(&command, "CAPVCO_BACKUP_", &[name.to_owned()]);
            assert_eq!(found.len(), usize::from(!said.is_empty()), "{name}: {found:?}");
            assert!(
                found.iter().all(|text| text.contains(name) && text.ends_with(said)),
                "{found:?}"
            );
        }
    }

    #[test]
    fn of_the_clouds_variables_only_near_misses_are_told() {
        let cloud = Command::new("x").arg(Arg::new("p").long("portal-url").env(env::PORTAL_URL));
        for (name, said) in [
            ("VCO_PORTAL_URL", ""),
            ("VCO_REGION", ""),
            ("VCO_PORTALURL", "VCO_PORTAL_URL"),
            ("VCO_TOKENFILE", "VCO_TOKEN_FILE"),
        ] {
            let found = of_the_cloud(&cloud, &[name.to_owned()]);
            assert_eq!(found.len(), usize::from(!said.is_empty()), "{name}: {found:?}");
            assert!(found.iter().all(|text| text.contains(said)), "{found:?}");
            assert_eq!(of_the_cloud(&command(), &[name.to_owned()]), Vec::<String>::new());
        }
    }
}
