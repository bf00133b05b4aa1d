//! Which of a location's images is meant. Pure: a request and a list give one image, or a reason.

use super::request::Request;
use super::version::{Age, age_of};
use crate::id::ImageId;
use crate::near::near;

/// The only status in which a machine can be made from an image (vco-api.md 3.2, G8D/G8S).
const USABLE: &str = "CREATED";

/// More than this many are counted, not named.
const NAMED: usize = 8;

/// An image of one location, as far as choosing needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Its id, if the cloud told it.
    pub id: Option<ImageId>,
    /// Its name.
    pub name: String,
    /// The cloud's own word for its state.
    pub status: Option<String>,
    /// Whether it is everybody's; unknown counts as the customer's own.
    pub public: Option<bool>,
    /// Its size in bytes, if known.
    pub bytes: Option<u64>,
}

impl Candidate {
    fn is_public(&self) -> bool {
        self.public == Some(true)
    }

    fn is_usable(&self) -> bool {
        self.id.is_some() && self.status.as_deref().is_some_and(|s| s.eq_ignore_ascii_case(USABLE))
    }

    /// What orders images by age: version and revision in the name, then the id, which grows.
    fn age_of(&self) -> (Option<Age>, Option<ImageId>) {
        (age_of(&self.name), self.id)
    }

    fn said(&self) -> String {
        let id = self.id.map_or_else(|| "no id".to_owned(), |id| format!("id {id}"));
        let whose = if self.is_public() { "public" } else { "own" };
        let status = self.status.as_deref().unwrap_or("no status");
        format!("{} ({id}, {whose}, {status})", self.name)
    }
}

/// Why no image was chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Miss {
    /// One sentence.
    pub why: String,
    /// What to do about it.
    pub hint: Option<String>,
}

/// What was chosen, and what should be said about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// The image.
    pub image: Candidate,
    /// One sentence where something better may be on its way.
    pub warning: Option<String>,
}

/// Chooses the one image of `images` that `request` means.
///
/// # Errors
/// None or several are meant: nothing is ever picked silently.
pub fn choose(request: &Request, images: &[Candidate]) -> Result<Choice, Miss> {
    let meant: Vec<&Candidate> =
        images.iter().filter(|i| request.wanted.matches(&i.name)).collect();
    let (fit, unfit): (Vec<_>, Vec<_>) = meant.into_iter().partition(|image| fits(request, image));
    let mut left = fit;
    if !request.newest {
        prefer(&mut left, |image| request.wanted.is_exactly(&image.name));
    }
    prefer(&mut left, |image| !image.is_public());
    if request.newest {
        left = left.into_iter().max_by_key(|image| image.age_of()).into_iter().collect();
    }
    match left[..] {
        [] => Err(none(request, images, &unfit)),
        [image] => {
            let warning = if request.public { None } else { on_its_way(image, &unfit) };
            Ok(Choice { image: image.clone(), warning })
        }
        _ => Err(several(request, &left)),
    }
}

/// Everything that `request` matches, usable or not, by name and then by id.
#[must_use]
pub fn listed(request: &Request, images: &[Candidate]) -> Vec<Candidate> {
    let meant = |image: &&Candidate| {
        request.wanted.matches(&image.name) && (!request.public || image.is_public())
    };
    let mut images: Vec<Candidate> = images.iter().filter(meant).cloned().collect();
    images.sort_by(|a, b| (&a.name, a.id).cmp(&(&b.name, b.id)));
    images
}

fn fits(request: &Request, image: &Candidate) -> bool {
    image.is_usable() && (!request.public || image.is_public())
}

/// Keeps those that `better` holds for, if there are any.
fn prefer(images: &mut Vec<&Candidate>, better: impl Fn(&Candidate) -> bool) {
    if images.iter().any(|image| better(image)) {
        images.retain(|image| better(image));
    }
}

/// A public image was taken while the customer's own of that name is no usable one yet.
fn on_its_way(taken: &Candidate, unfit: &[&Candidate]) -> Option<String> {
    let own = unfit.iter().find(|i| i.name == taken.name && !i.is_public() && taken.is_public())?;
    Some(format!("{} is public; the customer's own {} cannot be used", taken.said(), own.said()))
}

