//! A drill starts a real etcd from the newest backup, and says what came back and how fast.

use crate::support::peers::etcd::{Etcd, LINES};
use crate::support::peers::fill::Values;
use crate::support::peers::s3::Versitygw;
use crate::support::peers::tool;
use crate::support::program::{Program, backup_at};

fn at(s3: &Versitygw, etcd: &Etcd) -> Program {
    backup_at(s3).env("ETCDCTL_ENDPOINTS", etcd.endpoint())
}

fn result<'a>(report: &'a serde_json::Value, check: &str) -> &'a serde_json::Value {
    let rows = report["results"].as_array().unwrap();
    rows.iter().find(|row| row["check"] == check).unwrap_or_else(|| panic!("{check}: {report}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_of_every_line_comes_back_with_the_same_revision_keys_and_content() {
    let s3 = Versitygw::start();
    for line in LINES {
        let etcd = Etcd::start_line(line);
        etcd.fill(300, 200, Values::Compressible);
        etcd.etcdctl(&["del", "--prefix", "/registry/1"]);
        let prefix = format!("line-{line}/");
        let snapshot = at(&s3, &etcd).words("snapshot --no-encrypt -q --s3-prefix").arg(&prefix);
        snapshot.run().await.expect(0);
        let binary =
            tool(if line == "3.7" { "etcd".into() } else { format!("etcd-{line}") }.as_str());
        let drill = backup_at(&s3).words("drill -output json --s3-prefix").arg(&prefix);
        let drill = drill.arg("--etcd").arg(&binary).run().await.expect(0).json();
        for check in ["revision", "keys", "content hash", "a write"] {
            assert_eq!(result(&drill, check)["result"], "good", "{line} {check}: {drill}");
        }
        assert_eq!(result(&drill, "served after")["result"], "measured");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_etcd_that_is_too_old_or_none_at_all_is_refused_before_anything_is_fetched() {
    let (s3, etcd) = (Versitygw::start(), Etcd::start());
    at(&s3, &etcd).words("snapshot --no-encrypt -q").run().await.expect(0);
    let old = backup_at(&s3).words("drill -q --etcd").arg(tool("etcd-3.5")).run().await;
    old.expect(3).says("3.5");
    let none = backup_at(&s3).words("drill -q --etcd /nowhere/etcd").run().await;
    none.expect(3).says("/nowhere/etcd cannot be used as etcd").says("--etcd FILE");
}
