//! `capvco release`: the files of a release, on stdout or in a folder.

use std::io;
use std::path::{Path, PathBuf};

use capvco::cli::Session;
use capvco::fault::{Class, Fault};
use capvco::release::{self, Image, Release, Version};
use capvco::report::Verdict;
use clap::{Args, Subcommand};

#[derive(Debug, Args)]
pub struct ReleaseArgs {
    #[command(subcommand)]
    pub part: Part,
}

#[derive(Debug, Subcommand)]
pub enum Part {
    /// The CRDs: crds.yaml
    Crds(Place),
    /// All that `clusterctl init` installs: infrastructure-components.yaml
    Components(Components),
    /// Which contract each version keeps: metadata.yaml
    Metadata(Place),
}

#[derive(Debug, Args)]
pub struct Components {
    /// The manager's image with its registry; without a tag it gets the version's
    #[arg(long, value_name = "IMAGE")]
    image: String,

    /// The version, such as v0.1.0
    #[arg(long, value_name = "VERSION")]
    version: String,

    #[command(flatten)]
    place: Place,
}

#[derive(Debug, Args)]
pub struct Place {
    /// The folder to write the file into, under its own name [default: to stdout]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// A file could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {place}")]
struct Unwritten {
    place: String,
    #[source]
    source: io::Error,
}

impl Fault for Unwritten {
    fn class(&self) -> Class {
        Class::Usage
    }
}

pub fn run(part: &Part, session: &Session) -> Result<Verdict, Box<dyn Fault>> {
    let (name, text, place) = match part {
        Part::Crds(place) => ("crds.yaml", release::crds()?, place),
        Part::Metadata(place) => ("metadata.yaml", release::metadata()?, place),
        Part::Components(wanted) => {
            let release = wanted.release()?;
            let text = release::components(&release)?;
            ("infrastructure-components.yaml", text, &wanted.place)
        }
    };
    let written = match &place.out {
        Some(folder) => put(folder, name, &text),
        None => {
            session.put(&text).map_err(|source| Unwritten { place: "to stdout".into(), source })
        }
    };
    written?;
    Ok(Verdict::Done)
}

impl Components {
    fn release(&self) -> Result<Release, release::Error> {
        let image = self.image.parse::<Image>()?;
        Ok(Release::new(&image, self.version.parse::<Version>()?))
    }
}

fn put(folder: &Path, name: &str, text: &str) -> Result<(), Unwritten> {
    let path = folder.join(name);
    let written = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&path, text));
    written.map_err(|source| Unwritten { place: path.display().to_string(), source })
}
