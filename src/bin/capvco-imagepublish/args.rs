//! The flags of `capvco-imagepublish`, and what they become.

use std::path::PathBuf;
use std::time::Duration;

use capvco::cli::args::{duration, time_limit};
use capvco::cli::{self, CloudArgs, Flags, Format, OutputArgs, Session, Talk};
use capvco::fault::Fault;
use capvco::publish::{CloudConfig, Error, Inputs, Problem, RateLimit, TokenSource};
use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{ArgGroup, Parser};

const USAGE: &str = "\
capvco-imagepublish (-url URL|-file PATH) -name NAME -locations A,B,C|all [OPTIONS]";

const EXAMPLES: &str = "\
Examples:
  capvco-imagepublish -url \"https://images.example.com/k8s.qcow2\" -name \"k8s-v1.35.8\" -locations qt-gen-dc01-003
  capvco-imagepublish -file build/k8s.qcow2 -name k8s-v1.35.8 -locations all
  xz -dc k8s.qcow2.xz | capvco-imagepublish -file - -sha256 SUM -name k8s-v1.35.8 -locations a,b,c
  capvco-imagepublish -url URL -sha256 SUM -name k8s-v1.35.8 -locations all -replace -dry-run

Running the same command again is safe: an image that is there is left alone, an import that is
under way is joined. The image's digest is kept in its tags.

Results: created, unchanged, joined, replaced, submitted (-no-wait), planned (-dry-run),
interrupted, failed. JSON rows: location, result, image_id, bytes, seconds; on failure also error
and hint; with -dry-run also plan.

Exit codes: 0 done; 1 failed; 2 wrong flags; 3 refused before anything was changed; 4 the cloud or
the image's server failed, the same command may work later; 5 failed or timed out, and something
was left behind or in flight, which the results list.";

/// Publish an image, from a URL or a file, under one name in one or more locations
#[derive(Debug, Parser)]
#[command(override_usage = USAGE, after_help = EXAMPLES, group(ArgGroup::new("source").required(true)))]
pub struct Args {
    /// Import from this address; the cloud itself downloads it
    #[arg(long, value_name = "URL", group = "source")]
    url: Option<String>,

    /// Upload this file; `-` reads stdin
    #[arg(long, value_name = "PATH", group = "source", value_parser = any_path())]
    file: Option<PathBuf>,

    /// The image's name: letters, digits, `.`, `_` and `-`
    #[arg(long, value_name = "NAME", required = true)]
    name: String,

    /// Where to publish: a,b,c, or `all` that can host VMs
    #[arg(long, value_name = "LOCATIONS", required = true)]
    locations: String,

    #[command(flatten)]
    content: Content,

    #[command(flatten)]
    description: Description,

    #[command(flatten)]
    run: Manner,

    #[command(flatten)]
    output: OutputArgs,

    #[command(flatten)]
    cloud: CloudArgs,
}

/// Takes an empty path too, which the library explains better.
fn any_path() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().map(PathBuf::from)
}

/// What the image holds.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Content", about = None, long_about = None)]
struct Content {
    /// The image's MD5, which the cloud enforces [default: from URL.md5 or a list beside it]
    #[arg(long, value_name = "HEX")]
    md5: Option<String>,

    /// The image's SHA-256, enforced by downloading the URL once [default: from URL.sha256 or a
    /// list beside it]
    #[arg(long, value_name = "HEX")]
    sha256: Option<String>,

    /// Only record the SHA-256, and do not download the URL to enforce it
    #[arg(long)]
    trust_checksum: bool,

    /// Do not look at the URL first: only the cloud can reach it
    #[arg(long)]
    skip_url_check: bool,
}

/// How the image is described to the cloud.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Description", about = None, long_about = None)]
struct Description {
    /// The system in the image, from the cloud's own list [default: Linux - other]
    #[arg(long, value_name = "NAME")]
    os_name: Option<String>,

    /// Linux, Windows, Unix, BSD, Darwin or Other [default: Linux]
    #[arg(long, value_name = "TYPE")]
    os_type: Option<String>,

    /// bios, uefi or uefi-secure-boot [default: uefi]
    #[arg(long, value_name = "TYPE")]
    boot_type: Option<String>,

    /// The least memory of a VM, in MiB [default: 2048]
    #[arg(long, value_name = "MIB", value_parser = mib)]
    memory: Option<u64>,

    /// The smallest boot disk of a VM, in GiB [default: the size of the disk in the image, or 20
    /// where that cannot be read]
    #[arg(long, value_name = "GIB", value_parser = gib)]
    boot_disk_size: Option<u64>,

    /// Tags of your own, kept beside the digest
    #[arg(long, value_name = "TEXT")]
    tags: Option<String>,
}

/// How the run goes about it.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Run", about = None, long_about = None)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
struct Manner {
    /// Put the image in the place of another one of the same name, which is removed last
    #[arg(long)]
    replace: bool,

    /// Say what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,

    /// Wait until the image is usable (this is the default)
    #[arg(long, overrides_with = "no_wait")]
    wait: bool,

    /// Do not wait: the import is only submitted
    #[arg(long, overrides_with = "wait")]
    no_wait: bool,

