//! A legal hold outlives every rule, and is believed only when it was read back.

use crate::support::peers::s3::{BUCKET, Versitygw};
use crate::support::program::backup_at;

const SLOT: &str = "20261130T120000Z";
const CLUSTERS: [&str; 2] = ["00000000000000aa", "00000000000000bb"];

fn put(s3: &Versitygw, cluster: &str, name: &str) {
    let key = format!("etcd/{cluster}/{SLOT}/{name}");
    s3.aws(&["s3api", "put-object", "--bucket", BUCKET, "--key", &key]).expect(0);
}

fn held(s3: &Versitygw, cluster: &str, name: &str) -> bool {
    let key = format!("etcd/{cluster}/{SLOT}/{name}");
    let told = s3.aws(&["s3api", "get-object-legal-hold", "--bucket", BUCKET, "--key", &key]);
    told.out.contains("ON")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hold_is_put_on_every_object_of_a_backup_and_taken_off_again() {
    let s3 = Versitygw::start();
    for name in ["manifest.json", "data-1.db"] {
        put(&s3, CLUSTERS[0], name);
    }
    let rehearsal = backup_at(&s3).words("hold add --dry-run -output json").arg(SLOT);
    let rehearsal = rehearsal.run().await.expect(0).json();
    assert_eq!(rehearsal["results"][0]["outcome"], "would-be-held");
    assert!(!held(&s3, CLUSTERS[0], "manifest.json"), "a rehearsal changed something");

    let added = backup_at(&s3).words("hold add -output json").arg(SLOT).run().await.expect(0);
    assert_eq!(added.json()["results"].as_array().unwrap().len(), 2);
    for name in ["manifest.json", "data-1.db"] {
        assert!(held(&s3, CLUSTERS[0], name), "{name}");
    }
    let again = backup_at(&s3).words("hold add -output json").arg(SLOT).run().await.expect(0);
    assert_eq!(again.json()["results"][1]["outcome"], "unchanged");

    backup_at(&s3).words("hold remove").arg(SLOT).run().await.expect(0);
    assert!(!held(&s3, CLUSTERS[0], "data-1.db"));
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_never_guessed_which_backup_is_meant() {
    let s3 = Versitygw::start();
    for cluster in CLUSTERS {
        put(&s3, cluster, "manifest.json");
    }
    let unclear = backup_at(&s3).words("hold add").arg(SLOT).run().await.expect(2);
    unclear.says("--cluster 00000000000000aa").says("--cluster 00000000000000bb");
    let absent = backup_at(&s3).words("hold add 20200101T000000Z").run().await.expect(3);
    absent.says("there is no backup 20200101T000000Z").says("list");
    let clear = backup_at(&s3).words("hold add --cluster 00000000000000bb").arg(SLOT).run().await;
    clear.expect(0);
    assert!(held(&s3, CLUSTERS[1], "manifest.json") && !held(&s3, CLUSTERS[0], "manifest.json"));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_bucket_or_with_a_wrong_one_it_is_said_what_to_do() {
    let s3 = Versitygw::start();
    let none = backup_at(&s3).env("CAPVCO_BACKUP_S3_BUCKET", "").words("hold add x").run().await;
    none.expect(2).says("no bucket is given").says("--s3-bucket");
    let wrong = backup_at(&s3).words("hold add x --s3-bucket nosuchbucket").run().await;
    wrong.expect(3).says("nosuchbucket");
}
