//! Whose: a kubeadm node's own words, three members at once.

use std::path::Path;

use super::{Lab, for_people, looked_at, restored};
use crate::support::peers::etcd::{Builder, Cluster, Etcd, initial_cluster};
use crate::support::program::{Program, backup_at, program};

/// A kubeadm node's manifest of etcd.
fn manifest(folder: &Path, name: &str, url: &str, image: &str) {
    let text = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: etcd}}\nspec:\n  containers:\n  - name: etcd\n    \
         image: registry.k8s.io/etcd:{image}\n    command:\n    - etcd\n    - --name={name}\n    \
         - --data-dir=/var/lib/etcd\n    - --advertise-client-urls=https://10.0.0.1:2379\n    \
         - --initial-advertise-peer-urls={url}\n    - --initial-cluster={name}={url},cp-2=https://10.0.0.2:2380\n    \
         - --listen-metrics-urls=http://127.0.0.1:2381\n"
    );
    std::fs::create_dir_all(folder).unwrap();
    std::fs::write(folder.join("etcd.yaml"), text).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kubeadm_node_needs_no_words_about_itself() {
    let lab = Lab::new("3.6").await;
    let manifests = lab.desk.path("manifests");
    manifest(&manifests, "cp-1", "https://10.0.0.1:2380", "3.6.8-0");
    let data_dir = lab.desk.path("etcd");
    let into = || {
        let restore = lab.restore().env("CAPVCO_BACKUP_MANIFESTS", &manifests);
        restore.words("--initial-cluster-token t").arg("--data-dir").arg(&data_dir)
    };
    let planned = into().words("--plan").run().await.expect(0);
    let row = restored(into().run().await.says("etcd.yaml names 2 members"));
    assert_eq!(row["member"]["name"], "cp-1");
    assert_eq!(row["member"]["id"], planned.json()["results"][0]["member"]["id"]);
    let remains = row["remains"].to_string();
    for part in [
        "start etcd (etcd:3.6.8-0)",
        "/etcd.yaml /etc/kubernetes/manifests/",
        "127.0.0.1:2381/health",
    ] {
        assert!(remains.contains(part), "{remains}");
    }
    // The image is too old for what a newer etcd has written.
    manifest(&manifests, "cp-1", "https://10.0.0.1:2380", "3.5.24-0");
    into().run().await.expect(3).says("etcd 3.5.24 may not be started on data of etcd 3.6");
    std::fs::write(manifests.join("etcd.yaml"), "spec: [").unwrap();
    into().run().await.expect(3);
    // Moved away, and forgotten to be said where to.
    std::fs::remove_file(manifests.join("etcd.yaml")).unwrap();
    into().run().await.expect(3).says("there is no etcd.yaml in ");
    let snapshot = lab.desk.snapshot(&lab.etcd, &lab.s3);
    let snapshot = snapshot.env("CAPVCO_BACKUP_MANIFESTS", &manifests).run().await.expect(3);
    snapshot.says("there is no etcd.yaml in ");
    // An API server may have its etcd elsewhere.
    let server = "spec: {containers: [{name: kube-apiserver, command: [kube-apiserver]}]}";
    std::fs::write(manifests.join("kube-apiserver.yaml"), server).unwrap();
    let snapshot = lab.desk.snapshot(&lab.etcd, &lab.s3).words("--slot 1d --include-pki=false");
    snapshot.env("CAPVCO_BACKUP_MANIFESTS", &manifests).run().await.expect(0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_nothing_tells_of_is_not_made_in_silence() {
    let lab = Lab::new("3.6").await;
    let into = |words: &str| {
        lab.restore().words(words).words("--plan --data-dir").arg(lab.desk.path("etcd"))
    };
    let done = into("").run().await.expect(0);
    for part in [
        "there is no etcd.yaml in /etc/kubernetes/manifests",
        "is called \"default\" and has the peer URL http://localhost:2380",
        "is not checked (--etcd-version)",
        "say --manifests DIR",
    ] {
        assert!(done.err.contains(part), "{part}: {}", done.err);
    }
    let said = "--name a --initial-advertise-peer-urls http://10.0.0.1:2380";
    let done = into(said).run().await.expect(0);
    assert!(!done.err.contains("etcd.yaml"), "{}", done.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_asked_is_held_against_the_manifest_that_etcd_starts_from() {
    let lab = Lab::new("3.6").await;
    let (manifests, url) = (lab.desk.path("manifests"), "https://10.0.0.1:2380");
    manifest(&manifests, "cp-1", url, "3.6.8-0");
    let data_dir = lab.desk.path("etcd");
    let into = |words: &str| {
        let restore = lab.restore().env("CAPVCO_BACKUP_MANIFESTS", &manifests).words(words);
        restore.words("--initial-cluster-token t --plan --data-dir").arg(&data_dir)
    };
    let other = "http://127.0.0.1:1";
    for (words, says) in [
        (String::new(), "etcd.yaml says --data-dir /var/lib/etcd, and this restore makes"),
        ("--name x".to_owned(), "etcd.yaml says --name cp-1, and this restore makes it x"),
        (
            format!("--initial-advertise-peer-urls {other}"),
            "--initial-advertise-peer-urls https://10.0.0.1:2380, and this restore makes it http:",
        ),
        (format!("--initial-cluster cp-1={other},cp-2=http://b:1"), "makes it http://127.0.0.1:1"),
        (format!("--initial-cluster cp-1={url},cp-2={other}"), "the peer URL of cp-2 is https:"),
        (format!("--initial-cluster cp-1={url},cp-3={other}"), "etcd.yaml names cp-2, which"),
    ] {
        into(&words).run().await.expect(0).says(says);
    }
    let quiet = format!("--initial-cluster cp-1={url},cp-2=https://10.0.0.2:2380");
    let done = into(&quiet).run().await.expect(0);
    assert!(!done.err.contains("--name") && !done.err.contains("peer"), "{}", done.err);
    // Words that contradict each other are known before anybody is asked.
    let far = |words: &str| into(words).words("--s3-endpoint http://127.0.0.1:1");
    let wrong = format!("--initial-cluster cp-1={url} --initial-advertise-peer-urls {other}");
    far(&wrong).run().await.expect(2).says("127.0.0.1:1");
    far("--name cp-9 --initial-cluster a=http://a:1").run().await.expect(2).says("no member");
}

/// A command line, typed into a shell that has the bucket's keys and no other settings.
fn typed(line: &str, lab: &Lab) -> Program {
    let own = Path::new(env!("CARGO_BIN_EXE_capvco-backup")).parent().unwrap();
    let path = format!("{}:{}", own.display(), std::env::var("PATH").unwrap());
    program("sh")
        .env("PATH", path)
        .env("AWS_ACCESS_KEY_ID", lab.s3.access_key())
        .env("AWS_SECRET_ACCESS_KEY", lab.s3.secret_key())
        .env("AWS_EC2_METADATA_DISABLED", "true")
        .arg("-c")
        .arg(line)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_for_people_says_what_was_done_and_what_remains() {
    let lab = Lab::new("3.6").await;
    let data_dir = lab.desk.path("etcd");
    let restore = for_people(backup_at(&lab.s3), &lab.desk);
    let restore = restore.arg("--data-dir").arg(&data_dir);
    let done = restore.run().await.expect(0);
    for part in [
        "restored",
        "proven by    the manifest's SHA-256; age",
        "etcd         3.6 or newer",
        "This remains to be done by you:",
        " 1. start etcd 3.6 or newer",
        "capvco-backup snapshot",
    ] {
        assert!(done.out.contains(part), "{part}:\n{}", done.out);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn three_members_are_restored_from_one_backup_with_one_token() {
    let lab = Lab::new("3.6").await;
    let built: Vec<Builder> =
        (1..=3).map(|n| Etcd::builder().line("3.6").name(&format!("cp-{n}"))).collect();
    let all = initial_cluster(&built);
    let dir = |n: usize| lab.desk.path(&format!("etcd-{n}"));
    let refused = lab.restore().arg("--initial-cluster").arg(&all).words("--name cp-1 --data-dir");
    refused.arg(dir(1)).run().await.expect(2).says("need the same token");
    let first = lab.restore().arg("--initial-cluster").arg(&all);
    let first = first.words("--initial-cluster-token again --bump-revision 1000");
    let first = first.words("--name cp-1 --data-dir").arg(dir(1));
    let first = restored(first.run().await);
    let commands = first["remains"][0]["commands"].as_array().unwrap();
    assert_eq!(commands.len(), 2, "{first}");
    let mut ids = vec![first["member"]["cluster"].clone()];
    for (n, command) in [2, 3].into_iter().zip(commands) {
        // As printed; only the folder is another, for here all nodes are one machine.
        let said = command.as_str().unwrap().replace("etcd-1", &format!("etcd-{n}"));
        let done = typed(&format!("{said} --output json"), &lab).run().await;
        ids.push(restored(done)["member"]["cluster"].clone());
    }
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    let on = |(n, member): (usize, Builder)| member.data_dir(dir(n));
    let cluster = Cluster::of((1..=3).zip(built).map(on).collect());
    let first = looked_at(&cluster.members[0]);
    assert_eq!(first.1, 300);
    assert!(cluster.members.iter().all(|member| looked_at(member) == first));
    let wrong = lab.restore().arg("--initial-cluster").arg(&all).words("--initial-cluster-token x");
    let wrong = wrong.words("--name cp-9 --data-dir").arg(lab.desk.path("none")).run().await;
    wrong.expect(2).says("no member \"cp-9\"");
}
