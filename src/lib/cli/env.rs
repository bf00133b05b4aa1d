//! The environment: every variable one documented constant, and the only place that reads it.

use std::ffi::OsString;
use std::fmt;
use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};

use secrecy::SecretString;

use crate::fault::{Class, Fault};
use crate::progress::Progress;

macro_rules! variables {
    ($($(#[doc = $doc:literal])+ $name:ident = $text:literal;)+) => {
        $($(#[doc = $doc])+ pub const $name: &str = $text;)+

        /// Every variable that the programs read, with its meaning; the reference page is made
        /// from it.
        pub const ALL: &[(&str, &str)] = &[$(($text, concat!($($doc),+))),+];
    };
}

variables! {
    /// The portal's address; as `--portal-url`.
    PORTAL_URL = "VCO_PORTAL_URL";
    /// Where tokens are refreshed; as `--iam-refresh-url`.
    IAM_REFRESH_URL = "VCO_IAM_REFRESH_URL";
    /// The customer id; as `--customer`.
    CUSTOMER_ID = "VCO_CUSTOMER_ID";
    /// The token itself. `--token-file` goes before it, `VCO_TOKEN_FILE` after it.
    TOKEN = "VCO_TOKEN";
    /// A file that holds the token, read again when the token expires; as `--token-file`.
    TOKEN_FILE = "VCO_TOKEN_FILE";
    /// A file of certificates (PEM) to trust beside the usual ones; as `--ca-file`.
    CA_FILE = "VCO_CA_FILE";
    /// Calls allowed to each location, `N/SECONDS` or `off`; as `--rate-limit`.
    RATE_LIMIT = "VCO_RATE_LIMIT";
    /// If not empty, no colours, unless `--color always` asks for them.
    NO_COLOR = "NO_COLOR";
    /// `dumb` means a terminal without colours and bars.
    TERM = "TERM";
    /// The proxy for `https` addresses; `https_proxy` counts too.
    HTTPS_PROXY = "HTTPS_PROXY";
    /// The proxy for `http` addresses; `http_proxy` counts too.
    HTTP_PROXY = "HTTP_PROXY";
    /// The proxy for both where neither has its own; `all_proxy` counts too.
    ALL_PROXY = "ALL_PROXY";
    /// Hosts to reach without a proxy, comma-separated; `no_proxy` counts too.
    NO_PROXY = "NO_PROXY";
    /// A file of certificates (PEM) that stands for the system's.
    SSL_CERT_FILE = "SSL_CERT_FILE";
    /// Folders of certificates that stand for the system's.
    SSL_CERT_DIR = "SSL_CERT_DIR";
    /// The etcd members to ask, comma-separated; as `--endpoints`.
    ETCDCTL_ENDPOINTS = "ETCDCTL_ENDPOINTS";
    /// The authorities (PEM) that etcd's certificates are checked against; as `--cacert`.
    ETCDCTL_CACERT = "ETCDCTL_CACERT";
    /// The client certificate (PEM) shown to etcd; as `--cert`.
    ETCDCTL_CERT = "ETCDCTL_CERT";
    /// Its key (PEM); as `--key`.
    ETCDCTL_KEY = "ETCDCTL_KEY";
    /// The key id for object storage; the AWS SDK's other variables and files count too.
    AWS_ACCESS_KEY_ID = "AWS_ACCESS_KEY_ID";
    /// The secret for object storage.
    AWS_SECRET_ACCESS_KEY = "AWS_SECRET_ACCESS_KEY";
    /// The passphrase of an identity file of `capvco-backup`. The options of that program have
    /// variables as well, `CAPVCO_BACKUP_` and the option's name: `--claim-age` is
    /// `CAPVCO_BACKUP_CLAIM_AGE`. Those that are named otherwise are in this table, and `--help` says
    /// which; none have `--dry-run`, `--plan`, `--output`, `--quiet`, `--verbose` and `--color`.
    BACKUP_PASSPHRASE = "CAPVCO_BACKUP_PASSPHRASE";
    /// The kubeconfig of the management cluster; as `--kubeconfig`.
    KUBECONFIG = "KUBECONFIG";
    /// The namespace of the manager's lease; as `--leader-elect-namespace`.
    POD_NAMESPACE = "POD_NAMESPACE";
    /// The pod's or the machine's name, by which a manager is known in its lease and in events.
    HOSTNAME = "HOSTNAME";
    /// Where temporary files go, such as the image read by `-file -`.
    TMPDIR = "TMPDIR";
    /// `1` shows where in the program a bug was met.
    RUST_BACKTRACE = "RUST_BACKTRACE";
}

/// The pod's or the machine's name, if it is said.
#[must_use]
pub fn host_name() -> Option<String> {
    std::env::var(HOSTNAME).ok().filter(|name| !name.is_empty())
}

/// The command line, the program's own name first.
pub(super) fn words() -> impl Iterator<Item = OsString> {
    std::env::args_os()
}

/// The variable's text, where it is set, not empty, and text.
pub(super) fn text(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|text| !text.is_empty())
}

/// Whether the variable is there, and says nothing.
pub(super) fn is_blank(name: &str) -> bool {
    std::env::var_os(name).is_some_and(|text| text.is_empty())
}

/// The names of all variables that begin with `prefix` and are not empty, in order.
pub(super) fn names(prefix: &str) -> Vec<String> {
    let set = std::env::vars_os().filter(|(_, text)| !text.is_empty());
    let names = set.filter_map(|(name, _)| name.into_string().ok());
    let mut names: Vec<String> = names.filter(|name| name.starts_with(prefix)).collect();
    names.sort_unstable();
    names
}

/// A program as a shell would find it: a bare name in the folders of `PATH`, a path as it is. A
/// name that is nowhere stays what it is.
#[must_use]
pub fn program(name: &Path) -> PathBuf {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    among(name, std::env::split_paths(&folders))
}

fn among(name: &Path, mut folders: impl Iterator<Item = PathBuf>) -> PathBuf {
    let bare = name.components().count() == 1 && !name.has_root();
    let found = bare.then(|| folders.find(|folder| folder.join(name).is_file())).flatten();
    found.map_or_else(|| name.to_owned(), |folder| folder.join(name))
}

/// Files that libraries of ours read to their end, wherever that is.
const READ_WHOLE: [&str; 4] = [
    SSL_CERT_FILE,
    "AWS_CONFIG_FILE",
    "AWS_SHARED_CREDENTIALS_FILE",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
];
/// More than any of them has.
const LONGEST_WHOLE: u64 = 16 << 20;

/// A variable that names a file without an end.
#[derive(Debug, thiserror::Error)]
#[error("{name} names {}, which is {why}", path.display())]
pub(super) struct Endless {
    name: &'static str,
    path: PathBuf,
    why: &'static str,
}

impl Fault for Endless {
    fn class(&self) -> Class {
        Class::Usage
    }

    fn hints(&self) -> Vec<String> {
        vec![format!("let {} name a text file, or take it out of the environment", self.name)]
    }
}

/// Looks at what is read whole.
pub(super) fn bounded_files() -> Result<(), Endless> {
    let named = READ_WHOLE.iter().map(|name| (*name, std::env::var_os(name)));
    named.filter_map(|(name, path)| Some((name, PathBuf::from(path?)))).try_for_each(
        |(name, path)| match endless(&path) {
            Some(why) => Err(Endless { name, path, why }),
            None => Ok(()),
        },
    )
}

#[cfg(unix)]
fn endless(path: &Path) -> Option<&'static str> {
    use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
    // What is not there is nothing to read, and /dev/null is how one says so.
    let facts = std::fs::metadata(path).ok()?;
    let null = std::fs::metadata("/dev/null").ok().map(|facts| facts.rdev());
    let kind = facts.file_type();
    if kind.is_block_device() || kind.is_char_device() && Some(facts.rdev()) != null {
        return Some("a device");
    }
    (kind.is_file() && facts.len() > LONGEST_WHOLE).then_some("larger than 16 MiB")
}

#[cfg(not(unix))]
fn endless(_path: &Path) -> Option<&'static str> {
    None
}

/// The longest token that is read, in bytes; a JWT of the portal has about 1000.
const LONGEST_TOKEN: u64 = 1 << 20;

/// Where the token comes from.
#[derive(Debug)]
pub enum Token {
    /// From `VCO_TOKEN`, stdin or another pipe: it is what it is.
    Inline(SecretString),
    /// From a file, which may be read again.
    File(PathBuf),
}

/// Why there is no token.
#[derive(Debug, thiserror::Error)]
pub enum NoToken {
    /// No token was given at all.
    #[error("no token is given")]
    Missing,
    /// It is there and empty.
    #[error("the token in {0} is empty")]
    Empty(Source),
    /// It cannot be read.
    #[error("cannot read the token in {0}")]
    Unreadable(Source, #[source] std::io::Error),
    /// Ctrl-C, or a signal.
    #[error("interrupted while the token was being read")]
    Interrupted,
}

/// The place of a token, for messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The variable `VCO_TOKEN`.
    Variable,
    /// Standard input.
    Stdin,
    /// This file.
    File(PathBuf),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Variable => f.write_str(TOKEN),
            Self::Stdin => f.write_str("stdin"),
            Self::File(path) => write!(f, "{}", path.display()),
        }
    }
}

