//! A database in the place of a node's keys, or the other way round: two files of one backup whose
//! names are easily mistaken for each other.

use std::path::{Path, PathBuf};

use super::find::{Data, Found};
use crate::backup::Error;
use crate::backup::snapshot::pki::{ENDING, beside};
use crate::snapshot::Error as Opening;
use crate::snapshot::kind::Kind;

/// The error, with the file that was meant if it is that of the other half.
pub fn hinted(found: &Found, mut error: Error) -> Error {
    let Error::Doing { source, hints, .. } = &mut error else { return error };
    let Some(Opening::WrongKind { found: is, wanted, .. }) = source.downcast_ref() else {
        return error;
    };
    let path = match &found.data {
        Data::File { path, .. } => Some(path.as_path()),
        _ => None,
    };
    hints.extend(match (is, wanted) {
        (Kind::EtcdDb, Kind::Tar) => Some(keys_of(path)),
        (Kind::Tar, Kind::EtcdDb) => Some(database_of(path)),
        _ => None,
    });
    error
}

fn keys_of(path: Option<&Path>) -> String {
    match there(path.map(beside)) {
        Some(twin) => format!("the keys of the node are in {}", twin.display()),
        None => {
            format!("the keys of a node are a file of their own, whose name ends with {ENDING}")
        }
    }
}

fn database_of(path: Option<&Path>) -> String {
    let name = path.and_then(|path| path.file_name()?.to_str()?.strip_suffix(ENDING));
    let twin = path.zip(name).map(|(path, name)| path.with_file_name(name));
    let keys = "a node's keys are unpacked with --pki DIR";
    match there(twin) {
        Some(twin) => format!("{keys}; the database is {}", twin.display()),
        None => keys.to_owned(),
    }
}

fn there(path: Option<PathBuf>) -> Option<PathBuf> {
    path.filter(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::Fault as _;

    fn of_kind(path: &Path, found: Kind, wanted: Kind) -> Vec<String> {
        let data = Data::File { path: path.to_owned(), size: 1 };
        let wrong = Opening::WrongKind { name: "x".to_owned(), found, wanted };
        hinted(&Found::bare("x".to_owned(), data), Error::doing("cannot open x")(wrong)).hints()
    }

    #[test]
    fn the_other_half_of_a_backup_is_named_where_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["a.db", "a.db.pki.tar.zst.age"] {
            std::fs::write(at(name), "x").unwrap();
        }
        let (db, keys) = (Kind::EtcdDb, Kind::Tar);
        for (name, found, wanted, says) in [
            ("a.db", db, keys, at("a.db.pki.tar.zst.age").display().to_string()),
            ("b.db", db, keys, "ends with .pki.tar.zst.age".to_owned()),
            ("a.db.pki.tar.zst.age", keys, db, format!("database is {}", at("a.db").display())),
            ("b.db.pki.tar.zst.age", keys, db, "unpacked with --pki DIR".to_owned()),
        ] {
            let hints = of_kind(&at(name), found, wanted);
            assert!(hints.len() == 1 && hints[0].ends_with(&says), "{name}: {hints:?}");
        }
        assert!(of_kind(&at("a.db"), Kind::Gzip, db).is_empty());
    }
}
