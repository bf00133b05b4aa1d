//! Scripted faults: what goes wrong, in which call, how often.
//!
//! A fault is written `OPERATION[@LOCATION][#NTH]=KIND[:ARG][*COUNT]`, for instance
//! `createCustomerImage@be-mac-dc01-001=500-after`, `*=429:3*5`, `getImage#3=hang*inf`.
//! OPERATION is the vendor's operation id, `refresh` (the IAM) or `*`. It befalls the NTH
//! matching call (1 unless said) and those after it, COUNT in all (1 unless said, `inf` for
//! ever). Of several faults that fit a call, the first written befalls it; all of them count it.

use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use serde::Deserialize;

use super::error::Error;
use super::operations;

/// The operation id of the IAM's token refresh, which the vendor's file does not have.
pub(super) const REFRESH: &str = "refresh";

/// A scripted fault.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Fault {
    /// The vendor's operation id, `refresh`, or `*`.
    pub operation: String,
    /// Only calls for this location. For lists over several locations, the one in error.
    pub location: Option<String>,
    /// The first matching call that it befalls, from 1.
    pub nth: u64,
    /// What happens.
    pub kind: Kind,
    /// How many calls it befalls; `u64::MAX` for ever.
    pub count: u64,
}

impl TryFrom<String> for Fault {
    type Error = BadFault;

    fn try_from(spec: String) -> Result<Self, BadFault> {
        spec.parse()
    }
}

/// Reads a YAML file that is a list of faults.
pub fn load(path: &Path) -> Result<Vec<Fault>, Error> {
    Error::reading(path, "read the file of faults")
}

/// What a fault does to a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// `kill-before`: the connection is reset; nothing was done.
    KillBefore,
    /// `kill-after`: it was done; the connection is reset, without a reply.
    KillAfter,
    /// `lost-reply`: it was done; the connection ends in an orderly way, without a reply.
    LostReply,
    /// `hang`: nothing was done, and no reply comes.
    Hang,
    /// `hang-after`: it was done, and no reply comes.
    HangAfter,
    /// `429[:SECONDS]`: refused, with `Retry-After` if seconds are given.
    TooMany(Option<u64>),
    /// `401`, `403`, `404`, `409`, `500`, `503` …: any status from 400 up; nothing was done.
    Status(u16),
    /// `500-after`, `503-after` …: the status says failure, yet it was done.
    StatusAfter(u16),
    /// `html-400`: nginx's bare answer; nothing was done.
    Html400,
    /// `html-page[:STATUS]`: a proxy's page, 502 unless said; nothing was done.
    HtmlPage(u16),
    /// `success-false`: 200 and `{"success": false}`; nothing was done.
    SuccessFalse,
    /// `nulls`: it was done; all but ids, names and states are null.
    Nulls,
    /// `extra-keys`: it was done; every object has an undeclared key.
    ExtraKeys,
    /// `ids-as-text`: it was done; ids that are numbers come as text.
    IdsAsText,
    /// `floats`: it was done; whole numbers come as floats.
    Floats,
    /// `stale-list`: lists are as they were before the last write at the location, those of a
    /// cloudspace as before the last write in it.
    StaleList,
    /// `location-error`: the location is in error: lists over all locations leave its things
    /// out and say so, calls for the location itself answer 503.
    LocationError,
    /// `cut-json`: it was done; the reply's JSON ends in the middle.
    CutJson,
    /// `slow:MILLISECONDS`: the reply is held so long, after it was done.
    Slow(Duration),
}

impl Kind {
    /// Whether the call is carried out.
    pub(super) fn happens(&self) -> bool {
        !matches!(
            self,
            Self::KillBefore
                | Self::Hang
                | Self::TooMany(_)
                | Self::Status(_)
                | Self::Html400
                | Self::HtmlPage(_)
                | Self::SuccessFalse
        )
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::KillBefore => f.write_str("kill-before"),
            Self::KillAfter => f.write_str("kill-after"),
            Self::LostReply => f.write_str("lost-reply"),
            Self::Hang => f.write_str("hang"),
            Self::HangAfter => f.write_str("hang-after"),
            Self::TooMany(None) => f.write_str("429"),
            Self::TooMany(Some(seconds)) => write!(f, "429:{seconds}"),
            Self::Status(status) => write!(f, "{status}"),
            Self::StatusAfter(status) => write!(f, "{status}-after"),
            Self::Html400 => f.write_str("html-400"),
            Self::HtmlPage(status) => write!(f, "html-page:{status}"),
            Self::SuccessFalse => f.write_str("success-false"),
            Self::Nulls => f.write_str("nulls"),
            Self::ExtraKeys => f.write_str("extra-keys"),
            Self::IdsAsText => f.write_str("ids-as-text"),
            Self::Floats => f.write_str("floats"),
            Self::StaleList => f.write_str("stale-list"),
            Self::LocationError => f.write_str("location-error"),
            Self::CutJson => f.write_str("cut-json"),
            Self::Slow(time) => write!(f, "slow:{}", time.as_millis()),
        }
    }
}

