//! `capvco-e2e image-server`: a real image, served until somebody stops it.

use std::io;
use std::path::{Path, PathBuf};

use capvco::cli::Session;
use capvco::fault::Fault as Classed;
use capvco::report::Verdict;
use capvco::sim::qcow2::Disk;
use capvco::sim::source::ImageServer;
use capvco::sim::{self};

use crate::args::ImageFlags;
use crate::exports::EnvFile;

/// The file is header and tables beside its data: about so many bytes.
const TABLES: u64 = 8 << 16;

/// Runs the verb.
pub async fn run(flags: ImageFlags, session: &Session) -> Result<Verdict, Box<dyn Classed>> {
    let mut env_file = EnvFile::awaited(flags.env_file.as_deref());
    let folder = Folder::choose(flags.dir.as_deref())?;
    let file = folder.path().join(&flags.name.0);
    let disk = disk(&flags);
    disk.write(&file).map_err(|e| failed("write the image", &file, e))?;
    let server = ImageServer::start_at(flags.listen).await?;
    let (url, md5) = server.put_with_md5(&format!("/{}", flags.name.0), file.clone())?;
    let file = file.display().to_string();
    let settings =
        [("IMAGE_URL", url.as_str()), ("IMAGE_FILE", file.as_str()), ("IMAGE_MD5", md5.as_str())];
    env_file.hand_over(session, &settings)?;
    session.cancel.cancelled().await;
    drop(env_file);
    server.stop().await;
    Ok(Verdict::Done)
}

fn disk(flags: &ImageFlags) -> Disk {
    let data = flags.size.saturating_sub(TABLES);
    // The data begin after the first MiB and end before the last.
    let needed = flags.size.saturating_add(2 << 20);
    let virtual_size = flags.virtual_size.unwrap_or(needed.max(10 << 30));
    Disk { virtual_size, data, seed: flags.seed, gpt: flags.partitions.into() }
}

fn failed(what: &'static str, path: &Path, source: io::Error) -> sim::Error {
    sim::Error::File { what, path: path.to_owned(), source }
}

/// Where the image is made: a folder of the user's, or one that goes with the program.
enum Folder {
    Given(PathBuf),
    Own(tempfile::TempDir),
}

impl Folder {
    fn choose(given: Option<&Path>) -> Result<Self, sim::Error> {
        let Some(path) = given else {
            let made = tempfile::Builder::new().prefix("capvco-image-").tempdir();
            let place = tempfile::env::temp_dir();
            return made.map(Self::Own).map_err(|e| failed("make a folder below", &place, e));
        };
        let path = path.canonicalize().map_err(|e| failed("use the folder", path, e))?;
        Ok(Self::Given(path))
    }

    fn path(&self) -> &Path {
        match self {
            Self::Given(path) => path,
            Self::Own(folder) => folder.path(),
        }
    }
}