impl Fault for NoToken {
    fn class(&self) -> Class {
        match self {
            Self::Missing | Self::Empty(_) | Self::Unreadable(..) => Class::Usage,
            Self::Interrupted => Class::Interrupted,
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::Missing => {
                vec![format!("set {TOKEN}, or say --token-file FILE (- reads stdin)")]
            }
            Self::Unreadable(Source::File(path), _) if path.starts_with("~") => {
                vec!["a shell replaces ~ only at the beginning of a word: write $HOME".into()]
            }
            Self::Empty(_) | Self::Unreadable(..) | Self::Interrupted => Vec::new(),
        }
    }
}

/// The token; `file` is what `--token-file` or `VCO_TOKEN_FILE` said.
pub(super) fn token(file: Option<&Path>, warn: &dyn Progress) -> Result<Token, NoToken> {
    // clap has joined the flag and its variable; only a flag goes before VCO_TOKEN.
    let from_variable =
        std::env::var_os(TOKEN_FILE).is_some_and(|path| Some(path.as_ref()) == file);
    let variable = std::env::var_os(TOKEN).filter(|text| !text.is_empty());
    let stdin = || {
        let stdin = std::io::stdin();
        if stdin.is_terminal() {
            warn.say("reading the token from stdin; end it with Enter and Ctrl-D");
        }
        stdin
    };
    choose(file, from_variable, variable, stdin, warn)
}