/// Why a text is no fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("fault {spec:?}: {why}")]
pub struct BadFault {
    spec: String,
    why: String,
}

impl crate::fault::Fault for BadFault {
    fn class(&self) -> crate::fault::Class {
        crate::fault::Class::Usage
    }

    fn hints(&self) -> Vec<String> {
        vec![
            "a fault is OPERATION[@LOCATION][#NTH]=KIND[:ARG][*COUNT], for instance \
              createCustomerImage@be-mac-dc01-001=500-after"
                .into(),
        ]
    }
}

impl FromStr for Fault {
    type Err = BadFault;

    fn from_str(spec: &str) -> Result<Self, BadFault> {
        parse(spec).map_err(|why| BadFault { spec: spec.chars().take(120).collect(), why })
    }
}

fn parse(spec: &str) -> Result<Fault, String> {
    let (left, right) = spec.trim().split_once('=').ok_or("has no =")?;
    let (left, nth) = match left.split_once('#') {
        Some((left, nth)) => (left, number(nth, "after #")?),
        None => (left, 1),
    };
    let (operation, location) = match left.split_once('@') {
        Some((operation, location)) => (operation, Some(location.to_owned())),
        None => (left, None),
    };
    let (kind, count) = match right.split_once('*') {
        Some((kind, "inf")) => (kind, u64::MAX),
        Some((kind, count)) => (kind, number(count, "after *")?),
        None => (right, 1),
    };
    known(operation)?;
    if location.as_deref() == Some("") {
        return Err("has no location after @".into());
    }
    Ok(Fault { operation: operation.into(), location, nth, kind: self::kind(kind)?, count })
}

fn known(operation: &str) -> Result<(), String> {
    let known = ["*", REFRESH].contains(&operation) || operations::all().any(|o| o.id == operation);
    known.then_some(()).ok_or_else(|| {
        let all: Vec<&str> = operations::all().map(|o| o.id).collect();
        format!("{operation:?} is no operation; there are *, {REFRESH}, {}", all.join(", "))
    })
}

fn number(text: &str, place: &str) -> Result<u64, String> {
    let number = text.parse().ok().filter(|n| *n > 0);
    number.ok_or_else(|| format!("{text:?} {place} is no positive whole number"))
}

fn kind(text: &str) -> Result<Kind, String> {
    let (name, arg) = match text.split_once(':') {
        Some((name, arg)) => (name, Some(number(arg, "after :")?)),
        None => (text, None),
    };
    let status = |n: u64| u16::try_from(n).ok().filter(|n| (400..600).contains(n));
    Ok(match (name, arg) {
        ("429", seconds) => Kind::TooMany(seconds),
        ("html-page", None) => Kind::HtmlPage(502),
        ("html-page", Some(n @ 200..=599)) => Kind::HtmlPage(u16::try_from(n).unwrap_or(502)),
        ("slow", Some(ms)) => Kind::Slow(Duration::from_millis(ms)),
        (name, None) => match plain(name) {
            Some(kind) => kind,
            None => match name.strip_suffix("-after") {
                Some(number) => number.parse().ok().and_then(status).map(Kind::StatusAfter),
                None => name.parse().ok().and_then(status).map(Kind::Status),
            }
            .ok_or_else(|| no_kind(name))?,
        },
        _ => return Err(no_kind(text)),
    })
}

fn no_kind(text: &str) -> String {
    format!(
        "{text:?} is no kind of fault; there are kill-before, kill-after, lost-reply, hang, \
         hang-after, 429[:SECONDS], a status such as 503, 500-after and its like, html-400, \
         html-page[:STATUS], success-false, nulls, extra-keys, ids-as-text, floats, stale-list, \
         location-error, cut-json, slow:MILLISECONDS"
    )
}

fn plain(name: &str) -> Option<Kind> {
    Some(match name {
        "kill-before" => Kind::KillBefore,
        "kill-after" => Kind::KillAfter,
        "lost-reply" => Kind::LostReply,
        "hang" => Kind::Hang,
        "hang-after" => Kind::HangAfter,
        "html-400" => Kind::Html400,
        "success-false" => Kind::SuccessFalse,
        "nulls" => Kind::Nulls,
        "extra-keys" => Kind::ExtraKeys,
        "ids-as-text" => Kind::IdsAsText,
        "floats" => Kind::Floats,
        "stale-list" => Kind::StaleList,
        "location-error" => Kind::LocationError,
        "cut-json" => Kind::CutJson,
        _ => return None,
    })
}

