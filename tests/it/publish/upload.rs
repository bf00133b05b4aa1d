//! `-file`: parts in parallel, checksums, stdin, and files that change.

use std::path::PathBuf;
use std::time::Duration;

use capvco::sim::qcow2::{self, Gpt};
use capvco::sim::rules::EtagPlace;
use capvco::sim::{Sim, World};

use super::{
    BE, NAME, NL, QT, calls, image, images, md5, only, other_image, program, results, sha256,
};
use crate::support::cloud::cloud;
use crate::support::program::Done;

/// A folder with the image in it.
struct Folder {
    _dir: tempfile::TempDir,
    file: PathBuf,
}

fn folder(bytes: &[u8]) -> Folder {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("k8s.qcow2");
    std::fs::write(&file, bytes).unwrap();
    Folder { _dir: dir, file }
}

fn world() -> World {
    let mut world = World::small();
    // Five parts, the last one shorter.
    world.rules.part_size = 60_000;
    world
}

async fn upload(sim: &Sim, folder: &Folder, more: &str) -> Done {
    let program = program(sim).words("-file").arg(&folder.file);
    program.words(&format!("-name {NAME} -output json {more}")).run().await
}

#[tokio::test]
async fn a_file_reaches_every_location_whole() {
    let sim = cloud("publish-file", world()).await;
    let folder = folder(&image());
    let done = upload(&sim, &folder, "-locations all").await.expect(0);
    assert_eq!(results(&done), format!("{BE}:created {NL}:created {QT}:created"));
    for at in [BE, NL, QT] {
        let made = only(&sim, at);
        assert_eq!((made.bytes, made.format.as_str()), (image().len() as u64, "qcow2"));
        assert_eq!((made.md5_sum, made.boot_disk_size), (md5(&image()), 10));
        assert!(made.tags.contains(&sha256(&image())), "{}", made.tags);
    }
    let parts = sim.journal().iter().filter(|e| e.method == "PUT").count();
    assert_eq!(parts, 15, "five a location");
    let again = upload(&sim, &folder, "-locations all").await.expect(0);
    assert_eq!(results(&again), format!("{BE}:unchanged {NL}:unchanged {QT}:unchanged"));
    std::fs::write(&folder.file, other_image()).unwrap();
    upload(&sim, &folder, &format!("-locations {BE}")).await.expect(3).says("other content");
    let done = upload(&sim, &folder, &format!("-locations {BE} -replace")).await.expect(0);
    assert_eq!(results(&done), format!("{BE}:replaced"));
}

#[tokio::test]
async fn what_a_partition_table_says_against_the_boot_type_is_a_warning() {
    let sim = cloud("publish-firmware", World::small()).await;
    for (gpt, more, against) in [
        (Gpt::Bios, "", Some("made for BIOS, and -boot-type is uefi")),
        (Gpt::Uefi, "-boot-type bios", Some("made for UEFI, and -boot-type is bios")),
        (Gpt::Uefi, "", None),
        (Gpt::Both, "-boot-type bios", None),
    ] {
        let folder = folder(&[]);
        qcow2::write(&folder.file, 10 << 30, 1, gpt).unwrap();
        let done = upload(&sim, &folder, &format!("-locations {BE} -dry-run {more}")).await;
        let done = done.expect(0);
        let said = done.err.lines().find(|line| line.contains("partition table"));
        match against {
            Some(text) => assert!(said.is_some_and(|line| line.contains(text)), "{}", done.err),
            None => assert_eq!(said, None),
        }
    }
}

#[tokio::test]
async fn an_etag_may_be_anywhere_and_parts_may_fail_first() {
    use EtagPlace::{BodyObject, BodyString, BodyText, Both, Header};
    for etag in [Header, BodyObject, BodyString, BodyText, Both] {
        let mut world = world();
        world.rules.etag = etag;
        let sim = cloud("publish-etag", world).await;
        for fault in [
            "UploadImagePart#2=500",
            "UploadImagePart#4=kill-before",
            "createVMImageMultipartUpload=503",
        ] {
            sim.fault(fault.parse().unwrap());
        }
        upload(&sim, &folder(&image()), &format!("-locations {BE}")).await.expect(0);
        assert_eq!(only(&sim, BE).md5_sum, md5(&image()), "{etag:?}");
    }
}

