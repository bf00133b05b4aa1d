//! The second object of a backup: keys and manifests of the node, packed before anything is sent.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use sha2::{Digest as _, Sha256};

use super::pipeline::LocalFile;
use crate::backup::Error;
use crate::snapshot::archive;
use crate::snapshot::pack::{LEVEL, Layers, Packer};

/// A node's keys, packed and encrypted.
#[derive(Debug, Clone)]
pub struct Packed {
    /// As they are stored.
    pub bytes: Bytes,
    /// Their SHA-256.
    pub sha256: [u8; 32],
    /// What was left out, and why.
    pub remarks: Vec<String>,
}

/// Packs `paths` to the recipients of the database; nothing where there are none.
pub async fn pack(paths: &[PathBuf], layers: &Layers) -> Result<Option<Packed>, Error> {
    if paths.is_empty() {
        return Ok(None);
    }
    let paths = paths.to_vec();
    let layers = Layers { level: Some(LEVEL), recipients: layers.recipients.clone() };
    let packed = tokio::task::spawn_blocking(move || pack_now(&paths, &layers)).await;
    packed.unwrap_or_else(|_| Err(Error::failed("packing the node's keys has died", ""))).map(Some)
}

fn pack_now(paths: &[PathBuf], layers: &Layers) -> Result<Packed, Error> {
    let doing = || Error::doing("cannot pack the node's keys and manifests");
    let packer = Packer::new(Vec::new(), layers).map_err(doing())?;
    let (found, packer) = archive::pack(paths, packer).map_err(doing())?;
    // What is written to is memory.
    let bytes = packer.finish().map_err(|error| Error::failed(error.to_string(), ""))?;
    let sha256 = Sha256::digest(&bytes).into();
    Ok(Packed { bytes: bytes.into(), sha256, remarks: found.remarks })
}

/// What the name of a node's keys ends with, behind that of the database.
pub const ENDING: &str = ".pki.tar.zst.age";

/// Where keys lie beside a local copy of the database.
pub fn beside(copy: &Path) -> PathBuf {
    let mut name = copy.file_name().unwrap_or_default().to_owned();
    name.push(ENDING);
    copy.with_file_name(name)
}

/// Writes them beside a local copy of the database.
pub async fn save(keys: Packed, beside: &Path) -> Result<PathBuf, Error> {
    let path = self::beside(beside);
    let to = path.clone();
    let write = move || {
        let mut file = LocalFile::create(&to)?;
        file.write(&keys.bytes)?;
        file.finish()
    };
    let written = tokio::task::spawn_blocking(write).await;
    let written = written.unwrap_or_else(|bug| Err(std::io::Error::other(bug)));
    written.map_err(|error| Error::file("write", &path, error))?;
    Ok(path)
}
