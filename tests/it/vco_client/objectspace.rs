//! Objectspaces, buckets and keys through the client, against the embedded cloud: every call,
//! every odd form of a reply, and creates whose reply is lost.

use super::embedded::{customer_of, first};
use super::*;
use crate::support::cloud::cloud;
use crate::support::peers::tool;

use capvco::id::ObjectspaceId;
use capvco::sim::{Rules, Sim, World};
use capvco::vco::{Access, NewBucket, NewObjectspace, Publish, Through};
use secrecy::ExposeSecret as _;

async fn embedded(test: &str) -> (Sim, Customer) {
    let world = World { versitygw: Some(tool("versitygw")), ..World::small() };
    let sim = cloud(test, world).await;
    let customer = customer_of(&sim).await;
    (sim, customer)
}

fn new(name: &str) -> NewObjectspace {
    NewObjectspace { name: name.to_owned(), location: first(), publish: None }
}

/// An objectspace in the cloud, without a call.
fn there(sim: &Sim) -> ObjectspaceId {
    let id = sim.world(|w| w.add_objectspace(first().as_str(), "there"));
    id.parse().expect("it is an id")
}

#[tokio::test]
async fn every_call_does_what_it_says_in_every_form() {
    type Odd = fn(&mut Rules);
    let forms: [Odd; 4] = [
        |_| (),
        |rules| rules.extra_keys = true,
        |rules| rules.ids_as_text = true,
        |rules| rules.numbers_as_floats = true,
    ];
    for odd in forms {
        let (sim, customer) = embedded("vco_objectspace").await;
        sim.world(|world| odd(&mut world.rules));
        let id = customer.create_objectspace(&new("capvco-x")).await.unwrap().unwrap();
        let listed = customer.objectspaces(&first()).await.unwrap();
        assert_eq!((listed.len(), &listed[0].id), (1, &id));
        let detail = customer.objectspace(&id).await.unwrap().unwrap();
        assert_eq!(
            (detail.name.as_deref(), detail.status.as_deref()),
            (Some("capvco-x"), Some("DEPLOYED"))
        );
        assert!(detail.created.is_some());
        buckets(&customer, &id).await;
        keys(&customer, &id).await;
        uploads(&customer, &id).await;
        links_and_notes(&sim, &customer, &id).await;
        let old = customer.root_keys(&id).await.unwrap();
        let new = customer.reset_root_keys(&id).await.unwrap();
        let now = customer.root_keys(&id).await.unwrap();
        assert_ne!(old.secret.expose_secret(), new.secret.expose_secret());
        assert_eq!(now.secret.expose_secret(), new.secret.expose_secret());
        customer.bin_objectspace(&id).await.unwrap();
        assert_eq!(customer.objectspace(&id).await.unwrap(), None);
        assert_eq!(customer.deleted_objectspaces(&first()).await.unwrap()[0].id, id);
        customer.restore_objectspace(&id).await.unwrap();
        for _ in 0..2 {
            customer.delete_objectspace(&id).await.unwrap();
        }
        assert_eq!(customer.objectspaces(&first()).await.unwrap(), []);
        sim.stop().await;
    }
}

async fn buckets(customer: &Customer, id: &ObjectspaceId) {
    let spec = NewBucket { limit: Some(500), locking: true };
    customer.create_bucket(id, "etcd", spec).await.unwrap();
    let error = customer.create_bucket(id, "etcd", spec).await.unwrap_err();
    assert_eq!(error.class(), Class::Conflict, "{error}");
    let bucket = customer.bucket(id, "etcd").await.unwrap().unwrap();
    assert_eq!((bucket.limit, bucket.deleted), (Some(500), Some(false)));
    customer.limit_bucket(id, "etcd", 700).await.unwrap();
    assert_eq!(customer.buckets(id).await.unwrap()[0].limit, Some(700));
    customer.bin_bucket(id, "etcd").await.unwrap();
    assert_eq!(customer.deleted_buckets(id).await.unwrap()[0].name.as_deref(), Some("etcd"));
    customer.restore_bucket(id, "etcd").await.unwrap();
    customer.create_bucket(id, "more", NewBucket::default()).await.unwrap();
    for _ in 0..2 {
        customer.delete_bucket(id, "more").await.unwrap();
    }
    assert_eq!(customer.bucket(id, "more").await.unwrap(), None);
    let error = customer.bucket(id, "..").await.unwrap_err();
    assert_eq!(error.kind(), Kind::Setting, "it would read the objectspace: {error}");
}

