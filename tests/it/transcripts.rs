//! What a person sees: the console transcripts in `tests/cmd`, held to the programs.
//!
//! `TRYCMD=overwrite` writes them anew; then put `[..]` where times and the like stand.

use std::path::Path;

use capvco::sim::World;
use capvco::sim::qcow2::{self, Gpt};
use capvco::sim::world::Status;

use crate::support::cloud::{cloud, own_image};
use crate::support::peers::etcd::Etcd;
use crate::support::peers::fill::Values;
use crate::support::peers::s3::Versitygw;
use crate::support::peers::{self, tool};

/// A cloud whose locations hold the same images under different ids.
fn world() -> World {
    let mut world = World::small();
    let template = own_image(&world, 0, "", Status::Created);
    for site in &mut world.locations {
        for name in ["talos-v1.9.2", "talos-v1.10.0"] {
            site.add_image(capvco::sim::world::Image { name: name.into(), ..template.clone() });
        }
    }
    world
}

/// The folder in which a transcript's commands run.
fn place(case: &str) -> std::path::PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cmd").join(case);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// Two pairs of keys, as the how-tos make them.
fn keys(folder: &Path) {
    let mut recipients = String::new();
    for name in ["backup.key", "recovery.key"] {
        let path = folder.join(name);
        drop(std::fs::remove_file(&path));
        let path = path.to_str().unwrap();
        peers::run(peers::clean(tool("age-keygen")).args(["-o", path])).expect(0);
        recipients +=
            &peers::run(peers::clean(tool("age-keygen")).args(["-y", path])).expect(0).out;
    }
    std::fs::write(folder.join("recipients"), recipients).unwrap();
    std::fs::write(folder.join("archive.zip"), b"PK\x03\x04 and so on").unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_transcripts_are_what_a_person_sees() {
    for case in ["capvco-imagepublish/file.in", "capvco-imagepublish/refused.in"] {
        let image = place(case).join("k8s.qcow2");
        qcow2::write(&image, 10 << 30, 1, Gpt::Both).unwrap();
    }
    std::fs::write(place("capvco-imagepublish/refused.in").join("README"), "Not an image.\n")
        .unwrap();
    let (etcd, s3) = (Etcd::start(), Versitygw::start());
    etcd.fill(500, 100, Values::Compressible);
    keys(&place("capvco-backup/first.in"));
    let sim = cloud("transcripts", world()).await;
    let settings = [
        ("VCO_PORTAL_URL", sim.portal_url()),
        ("VCO_IAM_REFRESH_URL", sim.iam_refresh_url()),
        ("VCO_CUSTOMER_ID", sim.customer().to_owned()),
        ("VCO_TOKEN", sim.token()),
        ("COLUMNS", "120".to_owned()),
        ("ETCDCTL_ENDPOINTS", etcd.endpoint().clone()),
        ("CAPVCO_BACKUP_S3_ENDPOINT", s3.endpoint().to_owned()),
        ("CAPVCO_BACKUP_S3_BUCKET", "nights".to_owned()),
        ("AWS_ACCESS_KEY_ID", s3.access_key().to_owned()),
        ("AWS_SECRET_ACCESS_KEY", s3.secret_key().to_owned()),
    ];
    let run = move || {
        let cases = trycmd::TestCases::new();
        for (name, value) in settings {
            cases.env(name, value);
        }
        cases.case("tests/cmd/*/*.md");
        cases.run();
    };
    tokio::task::spawn_blocking(run).await.unwrap();
}
