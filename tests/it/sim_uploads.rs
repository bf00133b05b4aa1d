//! The embedded cloud's multipart upload over real HTTP.

use capvco::sim::qcow2::{self, Gpt};
use capvco::sim::rules::EtagPlace;
use capvco::sim::{Pace, Sim, World};
use serde_json::{Value, json};

use crate::support::raw::{Raw, read};

const FINISH: &str = "name=k8s&memory=512&boot_disk_size=5&boot_type=uefi\
                      &os_name=Linux%20-%20other&os_type=Linux";

/// A cloud whose parts are small, and a client.
async fn cloud() -> (Sim, Raw) {
    let sim = Sim::start(World::small(), Pace::stepped().0).await.unwrap();
    sim.world(|w| w.rules.part_size = 100_000);
    let raw = Raw::new(&sim);
    (sim, raw)
}

fn image() -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("k8s.qcow2");
    qcow2::write(&path, 64 << 20, 1, Gpt::Both).unwrap();
    std::fs::read(path).unwrap()
}

/// Uploads every part, the last first, and returns the body for the finish.
async fn upload(raw: &Raw, image: &[u8]) -> (String, Value) {
    let (_, begun) = raw.call("POST", "{L}/upload-vm-image?file_name=k8s.qcow2").await;
    let (id, object) = (begun["upload_id"].as_str().unwrap(), &begun["object_name"]);
    let size = usize::try_from(begun["part_size"].as_u64().unwrap()).unwrap();
    let mut parts = Vec::new();
    for (index, part) in image.chunks(size).enumerate().rev() {
        let number = index + 1;
        let path = format!("{{L}}/{id}/upload-part/{number}?object_name={}", text(object));
        let request = raw.request("PUT", &path).body(part.to_vec());
        let response =
            request.header("content-type", "application/octet-stream").send().await.unwrap();
        let header = response.headers().get("etag").map(|v| v.to_str().unwrap().to_owned());
        let (status, body) = read(response).await;
        assert_eq!(status, 200, "{body}");
        let in_body = body["etag"].as_str().or(body.as_str()).map(str::to_owned);
        parts.insert(0, json!({"part_number": number, "etag": header.or(in_body).unwrap()}));
    }
    (id.to_owned(), json!({"object_name": object, "uploaded_parts": parts}))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

async fn finish(raw: &Raw, id: &str, more: &str, body: &Value) -> (u16, Value) {
    let request = raw.request("POST", &format!("{{L}}/{id}/finish-image-upload?{FINISH}{more}"));
    read(request.json(body).send().await.unwrap()).await
}

#[tokio::test]
async fn parts_become_an_image_wherever_the_tag_is() {
    let image = image();
    for place in [
        EtagPlace::Header,
        EtagPlace::BodyObject,
        EtagPlace::BodyString,
        EtagPlace::BodyText,
        EtagPlace::Both,
    ] {
        let (sim, raw) = cloud().await;
        sim.world(|w| w.rules.etag = place);
        let (id, body) = upload(&raw, &image).await;
        assert_eq!(finish(&raw, &id, "", &body).await, (200, json!({"image_id": 101})));
        let made = raw.get("{L}/101").await;
        assert_eq!(made["status"], "CREATED", "{place:?}");
        assert_eq!(made["size"], image.len());
        sim.world(|w| {
            let image = w.site("be-mac-dc01-001").image(101).unwrap().clone();
            assert_eq!((image.format.as_str(), image.virtual_bytes), ("qcow2", 64 << 20));
        });
        assert_eq!(finish(&raw, &id, "", &body).await.0, 404, "an upload is finished once");
    }
}

#[tokio::test]
async fn a_wrong_checksum_fails_after_the_finish() {
    let (_sim, raw) = cloud().await;
    let (id, body) = upload(&raw, &image()).await;
    let md5 = "&md5_sum=00000000000000000000000000000000";
    assert_eq!(finish(&raw, &id, md5, &body).await.0, 200);
    assert_eq!(raw.get("{L}/101").await["status"], "ERROR");
}

#[tokio::test]
async fn a_wrong_list_of_parts_leaves_the_upload_open() {
    let (_sim, raw) = cloud().await;
    let (id, body) = upload(&raw, &image()).await;
    let parts = body["uploaded_parts"].as_array().unwrap();
    let reversed: Vec<_> = parts.iter().rev().collect();
    for wrong in [
        json!({"object_name": body["object_name"], "uploaded_parts": reversed}),
        json!({"object_name": body["object_name"], "uploaded_parts": []}),
        json!({"object_name": "another", "uploaded_parts": parts}),
        json!({"object_name": body["object_name"],
               "uploaded_parts": [{"part_number": 1, "etag": "x"}]}),
    ] {
        assert_eq!(finish(&raw, &id, "", &wrong).await.0, 400, "{wrong}");
    }
    assert_eq!(finish(&raw, &id, "", &body).await.0, 200);
}

#[tokio::test]
async fn a_part_of_an_unknown_upload_is_refused() {
    let (sim, raw) = cloud().await;
    let put = |path: &str| raw.request("PUT", path).body(vec![0; 300_000]).send();
    let (_, begun) = raw.call("POST", "{L}/upload-vm-image?file_name=x").await;
    let (id, object) = (text(&begun["upload_id"]), text(&begun["object_name"]));
    let path = format!("{{L}}/nothing/upload-part/1?object_name={object}");
    assert_eq!(put(&path).await.unwrap().status(), 404);
    let path = format!("{{L}}/{id}/upload-part/0?object_name={object}");
    assert_eq!(put(&path).await.unwrap().status(), 400);
    let path = format!("{{L}}/{id}/upload-part/1?object_name=other");
    assert_eq!(put(&path).await.unwrap().status(), 400);
    let path = format!("{{L}}/{id}/upload-part/1?object_name={object}");
    let typed = raw.request("PUT", &path).header("content-type", "text/plain");
    let typed = typed.header("x-capvco-deliberate", "1").body("x").send().await.unwrap();
    assert_eq!(typed.status(), 400);
    assert_eq!(sim.journal().last().unwrap().problems.len(), 1);
}