fn named(images: &[&Candidate]) -> String {
    let mut texts: Vec<String> = images.iter().take(NAMED).map(|image| image.said()).collect();
    if images.len() > NAMED {
        texts.push(format!("and {} more", images.len() - NAMED));
    }
    texts.join(", ")
}

fn none(request: &Request, images: &[Candidate], unfit: &[&Candidate]) -> Miss {
    let mut why = format!("no usable image {}", request.wanted.said(false));
    if !unfit.is_empty() {
        let rule = if request.public { "public and CREATED" } else { "CREATED" };
        why = format!("{why}; not {rule}: {}", named(unfit));
        return Miss { why, hint: wait_for(unfit) };
    }
    let usable = images.iter().filter(|image| fits(request, image)).map(|i| i.name.as_str());
    let close = near(request.wanted.stem(), usable);
    let hint = if images.is_empty() {
        Some("the location has no images at all".into())
    } else if close.is_empty() {
        Some("-list shows what there is".into())
    } else {
        Some(format!("near misses: {}", close.join(", ")))
    };
    Miss { why, hint }
}

fn wait_for(unfit: &[&Candidate]) -> Option<String> {
    let coming = unfit.iter().any(|i| i.status.as_deref() == Some("CREATING"));
    coming.then(|| "an image is usable once its status is CREATED: try again later".into())
}

fn several(request: &Request, left: &[&Candidate]) -> Miss {
    let why =
        format!("{} usable images {}: {}", left.len(), request.wanted.said(true), named(left));
    let same = left.iter().all(|image| image.name == left[0].name);
    let hint = if same {
        "delete all but one, or say -newest to take the one with the highest id"
    } else {
        "give the whole name with -name, or say -newest to take the newest version"
    };
    Miss { why, hint: Some(hint.into()) }
}

#[cfg(test)]
mod tests {
    use super::super::request::{Pattern, Places, Wanted};
    use super::*;