    /// How many locations at once
    #[arg(long, value_name = "N", default_value = "64")]
    parallel: usize,

    /// How long the whole run may take, retries included
    #[arg(long, value_name = "TIME", default_value = "2h", value_parser = time_limit)]
    timeout: Duration,

    /// How often to look at an import
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = duration)]
    poll_interval: Duration,
}

impl Flags for Args {
    fn talk(&self) -> Talk {
        self.output.talk()
    }
}

fn mib(text: &str) -> Result<u64, &'static str> {
    text.parse().map_err(|_| "write a number of MiB, such as 2048")
}

fn gib(text: &str) -> Result<u64, &'static str> {
    text.parse().map_err(|_| "write a number of GiB, such as 20")
}

fn usage(what: &dyn std::fmt::Display) -> Error {
    Error::Refused(vec![Problem::usage(what.to_string())])
}

impl Args {
    /// What is asked of the library.
    pub fn inputs(&self) -> Inputs {
        let (content, set, run) = (&self.content, &self.description, &self.run);
        Inputs {
            url: self.url.clone(),
            file: self.file.clone(),
            name: self.name.clone(),
            locations: self.locations.clone(),
            md5: content.md5.clone(),
            sha256: content.sha256.clone(),
            os_name: set.os_name.clone(),
            os_type: set.os_type.clone(),
            boot_type: set.boot_type.clone(),
            memory_mib: set.memory,
            boot_disk_gib: set.boot_disk_size,
            tags: set.tags.clone(),
            parallel: run.parallel,
            timeout: run.timeout,
            poll_interval: run.poll_interval,
            replace: run.replace,
            wait: !run.no_wait,
            dry_run: run.dry_run,
            skip_url_check: content.skip_url_check,
            trust_checksum: content.trust_checksum,
        }
    }

    /// How the results are written.
    pub fn format(&self) -> Format {
        self.output.output
    }

    /// How the cloud is reached.
    pub async fn cloud(&self, session: &Session) -> Result<CloudConfig, Box<dyn Fault>> {
        let given = &self.cloud;
        let stdin_twice =
            given.token_is_on_stdin() && self.file.as_ref().is_some_and(|f| f.as_os_str() == "-");
        if stdin_twice {
            let what = "-file - and --token-file - both read stdin; give the token another way";
            return Err(usage(&what).into());
        }
        let portal = given.portal()?;
        let token = match session.token(given).await? {
            cli::env::Token::Inline(token) => TokenSource::Inline(token),
            cli::env::Token::File(path) => TokenSource::File(path),
        };
        let mut config = CloudConfig::new(portal, token);
        config.iam_refresh = given.iam_refresh().map(str::to_owned);
        config.ca_file = given.ca_file();
        config.customer = given.customer().map(str::parse).transpose().map_err(|e| usage(&e))?;
        config.user_agent.clone_from(&session.user_agent);
        config.read_timeout = given.read_timeout();
        config.write_timeout = given.write_timeout();
        let rate_limit = given.rate_limit().map(str::parse::<RateLimit>).transpose();
        config.rate_limit = rate_limit.map_err(|e| usage(&e))?;
        config.retry_for = given.retry_for();
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &str) -> Result<Args, clap::Error> {
        Args::try_parse_from(std::iter::once("p").chain(words.split_whitespace()))
    }

    #[test]
    fn one_source_a_name_and_locations_are_needed() {
        for (words, good) in [
            ("--url https://a/b --name n --locations x", true),
            ("--file - --name n --locations all", true),
            ("--name n --locations x", false),
            ("--url u --file f --name n --locations x", false),
            ("--url u --locations x", false),
            ("--url u --name n", false),
            ("--url u --name n --locations x --timeout 5", false),
            ("--url u --name n --locations x --timeout 0s", false),
            ("--url u --name n --locations x --cloud-read-timeout 0s", false),
            ("--url u --name n --locations x --memory big", false),
            ("--url u --name n --locations x --output xml", false),
        ] {
            assert_eq!(parsed(words).is_ok(), good, "{words}");
        }
    }

    #[test]
    fn amounts_are_plain_numbers() {
        for (flag, unit) in [("memory", "MiB"), ("boot-disk-size", "GiB")] {
            let error = parsed(&format!("--url u --name n --locations x --{flag} 2GB"));
            let text = error.unwrap_err().to_string();
            assert!(text.contains(&format!("write a number of {unit}, such as ")), "{text}");
        }
    }

    #[test]
    fn the_last_of_wait_and_no_wait_counts() {
        let waits = |more: &str| {
            let words = format!("--url u --name n --locations x {more}");
            parsed(&words).unwrap().inputs().wait
        };
        assert!(waits("") && waits("--wait") && waits("--no-wait --wait"));
        assert!(!waits("--no-wait") && !waits("--wait --no-wait"));
    }

    #[test]
    fn defaults_are_the_librarys() {
        let words = "--url u --name n --locations x";
        let (here, there) = (parsed(words).unwrap().inputs(), Inputs::default());
        assert_eq!(
            (here.parallel, here.timeout, here.poll_interval),
            (there.parallel, there.timeout, there.poll_interval)
        );
    }
}
