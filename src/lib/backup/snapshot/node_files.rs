//! Decides, and says why: which files of the node go along.

use std::path::{Path, PathBuf};

use super::request::keys_in_the_clear;
use crate::backup::Error;

/// What this machine has that belongs to a backup.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeFiles {
    /// Whether it runs etcd or an API server as a static pod.
    pub control_plane: bool,
    /// The folders of keys; the first one is the API server's.
    pub pki: Vec<PathBuf>,
    /// Those of them that are not there, or hold nothing.
    pub no_keys: Vec<PathBuf>,
    /// The manifests of static pods.
    pub manifests: Vec<PathBuf>,
    /// The file that Secrets are encrypted by, as the API server names it.
    pub encryption_config: Option<PathBuf>,
    /// Files that the API server's manifest names.
    pub configs: Vec<PathBuf>,
    /// Those of all of these that are named and are not there.
    pub missing: Vec<PathBuf>,
}

/// What goes into the second object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PkiPlan {
    /// Files and folders; none: there is no second object.
    pub paths: Vec<PathBuf>,
    /// What the user should know.
    pub warnings: Vec<String>,
}

/// Decides what of the node goes with the database.
///
/// # Errors
/// [`Error::Declined`] for keys that would not be encrypted, or are to go along and are not
/// there: without its keys a control plane does not come back.
pub fn pki(wish: Option<bool>, encrypted: bool, files: &NodeFiles) -> Result<PkiPlan, Error> {
    let wanted = wish.unwrap_or(files.control_plane);
    if !wanted {
        let unreadable = files.encryption_config.as_ref().map(|path| {
            format!(
                "{} is not included: without it the Secrets of this backup cannot be read",
                path.display()
            )
        });
        return Ok(PkiPlan { paths: Vec::new(), warnings: unreadable.into_iter().collect() });
    }
    if !encrypted {
        return Err(keys_in_the_clear());
    }
    if let Some(folder) = files.no_keys.first() {
        return Err(no_keys(folder, wish.is_none()));
    }
    let mut paths = files.pki.clone();
    let named = files.encryption_config.iter().chain(&files.configs).chain(&files.manifests);
    for path in named.filter(|path| !files.missing.contains(path)) {
        // What lies in a folder comes with it.
        if !paths.iter().any(|known| path.starts_with(known)) {
            paths.push(path.clone());
        }
    }
    let missing = files.missing.iter().map(|path| {
        format!(
            "{} is named by the API server's manifest and is not on this machine",
            path.display()
        )
    });
    Ok(PkiPlan { paths, warnings: missing.collect() })
}

fn no_keys(folder: &Path, by_itself: bool) -> Error {
    let why = if by_itself {
        "this is a control-plane node, whose keys belong to its backup"
    } else {
        "the node's keys are asked for"
    };
    Error::declined(
        format!("{why}, and there are none in {}", folder.display()),
        "name their folder with --pki-dir, or leave them out with --include-pki=false",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::{Class, Fault as _};

    fn node() -> NodeFiles {
        NodeFiles {
            control_plane: true,
            pki: vec!["/k/pki".into()],
            no_keys: vec![],
            manifests: vec!["/k/manifests/etcd.yaml".into()],
            encryption_config: Some("/k/enc.yaml".into()),
            configs: vec!["/k/audit.yaml".into(), "/k/pki/inside.yaml".into()],
            missing: vec![],
        }
    }

    #[test]
    fn keys_go_along_from_control_plane_nodes_unless_said_otherwise() {
        let all = ["/k/pki", "/k/enc.yaml", "/k/audit.yaml", "/k/manifests/etcd.yaml"];
        let all: Vec<PathBuf> = all.iter().map(PathBuf::from).collect();
        let worker = NodeFiles { control_plane: false, encryption_config: None, ..node() };
        let bare = NodeFiles { encryption_config: None, configs: vec![], ..node() };
        let elsewhere = NodeFiles { pki: vec!["/k/pki".into(), "/e/ssl".into()], ..bare.clone() };
        for (wish, files, paths, warnings) in [
            (None, node(), all.clone(), 0),
            (Some(true), node(), all, 0),
            (Some(false), node(), vec![], 1),
            (Some(false), bare.clone(), vec![], 0),
            (None, bare, vec!["/k/pki".into(), "/k/manifests/etcd.yaml".into()], 0),
            (None, worker, vec![], 0),
            (
                None,
                elsewhere,
                ["/k/pki", "/e/ssl", "/k/manifests/etcd.yaml"].map(PathBuf::from).to_vec(),
                0,
            ),
        ] {
            let plan = pki(wish, true, &files).unwrap();
            assert_eq!((plan.paths, plan.warnings.len()), (paths, warnings), "{wish:?} {files:?}");
        }
    }

    #[test]
    fn keys_are_never_stored_in_the_clear_nor_promised_where_there_are_none() {
        let none = || NodeFiles { no_keys: vec!["/k/pki".into()], ..node() };
        let worker = || NodeFiles { control_plane: false, ..none() };
        for (wish, encrypted, files, text) in [
            (None, false, node(), "--include-pki=false"),
            (Some(true), false, node(), "--include-pki=false"),
            (Some(true), true, none(), "--pki-dir"),
            (None, true, none(), "--pki-dir"),
            (Some(true), true, worker(), "--pki-dir"),
        ] {
            let error = pki(wish, encrypted, &files).unwrap_err();
            assert_eq!(error.class(), Class::Refused);
            assert!(error.hints()[0].contains(text), "{error}");
        }
        for files in [node(), none()] {
            assert_eq!(pki(Some(false), false, &files).unwrap().paths, Vec::<PathBuf>::new());
        }
        assert_eq!(pki(None, true, &worker()).unwrap().paths, Vec::<PathBuf>::new());
    }

    #[test]
    fn a_file_that_is_named_and_not_there_is_warned_of() {
        let files = NodeFiles { missing: vec!["/k/enc.yaml".into()], ..node() };
        let plan = pki(None, true, &files).unwrap();
        assert!(!plan.paths.contains(&"/k/enc.yaml".into()));
        assert!(plan.warnings[0].contains("/k/enc.yaml"), "{:?}", plan.warnings);
    }
}
