//! What a person sees: the console transcripts in `tests/cmd`, held to the programs.
//!
//! `TRYCMD=overwrite` writes them anew; then put `[..]` where times and the like stand.

use std::path::Path;

use capvco::sim::World;
use capvco::sim::qcow2::{self, Gpt};
use capvco::sim::world::Status;

use crate::support::cloud::{cloud, own_image};

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

#[tokio::test(flavor = "multi_thread")]
async fn the_transcripts_are_what_a_person_sees() {
    for case in ["capvco-imagepublish/file.in", "capvco-imagepublish/refused.in"] {
        let image = place(case).join("k8s.qcow2");
        qcow2::write(&image, 10 << 30, 1, Gpt::Both).unwrap();
    }
    std::fs::write(place("capvco-imagepublish/refused.in").join("README"), "Not an image.\n")
        .unwrap();
    let sim = cloud("transcripts", world()).await;
    let settings = [
        ("VCO_PORTAL_URL", sim.portal_url()),
        ("VCO_IAM_REFRESH_URL", sim.iam_refresh_url()),
        ("VCO_CUSTOMER_ID", sim.customer().to_owned()),
        ("VCO_TOKEN", sim.token()),
        ("COLUMNS", "120".to_owned()),
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
