//! Flags that several programs share, and how their values are written.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::env;
use crate::fault::{Class, Fault};

/// How results are written to stdout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Format {
    /// A table for people.
    #[default]
    Table,
    /// One object: `{"results": […]}`.
    Json,
    /// One object a line.
    Ndjson,
}

/// When to use colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Color {
    /// On a terminal, unless `NO_COLOR` is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// How a program talks: its results' format, and how much it says beside them.
///
/// A program with formats of its own gives its own enumeration, which has a `table` too.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Output", about = None, long_about = None)]
pub struct OutputArgs<F = Format>
where
    F: ValueEnum + Send + Sync + 'static,
{
    /// How to write the results to stdout
    #[arg(long, short, value_enum, default_value = "table", value_name = "FORMAT")]
    pub output: F,

    /// Say nothing but warnings and errors beside the results
    #[arg(long, short)]
    quiet: bool,

    /// Show each call to the cloud; twice: also what was sent and received, secrets blanked
    #[arg(long, short, action = clap::ArgAction::Count)]
    verbose: u8,

    /// When to use colours
    #[arg(long, value_enum, default_value = "auto", value_name = "WHEN")]
    color: Color,
}

impl<F> OutputArgs<F>
where
    F: ValueEnum + Send + Sync + 'static,
{
    /// How much to say, for [`super::Flags::talk`].
    #[must_use]
    pub fn talk(&self) -> Talk {
        let (quiet, verbose, color) = (self.quiet, self.verbose, self.color);
        Talk { quiet, verbose, color, ..Talk::default() }
    }
}

/// How much a program says on stderr.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Talk {
    /// Nothing but warnings and errors.
    pub quiet: bool,
    /// 1: a line a call; 2 and more: bodies too.
    pub verbose: u8,
    /// When to use colours.
    pub color: Color,
    /// The finest level that is logged, where it is not `verbose` alone that decides.
    pub finest: Option<tracing::Level>,
    /// How it is written.
    pub logs: LogFormat,
}

/// How a program that runs for long writes what it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum LogFormat {
    /// Lines for people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// How to reach the cloud, and who we are there.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Cloud", about = None, long_about = None)]
pub struct CloudArgs {
    /// The portal, such as `https://portal.example.com`
    #[arg(long, value_name = "URL", env = env::PORTAL_URL, hide_env_values = true)]
    portal_url: Option<String>,

    /// Where tokens are refreshed [default: the address that the portal's IAM domain implies]
    #[arg(long, value_name = "URL", env = env::IAM_REFRESH_URL, hide_env_values = true)]
    iam_refresh_url: Option<String>,

    /// The customer id [default: the one the token belongs to, if it is only one]
    #[arg(long, value_name = "ID", env = env::CUSTOMER_ID, hide_env_values = true)]
    customer: Option<String>,

    /// A file that holds the token, read again when it expires; `-` reads stdin. The token itself
    /// can be given in the variable `VCO_TOKEN`, never as an argument
    #[arg(long, value_name = "FILE", env = env::TOKEN_FILE, hide_env_values = true)]
    token_file: Option<PathBuf>,

    /// Certificates (PEM) to trust beside the usual ones
    #[arg(long, value_name = "FILE", env = env::CA_FILE, hide_env_values = true)]
    ca_file: Option<PathBuf>,

    /// Calls allowed to each location: `N/SECONDS`, or `off` [default: what the cloud allows]
    #[arg(long, value_name = "RATE", env = env::RATE_LIMIT, hide_env_values = true)]
    rate_limit: Option<String>,

    /// How long to wait for the reply to a call that only reads
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = time_limit)]
    cloud_read_timeout: Duration,

    /// How long to wait for the reply to a call that changes something
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = time_limit)]
    cloud_write_timeout: Duration,

    /// How long to go on retrying one call (15 s at most while the portal has never let us connect)
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = duration)]
    retry_for: Duration,
}

/// A setting without which there is nothing to talk to.
#[derive(Debug, thiserror::Error)]
#[error("no portal is given")]
pub struct NoPortal;

impl Fault for NoPortal {
    fn class(&self) -> Class {
        Class::Usage
    }