    /// `id name status whose`, one image a line.
    fn images(text: &str) -> Vec<Candidate> {
        let image = |line: &str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            Candidate {
                id: words[0].parse().ok(),
                name: words[1].into(),
                status: Some(words[2].into()).filter(|s: &String| s != "-"),
                public: match words[3] {
                    "own" => Some(false),
                    "public" => Some(true),
                    _ => None,
                },
                bytes: None,
            }
        };
        text.lines().map(str::trim).filter(|l| !l.is_empty()).map(image).collect()
    }

    fn asked(words: &str) -> Request {
        let mut request = Request {
            wanted: Wanted::Any,
            places: Places::All,
            newest: false,
            public: false,
            list: false,
        };
        for word in words.split_whitespace() {
            match word.split_once('=') {
                Some(("name", text)) => request.wanted = Wanted::Name(text.into()),
                Some(("prefix", text)) => request.wanted = Wanted::Prefix(text.into()),
                Some(("match", text)) => {
                    request.wanted = Wanted::Match(Pattern::new(text).unwrap());
                }
                _ if word == "newest" => request.newest = true,
                _ if word == "public" => request.public = true,
                _ => panic!("{word}"),
            }
        }
        request
    }

    const IMAGES: &str = "
        1  k8s-v1.36.4      CREATED   public
        2  k8s-v1.36.4      CREATED   own
        3  k8s-v1.36.4-r2   CREATED   own
        4  k8s-v1.36.10     CREATING  own
        5  k8s-v1.9.3       CREATED   own
        6  twice            CREATED   own
        7  twice            CREATED   -
        8  only-public      CREATED   public
        9  coming           CREATING  own
        10 coming           CREATED   public
        -  no-id            CREATED   own
        12 no-status        -         own
        13 pub-v2.0.0       CREATED   public
        14 pub-v1.0.0       CREATED   own
        15 lower            created   own
    ";

    #[test]
    fn one_image_is_chosen_or_none() {
        let table = [
            ("name=k8s-v1.36.4", Ok(2)),
            ("name=k8s-v1.36.4 public", Ok(1)),
            ("name=only-public", Ok(8)),
            ("name=lower", Ok(15)),
            ("name=twice", Err("2 usable images are called \"twice\": twice (id 6, own, CREATED)")),
            ("name=twice newest", Ok(7)),
            ("name=coming", Ok(10)),
            ("name=no-id", Err("not CREATED: no-id (no id, own, CREATED)")),
            ("name=no-status", Err("no-status (id 12, own, no status)")),
            ("name=k8s-v1.36.10", Err("not CREATED: k8s-v1.36.10 (id 4, own, CREATING)")),
            ("name=twice public", Err("not public and CREATED: twice")),
            ("name=k8s-v1.36.5", Err("no usable image is called \"k8s-v1.36.5\"")),
            ("prefix=k8s-v1.36.4", Ok(2)), // the exact name goes first
            ("prefix=k8s-v1.36.4-", Ok(3)),
            ("prefix=k8s", Err("3 usable images have a name that begins with \"k8s\"")),
            ("prefix=k8s newest", Ok(3)), // 1.36.10 is not CREATED yet, -r2 is newer than none
            ("prefix=k8s public newest", Ok(1)),
            ("match=k8s-v1.?.* newest", Ok(5)),
            ("match=k8s-v1.*", Err("3 usable images match \"k8s-v1.*\"")),
            ("match=pub-* newest", Ok(14)), // own goes before public, also when that is newer
            ("match=pub-* newest public", Ok(13)),
            ("match=*nothing* newest", Err("no usable image matches")),
        ];
        for (words, want) in table {
            match (choose(&asked(words), &images(IMAGES)), want) {
                (Ok(choice), Ok(id)) => assert_eq!(choice.image.id, Some(ImageId(id)), "{words}"),
                (Err(miss), Err(text)) => assert!(miss.why.contains(text), "{words}: {}", miss.why),
                (got, _) => panic!("{words}: {got:?}"),
            }
        }
    }

    #[test]
    fn a_miss_says_what_to_do() {
        let table = [
            ("name=k8s-v1.36.5", "near misses: k8s-v1.36.4, k8s-v1.9.3, k8s-v1.36.4-r2"),
            ("name=quite-different", "-list shows what there is"),
            ("match=k8s-v1.37.*", "near misses: k8s-v1.36.4, "),
            ("name=twice", "delete all but one, or say -newest"),
            ("prefix=k8s", "-newest to take the newest version"),
            ("name=k8s-v1.36.10", "try again later"),
        ];
        for (words, want) in table {
            let hint = choose(&asked(words), &images(IMAGES)).unwrap_err().hint.unwrap();
            assert!(hint.contains(want), "{words}: {hint}");
        }
        let empty = choose(&asked("name=x"), &[]).unwrap_err();
        assert_eq!(empty.hint.unwrap(), "the location has no images at all");
    }

    #[test]
    fn taking_a_public_image_in_place_of_the_own_one_is_said() {
        let choice = choose(&asked("name=coming"), &images(IMAGES)).unwrap();
        assert!(
            choice.warning.unwrap().contains("own coming (id 9, own, CREATING) cannot be used")
        );
        for silent in ["name=k8s-v1.36.4", "name=k8s-v1.36.4 public"] {
            assert_eq!(choose(&asked(silent), &images(IMAGES)).unwrap().warning, None);
        }
    }

    #[test]
    fn a_listing_shows_the_unusable_too() {
        let ids = |words| -> Vec<u64> {
            let found = listed(&asked(words), &images(IMAGES));
            found.iter().map(|image| image.id.map_or(0, |id| id.0)).collect()
        };
        assert_eq!(ids("name=coming"), [9, 10]);
        assert_eq!(ids("public"), [10, 1, 8, 13]);
        assert_eq!(ids("").len(), 15);
    }

    #[test]
    fn a_long_list_is_counted() {
        let many: Vec<String> = (1..=20).map(|n| format!("{n} x-{n} CREATED own")).collect();
        let miss = choose(&asked("prefix=x"), &images(&many.join("\n"))).unwrap_err();
        assert!(miss.why.contains("and 12 more"), "{}", miss.why);
    }
}