fn choose<R: Read>(
    file: Option<&Path>,
    file_from_variable: bool,
    variable: Option<OsString>,
    stdin: impl FnOnce() -> R,
    warn: &dyn Progress,
) -> Result<Token, NoToken> {
    let file = file.filter(|path| !path.as_os_str().is_empty());
    match (file, variable) {
        (Some(path), variable) if variable.is_none() || !file_from_variable => {
            if path.as_os_str() == "-" { from_reader(stdin()) } else { from_file(path, warn) }
        }
        (file, Some(text)) => {
            if file.is_some() {
                warn.warn(&format!("{TOKEN} and {TOKEN_FILE} are both set: {TOKEN} is used"));
            }
            let no_text = |_| NoToken::Unreadable(Source::Variable, odd("it is no text"));
            inline(&text.into_string().map_err(no_text)?, Source::Variable)
        }
        _ => Err(NoToken::Missing),
    }
}

fn inline(text: &str, source: Source) -> Result<Token, NoToken> {
    match text.trim() {
        "" => Err(NoToken::Empty(source)),
        token => Ok(Token::Inline(SecretString::from(token))),
    }
}

fn odd(why: &'static str) -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::InvalidData, why)
}

/// All of a text that is no longer than a token can be.
fn short_text(from: impl Read) -> std::io::Result<String> {
    let mut text = String::new();
    let read = from.take(LONGEST_TOKEN + 1).read_to_string(&mut text)?;
    if read as u64 > LONGEST_TOKEN { Err(odd("it is longer than any token")) } else { Ok(text) }
}

