//! The flags of `capvco-imageresolve`, and what they become.

use capvco::cli::{self, CloudArgs, Flags, OutputArgs, Session, Talk};
use capvco::fault::Fault;
use capvco::resolve::{
    CloudConfig, Error, Form, Pattern, Places, RateLimit, Request, TokenSource, Wanted,
};
use clap::{ArgGroup, Parser, ValueEnum};

const USAGE: &str = "\
capvco-imageresolve (-name NAME|-prefix TEXT|-match GLOB|-list) -locations A,B,C|all [OPTIONS]";

const EXAMPLES: &str = "\
Examples:
  capvco-imageresolve -name k8s-v1.36.4 -locations be-mac-dc01-001,nl-rmd-dc01-001
  capvco-imageresolve -match 'k8s-v1.36.*' -newest -locations all -output json
  vars=$(capvco-imageresolve -name k8s-v1.36.4 -locations a,b -output env -sites) || exit; eval \"$vars\"

The variables of -output env are not exported; `set -a` before the eval does that.

Exit codes: 0 every location has exactly one image; 1 one has none or several; 2 wrong flags;
3 refused (token, unknown location); 4 the cloud failed, try again later.";

/// Find an image's id by its name, in one or more locations
#[derive(Debug, Parser)]
#[command(override_usage = USAGE, after_help = EXAMPLES, group(
    ArgGroup::new("which").args(["name", "prefix", "pattern", "list"]).required(true).multiple(true)
))]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct Args {
    /// The image's whole name
    #[arg(long, group = "wanted", value_name = "NAME")]
    name: Option<String>,

    /// The beginning of its name; an image of exactly this name goes first
    #[arg(long, group = "wanted", value_name = "TEXT")]
    prefix: Option<String>,

    /// A pattern over its whole name: *, ?, [a-c], {a,b}
    #[arg(long = "match", id = "pattern", group = "wanted", value_name = "GLOB")]
    pattern: Option<String>,

    /// Where to look: a,b,c, or `all`
    #[arg(long, value_name = "LOCATIONS", required = true)]
    locations: String,

    /// Where several match, take the newest: by the version in the name, then by id
    #[arg(long, conflicts_with = "list")]
    newest: bool,

    /// Look at public images only [default: the customer's own stand above public ones]
    #[arg(long)]
    public: bool,

    /// Show all images, or all that match, usable or not
    #[arg(long)]
    list: bool,

    /// With -output env: `GEO_SITE1_IMAGE_ID`, `GEO_SITE1_LOCATION` and so on, in the order asked
    #[arg(long)]
    sites: bool,

    #[command(flatten)]
    output: OutputArgs<Format>,

    #[command(flatten)]
    cloud: CloudArgs,
}

/// How the ids are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A table for people
    Table,
    /// One object: {"results": […]}
    Json,
    /// One object a line
    Ndjson,
    /// Variables for a shell
    Env,
    /// The bare ids, a line a location
    Id,
}

/// Which of the two printers writes it.
pub enum Output {
    Report(cli::Format),
    Text(Form),
}

impl Flags for Args {
    fn talk(&self) -> Talk {
        self.output.talk()
    }
}

fn usage(what: &str) -> Error {
    Error::Asked { what: what.into(), hint: None }
}

impl Args {
    /// What is asked of the library.
    pub fn request(&self) -> Result<Request, Error> {
        let format = self.output.output;
        if self.sites && format != Format::Env {
            return Err(usage("-sites needs -output env"));
        }
        if self.list && matches!(format, Format::Env | Format::Id) {
            return Err(usage("-list is written as table, json or ndjson"));
        }
        let wanted = match (&self.name, &self.prefix, &self.pattern) {
            (Some(text), ..) | (_, Some(text), _) if text.is_empty() => {
                return Err(usage("the image's name is empty"));
            }
            (Some(name), ..) => Wanted::Name(name.clone()),
            (_, Some(text), _) => Wanted::Prefix(text.clone()),
            (.., Some(text)) => Wanted::Match(Pattern::new(text)?),
            _ => Wanted::Any,
        };
        let places = Places::parse(&self.locations)?;
        let (newest, public, list) = (self.newest, self.public, self.list);
        Ok(Request { wanted, places, newest, public, list })
    }

    /// How the cloud is reached.
    pub async fn cloud(&self, session: &Session) -> Result<CloudConfig, Box<dyn Fault>> {
        let given = &self.cloud;
        let token = match session.token(given).await? {
            cli::env::Token::Inline(token) => TokenSource::Inline(token),
            cli::env::Token::File(path) => TokenSource::File(path),
        };
        let wrong = |error: &dyn std::error::Error| usage(&error.to_string());
        let customer = given.customer().map(str::parse).transpose().map_err(|e| wrong(&e))?;
        let rate_limit = given.rate_limit().map(str::parse::<RateLimit>).transpose();
        let mut config = CloudConfig::new(given.portal()?, token);
        config.iam_refresh = given.iam_refresh().map(str::to_owned);
        config.ca_file = given.ca_file();
        config.customer = customer;
        config.user_agent.clone_from(&session.user_agent);
        config.read_timeout = given.read_timeout();
        config.write_timeout = given.write_timeout();
        config.rate_limit = rate_limit.map_err(|e| wrong(&e))?;
        config.retry_for = given.retry_for();
        Ok(config)
    }

    /// How to print.
    pub fn form(&self) -> Output {
        match self.output.output {
            Format::Table => Output::Report(cli::Format::Table),
            Format::Json => Output::Report(cli::Format::Json),
            Format::Ndjson => Output::Report(cli::Format::Ndjson),
            Format::Env if self.sites => Output::Text(Form::Sites),
            Format::Env => Output::Text(Form::Env),
            Format::Id => Output::Text(Form::Ids),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &str) -> Result<Args, clap::Error> {
        Args::try_parse_from(std::iter::once("p").chain(words.split_whitespace()))
    }

    #[test]
    fn one_way_of_naming_is_needed_and_only_one() {
        for (words, good) in [
            ("--name a --locations x", true),
            ("--prefix a --newest --locations all", true),
            ("--match a* --locations x,y", true),
            ("--list --locations x", true),
            ("--list --match a* --locations x", true),
            ("--locations x", false),
            ("--name a", false),
            ("--name a --prefix b --locations x", false),
            ("--list --newest --locations x", false),
            ("--name a --locations x --output xml", false),
        ] {
            assert_eq!(parsed(words).is_ok(), good, "{words}");
        }
    }

    #[test]
    fn every_way_of_naming_is_told() {
        let text = parsed("--locations x").unwrap_err().to_string();
        assert!(text.contains("<--name <NAME>|--prefix <TEXT>|--match <GLOB>|--list>"), "{text}");
    }

    #[test]
    fn flags_that_contradict_each_other_are_refused() {
        for (words, want) in [
            ("--name a --locations x --sites", "-sites needs -output env"),
            ("--list --locations x --output id", "-list is written as"),
            ("--match [ --locations x", "pattern"),
            ("--name a --locations x,x", "given twice"),
            ("--name= --locations x", "name is empty"),
        ] {
            let error = parsed(words).unwrap().request().unwrap_err().to_string();
            assert!(error.contains(want), "{words}: {error}");
        }
        let request = parsed("--match k8s-* --public --locations all").unwrap().request().unwrap();
        assert!(request.public && request.places == Places::All);
    }
}