async fn keys(customer: &Customer, id: &ObjectspaceId) {
    let made = customer.create_bucket_key(id, "etcd", "k", Access::ReadWrite).await;
    let made = made.unwrap().expect("the reply holds the key");
    customer.update_bucket_key(id, "etcd", "k", Access::Read).await.unwrap();
    let keys = customer.bucket_keys(id, "etcd").await.unwrap();
    assert_eq!((keys.len(), keys[0].access), (1, Some(Access::Read)));
    assert_eq!(keys[0].secret.expose_secret(), made.secret.expose_secret());
    for _ in 0..2 {
        customer.delete_bucket_key(id, "etcd", "k").await.unwrap();
    }
    assert!(customer.bucket_keys(id, "etcd").await.unwrap().is_empty());
}

async fn uploads(customer: &Customer, id: &ObjectspaceId) {
    customer.add_abort_rule(id, "etcd", "abort", "p/", 7).await.unwrap();
    let rules = customer.lifecycle_rules(id, "etcd").await.unwrap();
    assert_eq!((rules[0].id.as_deref(), rules[0].abort_after_days), (Some("abort"), Some(7)));
    for _ in 0..2 {
        customer.delete_lifecycle_rule(id, "etcd", "abort").await.unwrap();
    }
    assert_eq!(customer.bucket_uploads(id, "etcd").await.unwrap(), []);
    let upload = capvco::vco::BucketUpload {
        upload_id: "gone".to_owned(),
        key: "a b/c".to_owned(),
        initiated: None,
    };
    customer.cancel_bucket_upload(id, "etcd", &upload).await.unwrap();
}

async fn links_and_notes(sim: &Sim, customer: &Customer, id: &ObjectspaceId) {
    let space = sim.world(|w| w.add_cloudspace(sim.customer(), first().as_str(), "net", ""));
    let space = space.parse().unwrap();
    customer.link_objectspace(&space, id).await.unwrap();
    let linked = customer.linked_objectspaces(&space).await.unwrap();
    assert_eq!((&linked[0].id, linked[0].ip_address.as_deref()), (id, Some("192.168.103.254")));
    let detail = customer.objectspace(id).await.unwrap().unwrap();
    assert_eq!(detail.links[0].cloudspace.as_ref(), Some(&space));
    for _ in 0..2 {
        customer.unlink_objectspace(&space, id).await.unwrap();
    }
    customer.create_objectspace_note(id, "capvco", "mark").await.unwrap();
    let notes = customer.objectspace_notes(id).await.unwrap();
    assert_eq!(notes[0].content.as_deref(), Some("mark"));
    for _ in 0..2 {
        customer.delete_objectspace_note(id, notes[0].id.as_ref().unwrap()).await.unwrap();
    }
    assert_eq!(customer.objectspace_notes(id).await.unwrap(), []);
}

#[tokio::test]
async fn nulls_are_borne_where_they_can_be() {
    let (sim, customer) = embedded("vco_objectspace_nulls").await;
    let id = there(&sim);
    customer.create_bucket(&id, "etcd", NewBucket::default()).await.unwrap();
    sim.world(|world| world.rules.nulls = true);
    assert_eq!(customer.objectspaces(&first()).await.unwrap()[0].links, []);
    assert!(customer.objectspace(&id).await.unwrap().unwrap().domain.is_none());
    assert_eq!(customer.buckets(&id).await.unwrap()[0].limit, None);
    let made = customer.create_bucket_key(&id, "etcd", "k", Access::Read).await.unwrap();
    assert!(made.is_none(), "a key without its secret is none");
    let error = customer.bucket_keys(&id, "etcd").await.unwrap_err();
    assert_eq!(error.kind(), Kind::Garbled, "{error}");
    assert_eq!(customer.root_keys(&id).await.unwrap_err().kind(), Kind::Garbled);
    sim.stop().await;
}

#[tokio::test]
async fn secrets_are_asked_for_only_where_they_are_wanted() {
    let (sim, customer) = embedded("vco_objectspace_mask").await;
    let id = there(&sim);
    customer.objectspace(&id).await.unwrap();
    customer.objectspaces(&first()).await.unwrap();
    let journal = format!("{:?}", sim.journal());
    assert!(!journal.contains("\"secret\""), "{journal}");
    let keys = customer.root_keys(&id).await.unwrap();
    let shown = format!("{keys:?} {:?}", sim.journal());
    assert!(!shown.contains(keys.secret.expose_secret()));
    sim.stop().await;
}