fn from_reader(stdin: impl Read) -> Result<Token, NoToken> {
    let text = short_text(stdin).map_err(|error| NoToken::Unreadable(Source::Stdin, error))?;
    inline(&text, Source::Stdin)
}

/// Looks at the file now, so that a wrong path is a usage error and not a failed call.
fn from_file(path: &Path, warn: &dyn Progress) -> Result<Token, NoToken> {
    let source = || Source::File(path.to_owned());
    let unreadable = |error| NoToken::Unreadable(source(), error);
    let mut file = std::fs::File::open(path).map_err(unreadable)?;
    let text = short_text(&mut file).map_err(unreadable)?;
    let token = inline(&text, source())?;
    if !file.metadata().map_err(unreadable)?.is_file() {
        // A pipe, such as `<(pass show vco)`, gives its text only once.
        return Ok(token);
    }
    if open_to_others(path).map_err(unreadable)? {
        warn.warn(&format!(
            "others can read the token in {}; chmod 600 keeps it yours",
            path.display()
        ));
    }
    Ok(Token::File(path.to_owned()))
}

#[cfg(unix)]
fn open_to_others(path: &Path) -> std::io::Result<bool> {
    use std::os::unix::fs::PermissionsExt;
    let found = std::fs::metadata(path)?;
    Ok(found.is_file() && found.permissions().mode() & 0o077 != 0)
}