/// All scripted faults with their counts.
#[derive(Debug, Default)]
pub(super) struct Script {
    lines: Vec<(Fault, u64)>,
}

impl Script {
    pub(super) fn add(&mut self, fault: Fault) {
        self.lines.push((fault, 0));
    }

    pub(super) fn clear(&mut self) {
        self.lines.clear();
    }

    /// Counts a call and says which fault befalls it. `location` is the one in the path, if any.
    pub(super) fn next(&mut self, operation: &str, location: Option<&str>) -> Option<Fault> {
        let mut chosen = None;
        for (fault, seen) in &mut self.lines {
            if !fits(fault, operation, location) {
                continue;
            }
            *seen += 1;
            let due = *seen >= fault.nth && *seen - fault.nth < fault.count;
            if due && chosen.is_none() {
                chosen = Some(fault.clone());
            }
        }
        chosen
    }
}

fn fits(fault: &Fault, operation: &str, location: Option<&str>) -> bool {
    let named = fault.operation == operation || fault.operation == "*";
    let placed = match (&fault.location, location) {
        (None, _) => true,
        (Some(wanted), Some(got)) => wanted == got,
        // A list over all locations has none in its path: there the fault names the broken one.
        (Some(_), None) => {
            fault.kind == Kind::LocationError
                && matches!(operation, "recycleBin" | "listCloudspaces" | "listObjectspaces")
        }
    };
    named && placed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_read() {
        let fault: Fault = "getImage@be-1#3=429:7*2".parse().unwrap();
        assert_eq!(fault.operation, "getImage");
        assert_eq!(fault.location.as_deref(), Some("be-1"));
        assert_eq!((fault.nth, fault.count), (3, 2));
        assert_eq!(fault.kind, Kind::TooMany(Some(7)));
        for text in [
            "kill-before",
            "kill-after",
            "lost-reply",
            "hang",
            "hang-after",
            "429",
            "429:3",
            "401",
            "403",
            "409",
            "500",
            "503",
            "500-after",
            "503-after",
            "html-400",
            "html-page:502",
            "html-page:200",
            "success-false",
            "nulls",
            "extra-keys",
            "ids-as-text",
            "floats",
            "stale-list",
            "location-error",
            "cut-json",
            "slow:250",
        ] {
            let fault: Fault = format!("*={text}").parse().unwrap();
            assert_eq!(fault.kind.to_string(), text);
        }
        assert_eq!("*=hang*inf".parse::<Fault>().unwrap().count, u64::MAX);
    }

    #[test]
    fn what_is_no_fault_is_told() {
        for (text, part) in [
            ("getImage", "no ="),
            ("getImages=500", "no operation"),
            ("getImage@=500", "no location"),
            ("getImage#0=500", "positive"),
            ("getImage=500*x", "positive"),
            ("getImage=200", "no kind"),
            ("getImage=explode", "no kind"),
            ("getImage=slow", "no kind"),
            ("getImage=hang:3", "no kind"),
            ("getImage=200-after", "no kind"),
        ] {
            let error = text.parse::<Fault>().unwrap_err().to_string();
            assert!(error.contains(part) && error.contains(text), "{error}");
        }
    }

    #[test]
    fn a_file_has_a_list_of_faults() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("faults.yaml");
        std::fs::write(&path, "- '*=500'\n- getImage#2=hang*inf\n").unwrap();
        assert_eq!(load(&path).unwrap().len(), 2);
        std::fs::write(&path, "- getImage=explode\n").unwrap();
        let error = load(&path).unwrap_err().to_string();
        assert!(error.contains("faults.yaml") && error.contains("explode"), "{error}");
        assert!(load(dir.path()).is_err());
    }

    #[test]
    fn faults_befall_the_calls_they_name() {
        let mut script = Script::default();
        script.add("getImage#2=500*2".parse().unwrap());
        script.add("*@l=503".parse().unwrap());
        let mut next = |op: &str, at| script.next(op, at).map(|f| f.kind.to_string());
        assert_eq!(next("getImage", Some("k")), None);
        assert_eq!(next("getImage", Some("l")).as_deref(), Some("500"));
        assert_eq!(next("getImage", Some("k")).as_deref(), Some("500"));
        assert_eq!(next("getImage", Some("l")), None, "the second fault has counted its call");
        assert_eq!(next("listCustomerImages", None), None);
    }

    #[test]
    fn a_list_over_all_locations_meets_the_location_in_error() {
        let mut script = Script::default();
        script.add("*@l=location-error*inf".parse().unwrap());
        script.add("*@l=500*inf".parse().unwrap());
        assert!(script.next("recycleBin", None).is_some());
        assert!(script.next("getCurrentUserInfo", None).is_none());
    }
}
