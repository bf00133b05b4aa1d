//! What was found, a row a location (or an image, when listing), in every form it is printed in.

use std::fmt::Write as _;

use serde::Serialize;

use super::plan::{Candidate, Choice, Miss};
use super::{Error, Request};
use crate::fault::{self, Fault};
use crate::id::Location;
use crate::report::{Remark, Report, Verdict, shell_word, size};
use crate::vco;

/// One location's answer. The names and meanings of its fields are stable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Row {
    /// The location.
    pub location: String,
    /// The image's id; null where none was chosen.
    pub image_id: Option<u64>,
    /// The image's name.
    pub name: Option<String>,
    /// Whether it is a public image; null where the cloud did not say.
    pub public: Option<bool>,
    /// The cloud's own word for its state.
    pub status: Option<String>,
    /// Its size in bytes, where the cloud tells one that can be bytes.
    pub bytes: Option<u64>,
    /// Why there is no image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// How a script wants its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// `VCO_IMAGE_ID=…`, for one location or where all ids are equal.
    Env,
    /// `GEO_SITE1_IMAGE_ID=…` and `GEO_SITE1_LOCATION=…`, numbered in the order asked.
    Sites,
    /// The bare ids, a line a location, in the order asked.
    Ids,
}

/// Everything that was found.
#[derive(Debug, Default)]
pub struct Resolved {
    rows: Vec<Row>,
    warnings: Vec<String>,
    ends: Vec<End>,
}

/// How a location failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    NotFound,
    OtherSide,
    Refused,
}

impl Resolved {
    /// A location's images, when listing.
    pub(super) fn list(&mut self, at: &Location, images: &[Candidate]) {
        self.rows.extend(images.iter().map(|image| row(at, image)));
    }

    /// A location's one image.
    pub(super) fn found(&mut self, at: &Location, choice: &Choice) {
        self.rows.push(row(at, &choice.image));
        self.warnings.extend(choice.warning.iter().map(|w| format!("{at}: {w}")));
    }

    /// A location that has none, or several.
    pub(super) fn missed(&mut self, at: &Location, miss: Miss) {
        self.ends.push(End::NotFound);
        self.failed(at, miss.why, miss.hint);
    }

    /// A location that could not be asked.
    pub(super) fn unasked(&mut self, at: &Location, error: &vco::Error) {
        let other = error.class().is_other_side();
        self.ends.push(if other { End::OtherSide } else { End::Refused });
        self.failed(at, fault::chain(error), error.hints().into_iter().next());
    }

    /// A location that the customer does not have.
    pub(super) fn unknown(&mut self, at: &Location, hint: String) {
        self.ends.push(End::Refused);
        self.failed(at, format!("the customer has no location {at}"), Some(hint));
    }

    /// Something to keep in mind.
    pub(super) fn warn(&mut self, text: String) {
        self.warnings.push(text);
    }

    /// An empty list is said, lest it be taken for one that broke.
    pub(super) fn note_if_bare(&mut self, request: &Request) {
        if self.rows.is_empty() {
            self.warn(format!("no image {}", request.wanted.said(false)));
        }
    }

    fn failed(&mut self, at: &Location, error: String, hint: Option<String>) {
        let location = at.to_string();
        let (image_id, name, public, status, bytes) = (None, None, None, None, None);
        let error = Some(error);
        self.rows.push(Row { location, image_id, name, public, status, bytes, error, hint });
    }

    /// The ids for a script; nothing at all unless every location has one, so that half an answer
    /// is never taken for a whole one.
    ///
    /// # Errors
    /// [`Error::Asked`]: [`Form::Env`] holds one id, and the locations have different ones.
    pub fn text(&self, form: Form) -> Result<String, Error> {
        if !self.ends.is_empty() {
            return Ok(String::new());
        }
        let ids: Vec<_> =
            self.rows.iter().filter_map(|r| Some((r.image_id?, &r.location))).collect();
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = match form {
            Form::Ids => ids.iter().try_for_each(|(id, _)| writeln!(text, "{id}")),
            Form::Sites => (1..).zip(&ids).try_for_each(|(n, (id, at))| {
                writeln!(text, "GEO_SITE{n}_IMAGE_ID={id}\nGEO_SITE{n}_LOCATION={}", shell_word(at))
            }),
            Form::Env => match ids[..] {
                [] => Ok(()),
                [(first, _), ref rest @ ..] if rest.iter().all(|(id, _)| *id == first) => {
                    writeln!(text, "VCO_IMAGE_ID={first}")
                }
                _ => {
                    let what = "the locations have different image ids, and VCO_IMAGE_ID is one";
                    let hint = "say -sites for GEO_SITE1_IMAGE_ID and so on, or ask one location";
                    return Err(Error::asked(what, hint));
                }
            },
        };
        Ok(text)
    }
}

fn row(at: &Location, image: &Candidate) -> Row {
    Row {
        location: at.to_string(),
        image_id: image.id.map(|id| id.0),
        name: Some(image.name.clone()),
        public: image.public,
        status: image.status.clone(),
        bytes: image.bytes,
        error: None,
        hint: None,
    }
}

