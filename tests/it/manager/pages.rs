//! What the how-tos show of objects is what the API server takes.

use serde_json::Value;

use crate::support::peers::kube::KubePlane;
use crate::support::rust_text::root;

const PAGES: [&str; 3] = ["cloud-credentials.md", "ha-clusters.md", "disks.md"];

/// The objects of Kubernetes in a page's blocks of YAML.
fn objects(page: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(root().join("docs/how-to").join(page)).unwrap();
    let blocks = text.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next());
    let all = blocks.flat_map(|block| capvco::yaml::from_multiple::<Value>(block, page).unwrap());
    all.filter(|object| object["kind"].is_string()).collect()
}

#[test]
fn the_objects_of_the_how_tos_are_taken() {
    let plane = KubePlane::shared();
    for page in PAGES {
        let objects = objects(page);
        assert!(!objects.is_empty(), "{page} shows none");
        let namespace = plane.namespace();
        let folder = tempfile::tempdir().unwrap();
        for (number, object) in objects.iter().enumerate() {
            let path = folder.path().join(format!("{number}.json"));
            std::fs::write(&path, object.to_string()).unwrap();
            let (within, file) = (format!("--namespace={namespace}"), path.to_str().unwrap());
            let apply = ["apply", &within, "--validate=strict", "-f", file];
            plane.kubectl(&apply).expect(0);
        }
    }
}
