//! Which backups are to be encrypted anew: pure.

use std::collections::BTreeSet;

use crate::snapshot::catalog::{Catalog, Entry, Record};
use crate::snapshot::manifest::Encryption;

/// What becomes of a backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// It is encrypted anew, into a backup of its own.
    Rekey,
    /// It stays as it is; why.
    Stay(String),
    /// It cannot be; why.
    Cannot(String),
    /// No identity at hand opens it; whom it is encrypted to.
    Closed(Vec<String>),
}

/// Decides about one backup: `recipients` is whom it is to be encrypted to, `public` the
/// identities at hand.
pub fn step(catalog: &Catalog, entry: &Entry, recipients: &[String], public: &[String]) -> Step {
    let Some((_, manifest)) = entry.good() else {
        let trouble = entry.records.first().and_then(Record::trouble);
        let trouble = trouble.unwrap_or_else(|| "it has no manifest".to_owned());
        return Step::Cannot(format!("it is not good: {trouble}"));
    };
    let set = |texts: &[String]| texts.iter().cloned().collect::<BTreeSet<_>>();
    let sealed = manifest.data.encryption == Encryption::Age;
    if let Some(copy) = catalog.rekeyed_as(entry) {
        Step::Stay(format!("rekeyed as {} already", copy.slot))
    } else if sealed && set(&manifest.recipients) == set(recipients) {
        Step::Stay("encrypted to these recipients already".to_owned())
    } else if !manifest.opens_with(public) {
        Step::Closed(manifest.recipients.clone())
    } else {
        Step::Rekey
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::s3::Version;
    use crate::snapshot::catalog::{NoManifest, assemble};
    use crate::snapshot::layout::Layout;
    use crate::snapshot::manifest::{Manifest, Rekeyed, full};

    fn of(manifests: Vec<Result<Manifest, NoManifest>>) -> Catalog {
        let (mut versions, mut said) = (Vec::new(), BTreeMap::new());
        for one in manifests {
            let like = one.clone().unwrap_or_else(|_| full());
            let folder = like.data.key.rsplit_once('/').unwrap().0.to_owned();
            let mut add = |key: &str, size| {
                versions.push(Version {
                    key: key.to_owned(),
                    version_id: None,
                    latest: true,
                    size,
                    modified: 0,
                    marker: false,
                });
            };
            add(&like.data.key, like.data.content.size);
            let pki = like.pki.unwrap();
            add(&pki.key, pki.content.size);
            let key = format!("{folder}/manifest.json");
            add(&key, 2000);
            said.insert((key, None), one);
        }
        assemble(&Layout::new("etcd"), versions, said)
    }

    fn moved(slot: &str) -> Manifest {
        let mut manifest = full();
        let old = manifest.slot.to_string();
        manifest.slot = slot.parse().unwrap();
        manifest.data.key = manifest.data.key.replace(&old, slot);
        let pki = manifest.pki.as_mut().unwrap();
        pki.key = pki.key.replace(&old, slot);
        manifest
    }

    #[test]
    fn only_what_can_be_opened_and_is_not_there_yet_is_rekeyed() {
        let old = full().recipients;
        let new = vec!["age1new".to_owned()];
        let both = vec!["age1new".to_owned(), old[0].clone()];
        let one = |change: fn(&mut Manifest)| {
            let mut manifest = full();
            change(&mut manifest);
            of(vec![Ok(manifest)])
        };
        let whole = one(|_| {});
        let plain = one(|m| {
            m.data.encryption = Encryption::None;
            m.data.key = m.data.key.replace(".age", "");
            m.recipients.clear();
        });
        let other = one(|m| m.recipients = vec!["age1new".to_owned(), m.recipients[0].clone()]);
        let stay = "encrypted to these recipients already";
        for (catalog, to, public, want) in [
            (&whole, &new, &old, Step::Rekey),
            (&whole, &both, &old, Step::Rekey),
            (&whole, &old, &old, Step::Stay(stay.to_owned())),
            (&other, &both, &old, Step::Stay(stay.to_owned())),
            (&whole, &new, &new, Step::Closed(old.clone())),
            (&plain, &new, &new, Step::Rekey),
        ] {
            assert_eq!(step(catalog, &catalog.entries[0], to, public), want);
        }
        let bad = of(vec![Err(NoManifest::Unread("403".to_owned()))]);
        let Step::Cannot(why) = step(&bad, &bad.entries[0], &new, &old) else { panic!("it can") };
        assert_eq!(why, "it is not good: manifest: it cannot be read: 403");
    }

    #[test]
    fn what_was_rekeyed_is_not_rekeyed_again() {
        let mut copy = moved("20261130T060000Z-c0ffee");
        copy.recipients = vec!["age1new".to_owned()];
        copy.rekeyed = Some(Rekeyed { from: full().slot, at: copy.finished });
        let catalog = of(vec![Ok(full()), Ok(copy)]);
        let original = catalog.slot(full().cluster, &full().slot).unwrap();
        let newest = vec!["age1newest".to_owned()];
        let public = [full().recipients, vec!["age1new".to_owned()]].concat();
        let want = Step::Stay("rekeyed as 20261130T060000Z-c0ffee already".to_owned());
        assert_eq!(step(&catalog, original, &newest, &public), want);
        assert_eq!(step(&catalog, &catalog.entries[0], &newest, &public), Step::Rekey);
    }
}
