//! For whom backups are encrypted: keys of the command line and of files, each once.

use std::io::Read as _;
use std::path::PathBuf;

use super::Error;
use crate::disk;
use crate::snapshot::seal::Recipients;

/// The longest file of recipients that is read: age's own limit, and a byte to notice it by.
const LONGEST: u64 = (16 << 20) + 1;

/// All keys of `keys` and `files`, and what the user should know; none where there are none.
///
/// # Errors
/// [`Error::File`] for a file that cannot be read; what is wrong with a key, with its place.
pub fn read(
    keys: &[String],
    files: &[PathBuf],
) -> Result<(Option<Recipients>, Vec<String>), Error> {
    let doing = || Error::doing("the recipients cannot be used");
    let mut all = Recipients::parse(keys, "--recipient").map_err(doing())?;
    let mut remarks = Vec::new();
    for path in files {
        let failed = |error| Error::file("read", path, error);
        let file = disk::open(path).map_err(failed)?;
        let mut bytes = Vec::new();
        file.take(LONGEST).read_to_end(&mut bytes).map_err(failed)?;
        let name = format!("recipients file {}", path.display());
        let (found, told) = Recipients::from_file(&bytes, &name).map_err(doing())?;
        all.extend(found);
        remarks.extend(told);
    }
    Ok((Some(all).filter(|all| !all.is_empty()), remarks))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::{Class, Fault as _, chain};
    use crate::snapshot::seal::Identities;

    #[test]
    fn keys_come_from_flags_and_files_and_count_once() {
        let folder = tempfile::tempdir().unwrap();
        let keys: Vec<String> =
            (0..3).map(|_| Identities::generate().public()[0].clone()).collect();
        let path = folder.path().join("r.txt");
        std::fs::write(&path, format!("# ours\n{}\n{}\n", keys[1], keys[2])).unwrap();
        let (found, remarks) = read(&keys[..2], &[path.clone(), path]).unwrap();
        assert_eq!(found.unwrap().texts(), keys);
        assert!(remarks.is_empty());
        assert!(read(&[], &[]).unwrap().0.is_none());
    }

    #[test]
    fn what_cannot_be_used_is_told_by_its_place_and_never_shown() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("leaked.txt");
        std::fs::write(&path, "# created\nAGE-SECRET-KEY-1HUNTER2\n").unwrap();
        let error = read(&[], &[path]).unwrap_err();
        let told = chain(&error);
        assert!(told.contains("leaked.txt, line 2"), "{told}");
        assert!(!told.contains("HUNTER2"), "{told}");
        assert_eq!(read(&["age1x".into()], &[]).unwrap_err().class(), Class::Usage);
        let gone = read(&[], &["/nowhere/r.txt".into()]).unwrap_err();
        assert!(gone.to_string().contains("/nowhere/r.txt"), "{gone}");
    }
}