    fn hints(&self) -> Vec<String> {
        vec![format!("say --portal-url URL, or set {}", env::PORTAL_URL)]
    }
}

/// An empty setting counts as none: many CI systems define variables without a value.
fn filled(text: Option<&String>) -> Option<&str> {
    text.map(String::as_str).filter(|text| !text.is_empty())
}

impl CloudArgs {
    /// The portal's address as given.
    pub fn portal(&self) -> Result<&str, NoPortal> {
        filled(self.portal_url.as_ref()).ok_or(NoPortal)
    }

    /// Where tokens are refreshed, if it was said.
    #[must_use]
    pub fn iam_refresh(&self) -> Option<&str> {
        filled(self.iam_refresh_url.as_ref())
    }

    /// The customer's id as given.
    #[must_use]
    pub fn customer(&self) -> Option<&str> {
        filled(self.customer.as_ref())
    }

    /// Extra certificates to trust.
    #[must_use]
    pub fn ca_file(&self) -> Option<PathBuf> {
        self.ca_file.clone().filter(|path| !path.as_os_str().is_empty())
    }

    /// The rate limit as given.
    #[must_use]
    pub fn rate_limit(&self) -> Option<&str> {
        filled(self.rate_limit.as_ref())
    }

    /// How long to wait for the reply to a call that only reads.
    #[must_use]
    pub fn read_timeout(&self) -> Duration {
        self.cloud_read_timeout
    }

    /// How long to wait for the reply to a call that changes something.
    #[must_use]
    pub fn write_timeout(&self) -> Duration {
        self.cloud_write_timeout
    }

    /// How long to go on retrying one call.
    #[must_use]
    pub fn retry_for(&self) -> Duration {
        self.retry_for
    }

    /// Whether the token is to come from stdin, which nothing else may read then.
    #[must_use]
    pub fn token_is_on_stdin(&self) -> bool {
        self.token_file.as_ref().is_some_and(|path| path.as_os_str() == "-")
    }

    /// The token, from `--token-file`, `VCO_TOKEN` or `VCO_TOKEN_FILE`, whichever comes first.
    ///
    /// `warn` hears of a token file that others can read, and of two tokens given. It waits for
    /// a pipe's other end; [`super::Session::token`] can be interrupted.
    pub(super) fn token(
        &self,
        warn: &dyn crate::progress::Progress,
    ) -> Result<env::Token, env::NoToken> {
        env::token(self.token_file.as_deref(), warn)
    }
}

/// The longest length of time: a hundred years, as long as object storage locks anything.
const LONGEST: Duration = Duration::from_hours(36_500 * 24);

/// A length of time: `90s`, `5m`, `2h`, `1h30m`, `1.5s`, `250ms`; a hundred years at most.
pub fn duration(text: &str) -> Result<Duration, String> {
    let problem = || format!("{text:?} is no length of time; write 90s, 5m, 2h or 1h30m");
    let mut total = 0.0;
    let mut rest = text;
    while !rest.is_empty() {
        let (number, unit, tail) = number_and_unit(rest).ok_or_else(problem)?;
        let seconds = match unit {
            "ms" => 0.001,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            "d" => 86400.0,
            _ => return Err(problem()),
        };
        total += number * seconds;
        rest = tail;
    }
    if text.is_empty() {
        return Err(problem());
    }
    match Duration::try_from_secs_f64(total) {
        Ok(time) if time <= LONGEST => Ok(time),
        _ => Err(format!("{text:?} is longer than a hundred years (36500d)")),
    }
}

/// A length of time that something may take: longer than nothing, for nothing is ever that fast.
pub fn time_limit(text: &str) -> Result<Duration, String> {
    let time = duration(text)?;
    if time.is_zero() { Err(format!("{text:?} leaves no time at all")) } else { Ok(time) }
}

/// How long the other side may stand still: no less than it takes to answer, and no more than
/// anybody waits.
pub fn stall_limit(text: &str) -> Result<Duration, String> {
    let time = duration(text)?;
    if (Duration::from_secs(1)..=Duration::from_hours(24)).contains(&time) {
        Ok(time)
    } else {
        Err(format!("{text:?} is not between 1s and 24h"))
    }
}

