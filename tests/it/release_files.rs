//! `capvco release`, as whoever makes a release runs it.

use capvco::release::{Image, Release, components, crds, metadata};

use crate::support::peers::{clean, run, tool};
use crate::support::program::capvco;

const COMPONENTS: &str =
    "release components --image registry.example.com/capvco/capvco --version v0.1.0";

#[tokio::test]
async fn each_part_goes_to_stdout_or_into_a_folder_under_its_own_name() {
    let image = "registry.example.com/capvco/capvco".parse::<Image>().unwrap();
    let release = Release::new(&image, "v0.1.0".parse().unwrap());
    for (words, name, text) in [
        ("release crds", "crds.yaml", crds()),
        (COMPONENTS, "infrastructure-components.yaml", components(&release)),
        ("release metadata", "metadata.yaml", metadata()),
    ] {
        let text = text.unwrap();
        let shown = capvco().words(words).run().await.expect(0);
        assert_eq!((shown.out, shown.err), (text.clone(), String::new()));
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("infrastructure-vco/v0.1.0");
        let done = capvco().words(words).words("--out").arg(&out).run().await.expect(0);
        assert_eq!(done.out, "");
        assert_eq!(std::fs::read_to_string(out.join(name)).unwrap(), text);
    }
}

#[tokio::test]
async fn a_release_that_nobody_could_install_is_none() {
    for (words, says) in [
        ("--image capvco --version v0.1.0", "error: image \"capvco\" names no registry"),
        ("--image r.example.com/capvco --version 0.1.0", "error: version \"0.1.0\" does not begin"),
        ("--image r.example.com/capvco --version v9.0.0", "hint: write it as v0.1.0"),
        ("--image r.example.com/capvco", "--version <VERSION>"),
    ] {
        let done = capvco().words("release components").words(words).run().await.expect(2);
        assert_eq!(done.says(says).out, "");
    }
    let full = capvco().words(COMPONENTS).words("--out /dev/null/x").run().await.expect(2);
    full.says("error: cannot write /dev/null/x/infrastructure-components.yaml");
}

/// clusterctl reads the two files as it does for `init`, and needs no cluster for that.
#[tokio::test]
async fn clusterctl_finds_the_provider_its_image_and_its_namespace() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("infrastructure-vco/v0.1.0");
    for words in [COMPONENTS, "release metadata"] {
        capvco().words(words).words("--out").arg(&place).run().await.expect(0);
    }
    let url = place.join("infrastructure-components.yaml");
    let provider = format!(
        "providers: [{{name: vco, type: InfrastructureProvider, url: {:?}}}]\n\
         images: {{infrastructure-vco: {{repository: mirror.example.com/x}}}}\n",
        url.display()
    );
    let config = folder.path().join("clusterctl.yaml");
    std::fs::write(&config, provider).unwrap();
    let generate = |words: &str| {
        let mut command = clean(tool("clusterctl"));
        command.env("HOME", folder.path()).env("CLUSTERCTL_DISABLE_VERSIONCHECK", "true");
        command.arg("--config").arg(&config).args(["generate", "provider", "-i", "vco:v0.1.0"]);
        run(command.args(words.split_whitespace())).expect(0).out
    };
    let told = generate("--describe");
    for line in ["TargetNamespace:    capvco-system", "  - mirror.example.com/x/capvco:v0.1.0"] {
        assert!(told.lines().any(|one| one.trim_end() == line), "{told}");
    }
    assert!(!told.contains("Variables"), "{told}");
    let moved = generate("-n elsewhere");
    let objects: Vec<serde_json::Value> = capvco::yaml::from_multiple(&moved, "moved").unwrap();
    let of = |kind: &str| objects.iter().find(|object| object["kind"] == kind).unwrap();
    assert_eq!(of("Deployment")["metadata"]["namespace"], "elsewhere");
    assert_eq!(of("ClusterRoleBinding")["subjects"][0]["namespace"], "elsewhere");
    assert_eq!(of("Namespace")["metadata"]["name"], "elsewhere");
}
