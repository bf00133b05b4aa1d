//! Which members are taken, and which are not.

use super::{Desk, objects, row};
use crate::support::peers::etcd::{Cluster, Etcd};
use crate::support::peers::s3::Versitygw;

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_is_taken_rather_than_the_leader() {
    let (desk, s3, cluster) = (Desk::new(), Versitygw::start(), Cluster::start(3));
    let leader = cluster.members[cluster.leader()].endpoint();
    let done = desk.of(&cluster.endpoints(), &s3).words("--lock none").run().await.expect(0);
    assert_ne!(row(&done)["endpoint"], leader);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_does_not_answer_is_passed_over_with_a_word() {
    let (desk, s3) = (Desk::new(), Versitygw::start());
    let mut cluster = Cluster::start(3);
    let endpoints = cluster.endpoints();
    let gone = cluster.members[0].endpoint();
    cluster.members[0].kill();
    let done = desk.of(&endpoints, &s3).words("--lock none").run().await.expect(0);
    let done = done.says(&gone).says("nothing listens there");
    assert_ne!(row(&done)["endpoint"], gone);

    cluster.members[1].kill();
    let alone = cluster.members[2].endpoint();
    while !cluster.members[2]
        .metrics()
        .is_some_and(|said| said.contains("etcd_server_has_leader 0"))
    {
        tokio::task::yield_now().await;
    }
    let refused = desk.of(&alone, &s3).words("--lock none").run().await.expect(3);
    refused.says("the cluster has no leader").says("--allow-no-leader");
    let taken = desk.of(&alone, &s3).words("--lock none --allow-no-leader").run().await.expect(0);
    assert_eq!(row(&taken)["outcome"], "stored");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_learner_is_refused_unless_it_is_allowed() {
    let (desk, s3, first) = (Desk::new(), Versitygw::start(), Etcd::start());
    let learner = Etcd::builder().name("learner").learner_of(&first);
    let refused = desk.of(&learner.endpoint(), &s3).words("--lock none").run().await.expect(3);
    refused.says("it is a learner").says("--allow-learner");
    let both = format!("{},{}", learner.endpoint(), first.endpoint());
    let done = desk.of(&both, &s3).words("--lock none").run().await.expect(0);
    assert_eq!(row(&done)["endpoint"], first.endpoint(), "the leader rather than a learner");
    let allowed = desk.of(&learner.endpoint(), &s3).words("--lock none --allow-learner");
    assert_eq!(row(&allowed.run().await.expect(0))["endpoint"], learner.endpoint());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_alarm_is_refused_with_its_name_unless_it_is_allowed() {
    let (desk, s3) = (Desk::new(), Versitygw::start());
    let etcd = Etcd::builder().arg("--quota-backend-bytes=65536").start();
    while etcd.try_etcdctl(&["put", "k", &"x".repeat(60_000)]).code == 0 {}
    let refused = desk.unlocked(&etcd, &s3).words("--lock none").run().await.expect(3);
    refused.says("the alarm NOSPACE of member").says("--allow-alarm");
    assert_eq!(objects(&s3), Vec::<String>::new());
    desk.unlocked(&etcd, &s3).words("--lock none --allow-alarm").run().await.expect(0);
}

#[tokio::test(flavor = "multi_thread")]
async fn members_of_two_clusters_are_refused() {
    let (desk, s3, one, two) = (Desk::new(), Versitygw::start(), Etcd::start(), Etcd::start());
    let both = format!("{},{}", one.endpoint(), two.endpoint());
    let refused = desk.of(&both, &s3).words("--lock none").run().await.expect(3);
    refused.says("of different clusters").says(&one.endpoint()).says(&two.endpoint());
}