/// Bytes a second, so many that something gets there.
pub fn rate(text: &str) -> Result<u64, String> {
    match size(text)? {
        bytes if bytes >= 1 << 10 => Ok(bytes),
        _ => Err(format!("{text:?} a second would take for ever; write 1KiB or more")),
    }
}

/// An amount of data in bytes: `1048576`, `64MiB`, `10GiB`, `5GB`.
pub fn size(text: &str) -> Result<u64, String> {
    let problem = || format!("{text:?} is no size; write 64MiB, 10GiB or a number of bytes");
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| problem())?;
    let unit = match unit {
        "" | "B" => 1,
        "K" | "KiB" => 1 << 10,
        "M" | "MiB" => 1 << 20,
        "G" | "GiB" => 1 << 30,
        "T" | "TiB" => 1 << 40,
        "kB" | "KB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "TB" => 1_000_000_000_000,
        _ => return Err(problem()),
    };
    number.checked_mul(unit).ok_or_else(problem)
}

/// `1.5h30m` → `(1.5, "h", "30m")`.
fn number_and_unit(text: &str) -> Option<(f64, &str, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, rest) = text.split_at(end);
    let end = rest.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len());
    let (unit, tail) = rest.split_at(end);
    Some((number.parse().ok()?, unit, tail))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Program {
        #[command(flatten)]
        cloud: CloudArgs,
        #[command(flatten)]
        output: OutputArgs,
    }

    #[test]
    fn the_groups_are_sound_and_keep_their_defaults() {
        let program = Program::try_parse_from(["p", "--customer=", "-vv"]).unwrap();
        assert_eq!(program.cloud.customer(), None);
        assert_eq!(program.cloud.read_timeout(), Duration::from_mins(1));
        assert_eq!(program.cloud.write_timeout(), Duration::from_mins(5));
        assert_eq!(program.cloud.retry_for(), Duration::from_mins(2));
        assert_eq!((program.output.output, program.output.talk().verbose), (Format::Table, 2));
    }

    #[test]
    fn lengths_of_time() {
        let good = [("90s", 90_000), ("5m", 300_000), ("2h", 7_200_000), ("1h30m", 5_400_000)];
        let more = [("250ms", 250), ("1.5s", 1_500), ("1d", 86_400_000), ("0s", 0)];
        for (text, millis) in good.into_iter().chain(more) {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for bad in
            ["", "5", "m", "5x", "-5s", "5 s", "1h30", "1e400s", "..s", "9999999999999999999999h"]
        {
            assert!(duration(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_limit_of_no_time_is_refused() {
        for (text, good) in [("1ms", true), ("2h", true), ("0s", false), ("0h0m", false)] {
            assert_eq!(time_limit(text).is_ok(), good, "{text}");
        }
        let table = [("1s", true), ("24h", true), ("999ms", false), ("0s", false), ("25h", false)];
        for (text, good) in table {
            assert_eq!(stall_limit(text).is_ok(), good, "{text}");
        }
    }

    #[test]
    fn a_time_beyond_all_use_is_refused_with_the_longest_there_is() {
        assert!(duration("36500d").is_ok());
        for text in ["36501d", "9999999d", "9999999999999999999999h"] {
            let told = duration(text).unwrap_err();
            assert!(told.contains("36500d"), "{told}");
        }
    }

    #[test]
    fn a_rate_at_which_nothing_gets_anywhere_is_refused() {
        for (text, good) in [("0", false), ("1023", false), ("1KiB", true), ("20MiB", true)] {
            assert_eq!(rate(text).is_ok(), good, "{text}");
        }
    }

    #[test]
    fn sizes() {
        let good = [("0", 0), ("1048576", 1 << 20), ("64MiB", 64 << 20), ("10GiB", 10 << 30)];
        let more = [("5GB", 5_000_000_000), ("2K", 2048), ("1TiB", 1 << 40), ("7B", 7)];
        for (text, bytes) in good.into_iter().chain(more) {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for bad in ["", "MiB", "1.5GiB", "5 GiB", "-1", "5XB", "99999999999TiB"] {
            assert!(size(bad).is_err(), "{bad:?}");
        }
    }
}