#[tokio::test]
async fn a_list_that_does_not_vouch_for_the_location_proves_nothing() {
    let (sim, customer) = embedded("vco_objectspace_vouch").await;
    there(&sim);
    sim.fault(format!("listObjectspaces@{}=location-error", first()).parse().unwrap());
    let error = customer.objectspaces(&first()).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Incomplete, "{error}");
    assert_eq!(customer.objectspaces(&first()).await.unwrap().len(), 1);
    sim.stop().await;
}

/// Makes an objectspace, a bucket and a key, each surely; how many of each there are then.
async fn made_surely(sim: &Sim, customer: &Customer) -> Result<[usize; 3], Error> {
    let spec = new("capvco-x");
    let named = |list: Vec<capvco::vco::Objectspace>| {
        list.into_iter().find(|o| o.name.as_deref() == Some("capvco-x")).map(|o| o.id)
    };
    let id = customer
        .create_surely(
            async || customer.create_objectspace(&spec).await,
            async || customer.objectspaces(&first()).await.map(named),
        )
        .await?;
    let bucket = NewBucket { limit: None, locking: true };
    customer
        .create_surely(
            async || customer.create_bucket(&id, "etcd", bucket).await.map(Some),
            async || Ok(customer.bucket(&id, "etcd").await?.map(|_| ())),
        )
        .await?;
    let key = customer
        .create_surely(
            async || customer.create_bucket_key(&id, "etcd", "k", Access::Read).await,
            async || {
                let keys = customer.bucket_keys(&id, "etcd").await?;
                Ok(keys.into_iter().find(|key| key.name == "k"))
            },
        )
        .await?;
    assert_eq!(key.name, "k");
    Ok(sim.world(|world| {
        let spaces = &world.objectspaces;
        let buckets = spaces.iter().flat_map(|o| &o.buckets);
        let keys = buckets.clone().flat_map(|b| &b.keys);
        [spaces.len(), buckets.count(), keys.count()]
    }))
}

#[tokio::test]
async fn what_is_created_surely_is_created_once() {
    for fault in
        ["lost-reply", "kill-after", "500-after", "kill-before", "503", "nulls", "cut-json"]
    {
        let (sim, customer) = embedded("vco_surely").await;
        for operation in ["createObjectspace", "createBucket", "CreateBucketAccess"] {
            sim.fault(format!("{operation}={fault}").parse().unwrap());
        }
        let made = made_surely(&sim, &customer).await;
        assert_eq!(made.unwrap(), [1, 1, 1], "{fault}");
        sim.stop().await;
    }
}

#[tokio::test]
async fn what_is_refused_is_not_tried_again() {
    for (fault, class) in [("403", Class::Auth), ("409", Class::Conflict), ("400", Class::Invalid)]
    {
        let (sim, customer) = embedded("vco_surely_refused").await;
        sim.fault(format!("createBucket={fault}").parse().unwrap());
        let error = made_surely(&sim, &customer).await.unwrap_err();
        assert_eq!(error.class(), class, "{error}");
        let tried = sim.journal().iter().filter(|e| e.operation == "createBucket").count();
        assert_eq!(tried, 1, "{fault}");
        sim.stop().await;
    }
}

#[tokio::test]
async fn what_never_succeeds_ends() {
    let (sim, customer) = embedded("vco_surely_never").await;
    sim.fault("createBucket=500*inf".parse().unwrap());
    let error = made_surely(&sim, &customer).await.unwrap_err();
    assert!(error.outcome_unknown(), "{error}");
    let tried = sim.journal().iter().filter(|e| e.operation == "createBucket").count();
    assert_eq!(tried, 3);
    sim.stop().await;
}

#[tokio::test]
async fn an_objectspace_is_published() {
    let (sim, customer) = embedded("vco_publish").await;
    let through = Through::New { subnet: "10.0.7.0/24".to_owned(), external_network: 5 };
    let publish = Publish {
        domain: "s3.example.com".to_owned(),
        through,
        letsencrypt_email: Some("ops@example.com".to_owned()),
    };
    let spec = NewObjectspace { publish: Some(publish), ..new("public") };
    let id = customer.create_objectspace(&spec).await.unwrap().unwrap();
    let detail = customer.objectspace(&id).await.unwrap().unwrap();
    assert_eq!(detail.domain.as_deref(), Some("s3.example.com"));
    assert_eq!(detail.links.len(), 1);
    sim.stop().await;
}
