//! With which keys backups are opened: identity files, each read by age's whole grammar.

use std::path::{Path, PathBuf};

use secrecy::ExposeSecret as _;

use super::Error;
use crate::snapshot::identity_file::{Sort, load, read_bounded};
use crate::snapshot::passphrase::AskPassphrase;
use crate::snapshot::seal::Identities;

/// All keys of `files` (`-` reads stdin), in their order, and what the user should know; none
/// where no file is given. Blocks while a passphrase is asked for.
///
/// # Errors
/// A file that cannot be read or holds no key, with the line's number and never the line.
pub fn read(
    files: &[PathBuf],
    ask: &dyn AskPassphrase,
) -> Result<(Option<Identities>, Vec<String>), Error> {
    let mut all = Identities::default();
    let mut remarks = Vec::new();
    for path in files {
        let (found, told) =
            one(path, ask).map_err(Error::doing("the identities cannot be used"))?;
        all.extend(found);
        remarks.extend(told);
    }
    Ok((Some(all).filter(|all| !all.is_empty()), remarks))
}

fn one(
    path: &Path,
    ask: &dyn AskPassphrase,
) -> Result<(Identities, Vec<String>), crate::snapshot::Error> {
    let (name, bytes, mut remarks) = if path == Path::new("-") {
        let name = "identity file on stdin".to_owned();
        let bytes = read_bounded(std::io::stdin().lock(), &name)?;
        (name, bytes, Vec::new())
    } else {
        let name = format!("identity file {}", path.display());
        let (bytes, remarks) = load(path, &name, Sort::Identities)?;
        (name, bytes, remarks)
    };
    let (found, told) = Identities::read(bytes.expose_secret(), &name, ask)?;
    remarks.extend(told);
    Ok((found, remarks))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::{Class, Fault as _, chain};
    use crate::snapshot::passphrase::Nobody;

    const KEY: &str = "AGE-SECRET-KEY-1GQ9778VQXMMJVE8SK7J6VT8UJ4HDQAJUVSFCWCM02D8GEWQ72PVQ2Y5J33";

    #[test]
    fn files_are_read_in_their_order_and_keys_count_once() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("k.txt");
        std::fs::write(&path, format!("{KEY} \n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        let (found, remarks) = read(&[path.clone(), path], &Nobody).unwrap();
        assert_eq!(found.unwrap().len(), 1);
        assert_eq!(remarks.len(), 4, "{remarks:?}");
        assert!(remarks[0].ends_with("k.txt can be read by others than its owner: chmod 600"));
        assert!(read(&[], &Nobody).unwrap().0.is_none());
    }

    #[test]
    fn a_line_that_is_no_key_is_told_by_its_number_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("k.txt");
        std::fs::write(&path, format!("# mine\n{}\n", &KEY[..60])).unwrap();
        let error = read(&[path], &Nobody).unwrap_err();
        let told = chain(&error);
        assert!(told.contains("k.txt, line 2: the key has 60 characters"), "{told}");
        assert!(!told.contains("QMMJ"), "{told}");
        assert_eq!(error.class(), Class::Usage);
    }
}