impl Report for Resolved {
    type Row = Row;

    fn rows(&self) -> &[Row] {
        &self.rows
    }

    fn headers(&self) -> &'static [&'static str] {
        &["location", "image id", "name", "public", "status", "size"]
    }

    fn cells(&self, row: &Row) -> Vec<String> {
        let dash = || "-".to_owned();
        let public = |public| if public { "yes" } else { "no" }.to_owned();
        vec![
            row.location.clone(),
            row.image_id.map_or_else(dash, |id| id.to_string()),
            row.name.clone().unwrap_or_else(dash),
            row.public.map_or_else(dash, public),
            row.status.clone().unwrap_or_else(dash),
            row.bytes.map_or_else(dash, size),
        ]
    }

    fn remarks(&self) -> Vec<Remark> {
        let mut remarks: Vec<_> = self.warnings.iter().cloned().map(Remark::Warning).collect();
        for row in &self.rows {
            if let Some(error) = &row.error {
                remarks.push(Remark::Error(format!("{}: {error}", row.location)));
                remarks.extend(row.hint.clone().map(Remark::Hint));
            }
        }
        remarks
    }

    fn verdict(&self) -> Verdict {
        let all = |end| self.ends.iter().all(|e| *e == end);
        if self.ends.is_empty() {
            Verdict::Done
        } else if all(End::OtherSide) {
            Verdict::OtherSide
        } else if all(End::Refused) {
            Verdict::Refused
        } else {
            Verdict::Failed
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::ImageId;
    use crate::resolve::Wanted;

    fn at(name: &str) -> Location {
        name.parse().unwrap()
    }

    fn choice(id: u64) -> Choice {
        let image = Candidate {
            id: Some(ImageId(id)),
            name: "k8s".into(),
            status: Some("CREATED".into()),
            public: Some(false),
            bytes: Some(3 << 30),
        };
        Choice { image, warning: None }
    }

    fn found(ids: &[u64]) -> Resolved {
        let mut resolved = Resolved::default();
        for (n, id) in ids.iter().enumerate() {
            resolved.found(&at(&format!("be-{n}")), &choice(*id));
        }
        resolved
    }

    fn miss() -> Miss {
        Miss { why: "no usable image".into(), hint: Some("look".into()) }
    }

    #[test]
    fn scripts_get_what_they_asked_for() {
        let two = found(&[7, 8]);
        assert_eq!(two.text(Form::Ids).unwrap(), "7\n8\n");
        let sites = "GEO_SITE1_IMAGE_ID=7\nGEO_SITE1_LOCATION=be-0\n\
                     GEO_SITE2_IMAGE_ID=8\nGEO_SITE2_LOCATION=be-1\n";
        assert_eq!(two.text(Form::Sites).unwrap(), sites);
        assert!(two.text(Form::Env).unwrap_err().hints()[0].contains("-sites"));
        assert_eq!(found(&[7]).text(Form::Env).unwrap(), "VCO_IMAGE_ID=7\n");
        assert_eq!(found(&[7, 7]).text(Form::Env).unwrap(), "VCO_IMAGE_ID=7\n");
    }

    #[test]
    fn half_an_answer_is_none_for_scripts_and_a_row_for_json() {
        let mut half = found(&[7]);
        half.missed(&at("nl"), miss());
        for form in [Form::Env, Form::Sites, Form::Ids] {
            assert_eq!(half.text(form).unwrap(), "");
        }
        assert_eq!(half.verdict(), Verdict::Failed);
        let json = serde_json::to_value(half.rows()).unwrap();
        assert_eq!(json[0].as_object().unwrap().len(), 6);
        assert_eq!(json[1]["image_id"], serde_json::Value::Null);
        assert_eq!(
            (json[1]["error"].as_str(), json[1]["hint"].as_str()),
            (Some("no usable image"), Some("look"))
        );
        assert_eq!(half.cells(&half.rows()[0])[5], "3.0 GiB");
        assert_eq!(half.remarks()[0], Remark::Error("nl: no usable image".into()));
    }

    #[test]
    fn an_empty_list_is_said() {
        let pattern = crate::resolve::Pattern::new("q*").unwrap();
        for (wanted, text) in
            [(Wanted::Match(pattern), "no image matches \"q*\""), (Wanted::Any, "no image exists")]
        {
            let places = crate::resolve::Places::All;
            let request = Request { wanted, places, newest: false, public: false, list: true };
            let mut bare = Resolved::default();
            bare.note_if_bare(&request);
            assert_eq!(bare.remarks(), [Remark::Warning(text.into())]);
            assert_eq!(bare.verdict(), Verdict::Done);
            let mut full = found(&[7]);
            full.note_if_bare(&request);
            assert!(full.remarks().is_empty());
        }
    }

    #[test]
    fn the_verdict_follows_the_failures() {
        let mut refused = Resolved::default();
        refused.unknown(&at("x"), "there are be, nl".into());
        assert_eq!(refused.verdict(), Verdict::Refused);
        refused.missed(&at("nl"), miss());
        assert_eq!(refused.verdict(), Verdict::Failed);
        assert_eq!(found(&[1]).verdict(), Verdict::Done);
    }
}