#[cfg(not(unix))]
fn open_to_others(_path: &Path) -> std::io::Result<bool> {
    Ok(false)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use secrecy::ExposeSecret;

    use super::*;
    use crate::progress::{Silent, Step};

    /// What a choice gave, in a form that can be compared.
    fn shown(found: Result<Token, NoToken>) -> String {
        match found {
            Ok(Token::Inline(token)) => format!("inline {}", token.expose_secret()),
            Ok(Token::File(path)) => format!("file {}", path.display()),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn a_file_without_an_end_is_not_handed_to_a_library() {
        let large = tempfile::NamedTempFile::new().unwrap();
        large.as_file().set_len(LONGEST_WHOLE + 1).unwrap();
        let small = tempfile::NamedTempFile::new().unwrap();
        for (path, why) in [
            (small.path(), None),
            (Path::new("/dev/null"), None),
            (Path::new("/no/such"), None),
            (Path::new("/dev/zero"), Some("a device")),
            (large.path(), Some("larger than 16 MiB")),
        ] {
            assert_eq!(endless(path), why, "{path:?}");
        }
    }

    #[test]
    fn a_bare_name_is_found_as_a_shell_would() {
        let folders = || ["/no/such", "/bin", "/usr/bin"].map(PathBuf::from).into_iter();
        assert_eq!(among(Path::new("sh"), folders()), Path::new("/bin/sh"));
        for name in ["./sh", "/opt/sh", "no-such-program"] {
            assert_eq!(among(Path::new(name), folders()), Path::new(name));
        }
    }

    #[test]
    fn the_flag_goes_first_then_the_token_then_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let (full, blank) = (folder.path().join("full"), folder.path().join("blank"));
        std::fs::write(&full, "from-file\n").unwrap();
        std::fs::write(&blank, "\n").unwrap();
        keep_to_owner(&full);
        let full_text = format!("file {}", full.display());
        let blank_text = format!("the token in {} is empty", blank.display());
        let dash = PathBuf::from("-");
        let empty = PathBuf::new();
        let table: [(Option<&Path>, bool, Option<&str>, &str); 9] = [
            (None, false, None, "no token is given"),
            (None, false, Some("t\n"), "inline t"),
            (None, false, Some(" \n"), "the token in VCO_TOKEN is empty"),
            (Some(&full), false, Some("t"), &full_text),
            (Some(&full), true, Some("t"), "inline t"),
            (Some(&full), true, None, &full_text),
            (Some(&blank), false, None, &blank_text),
            (Some(&dash), false, Some("t"), "inline from-stdin"),
            (Some(&empty), false, Some("t"), "inline t"),
        ];
        for (file, from_variable, variable, wanted) in table {
            let variable = variable.map(OsString::from);
            let both = from_variable && variable.is_some();
            let stdin = || "from-stdin\n".as_bytes();
            let heard = Heard::default();
            let found = choose(file, from_variable, variable, stdin, &heard);
            assert_eq!(shown(found), wanted, "{file:?}");
            let warnings = heard.0.into_inner().unwrap();
            let said = warnings.iter().any(|w| w.ends_with("both set: VCO_TOKEN is used"));
            assert_eq!((said, warnings.len()), (both, usize::from(both)), "{file:?}");
        }
        let absent = choose(Some(&folder.path().join("no")), false, None, || &b""[..], &Silent);
        assert!(matches!(absent, Err(NoToken::Unreadable(..))));
        assert_eq!(shown(from_reader("".as_bytes())), "the token in stdin is empty");
    }

    #[cfg(unix)]
    fn keep_to_owner(path: &Path) {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
    }

    #[cfg(not(unix))]
    fn keep_to_owner(_path: &Path) {}

    #[test]
    fn a_tilde_that_no_shell_replaced_is_explained() {
        for (path, hints) in [("~/vt", 1), ("/nowhere/~/vt", 0)] {
            let error = from_file(Path::new(path), &Silent).unwrap_err();
            assert!(error.to_string().starts_with("cannot read the token in "));
            assert_eq!(error.hints().len(), hints, "{path}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_pipe_is_read_once_and_nothing_without_end() {
        use std::io::Write as _;
        use std::os::{fd::AsRawFd as _, unix::ffi::OsStringExt as _};
        let (reader, mut writer) = std::io::pipe().unwrap();
        writer.write_all(b"from-pipe\n").unwrap();
        drop(writer);
        let path = PathBuf::from(format!("/proc/self/fd/{}", reader.as_raw_fd()));
        assert_eq!(shown(from_file(&path, &Silent)), "inline from-pipe");
        for (found, why) in [
            (from_file(Path::new("/dev/zero"), &Silent), "longer than any token"),
            (from_reader(std::io::repeat(b'a')), "longer than any token"),
            (
                choose(None, false, Some(OsString::from_vec(vec![0xff])), || &b""[..], &Silent),
                "it is no text",
            ),
        ] {
            let Err(NoToken::Unreadable(_, error)) = found else { panic!("{why}: {found:?}") };
            assert!(error.to_string().contains(why), "{error}");
        }
    }

    #[derive(Default)]
    struct Heard(Mutex<Vec<String>>);

    impl Progress for Heard {
        fn update(&self, _item: &str, _step: Step) {}
        fn finish(&self, _item: &str, _outcome: &str) {}
        fn say(&self, _line: &str) {}
        fn warn(&self, line: &str) {
            self.0.lock().unwrap().push(line.to_owned());
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_token_that_others_can_read_is_a_warning() {
        use std::os::unix::fs::PermissionsExt;
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "t").unwrap();
        for (mode, warnings) in [(0o600, 0), (0o400, 0), (0o640, 1), (0o604, 1)] {
            let heard = Heard::default();
            let permissions = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(file.path(), permissions).unwrap();
            from_file(file.path(), &heard).unwrap();
            assert_eq!(heard.0.lock().unwrap().len(), warnings, "{mode:o}");
        }
    }

    #[test]
    fn every_variable_says_what_it_is_for() {
        for (name, meaning) in ALL {
            assert!(meaning.trim().len() > 20 && meaning.ends_with('.'), "{name}: {meaning}");
        }
    }
}