#[tokio::test]
async fn a_finish_whose_reply_is_lost_makes_one_image() {
    for fault in ["lost-reply", "500-after", "kill-before"] {
        let sim = cloud("publish-finish", world()).await;
        sim.fault(format!("createCustomerImageFromFile={fault}").parse().unwrap());
        upload(&sim, &folder(&image()), &format!("-locations {BE}")).await.expect(0);
        only(&sim, BE);
    }
}

#[tokio::test]
async fn stdin_is_spooled_and_uploaded() {
    let sim = cloud("publish-stdin", world()).await;
    let spool = tempfile::tempdir().unwrap();
    let words = format!("-file - -name {NAME} -locations {BE},{NL} -output json");
    let run = program(&sim).words(&words).env("TMPDIR", spool.path()).stdin(image()).run();
    let done = run.await.expect(0);
    assert_eq!(results(&done), format!("{BE}:created {NL}:created"));
    assert_eq!(only(&sim, NL).bytes, image().len() as u64);
    assert_eq!(std::fs::read_dir(spool.path()).unwrap().count(), 0, "nothing is left");
}

#[tokio::test]
async fn what_lost_its_end_is_never_sent() {
    let sim = cloud("publish-cut", world()).await;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("real.qcow2");
    capvco::sim::qcow2::write(&path, 1 << 30, 7, capvco::sim::qcow2::Gpt::Uefi).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    let to = format!("-name {NAME} -locations {BE}");
    let file = program(&sim).words("-file").arg(&path).words(&to).run().await.expect(3);
    file.says("it is cut off").says("incomplete");
    let pipe = program(&sim).words(&format!("-file - {to}")).stdin(&bytes[..bytes.len() / 2]);
    pipe.run().await.expect(3).says("stdin cannot be published: it is cut off");
    assert_eq!(calls(&sim, "POST", ""), 0);
    let mut raw = vec![0; 1 << 20];
    raw[450] = 0x83;
    raw[510..512].copy_from_slice(&[0x55, 0xaa]);
    let pipe = program(&sim).words(&format!("-file - {to} -boot-type bios")).stdin(raw);
    pipe.run().await.expect(0).says("nothing tells whether the raw image from stdin was complete");
}

#[tokio::test]
async fn given_checksums_of_a_file_are_enforced_before_anything_is_sent() {
    let sim = cloud("publish-file-sums", world()).await;
    let folder = folder(&image());
    let good = format!("-locations {BE} -md5 {} -sha256 {}", md5(&image()), sha256(&image()));
    upload(&sim, &folder, &good).await.expect(0);
    let posts = calls(&sim, "POST", "");
    for (sum, kind) in [
        (format!("-md5 {}", md5(&other_image())), "has the MD5"),
        (format!("-sha256 {}", sha256(&other_image())), "has the SHA-256"),
    ] {
        let done = upload(&sim, &folder, &format!("-locations {NL} {sum}")).await.expect(3);
        done.says(kind).says("not what was meant");
    }
    assert_eq!(calls(&sim, "POST", ""), posts);
}

#[tokio::test]
async fn a_file_that_changes_while_it_is_uploaded_makes_no_image() {
    let sim = cloud("publish-file-changes", world()).await;
    let folder = folder(&image());
    sim.fault("UploadImagePart#3=slow:1500".parse().unwrap());
    let path = folder.file.clone();
    let change = async {
        while sim.journal().iter().filter(|e| e.method == "PUT").count() < 2 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        std::fs::write(&path, other_image()).unwrap();
    };
    let more = format!("-locations {BE}");
    let (done, ()) = tokio::join!(upload(&sim, &folder, &more), change);
    assert_ne!(done.code, 0);
    done.says("changed");
    assert!(images(&sim, BE).is_empty());
}

#[cfg(unix)]
#[tokio::test]
async fn an_upload_that_is_interrupted_makes_no_image() {
    let sim = cloud("publish-upload-stop", world()).await;
    sim.fault("UploadImagePart#3=hang*inf".parse().unwrap());
    let folder = folder(&image());
    let program = program(&sim).words("-file").arg(&folder.file);
    let program = program.words(&format!("-name {NAME} -locations {BE} -output json"));
    let under_way = |sim: &Sim| sim.journal().iter().any(|e| e.method == "PUT");
    let done = super::stop::interrupted(&sim, program, under_way).await.expect(1);
    assert_eq!(results(&done), format!("{BE}:interrupted"));
    done.says("the upload was broken off and made no image");
    assert!(images(&sim, BE).is_empty());
}
