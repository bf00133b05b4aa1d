//! Data packed by ours and unpacked by theirs, and the other way round.

use std::io::{Read as _, Write as _};
use std::path::Path;

use capvco::snapshot::kind::Kind;
use capvco::snapshot::pack::{LEVEL, Layers, Packer, Unpacker};
use capvco::snapshot::seal::{HEADER, Identities, Opens, try_header};
use capvco::snapshot::{Damage, Error};

use super::{keygen, must, real};
use crate::support::peers::run;

/// Some bytes that look like a database and can be compressed a little.
fn sample(size: usize) -> Vec<u8> {
    let mut seed = 7_u64;
    let mut bytes: Vec<u8> = (0..size)
        .map(|n| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            if n % 4 == 0 { seed.to_be_bytes()[0] } else { b'k' }
        })
        .collect();
    bytes[..20].fill(0);
    bytes[8] = 4;
    bytes[16..20].copy_from_slice(&0xED0C_DAED_u32.to_le_bytes());
    bytes
}

fn unpack(path: &Path, with: &Identities) -> Result<Vec<u8>, Error> {
    let file = std::fs::File::open(path).unwrap();
    let mut unpacker = Unpacker::new(file, with, "b")?.must_hold(Kind::EtcdDb, "b")?;
    let mut clear = Vec::new();
    let read = unpacker.read_to_end(&mut clear);
    read.map(|_| clear).map_err(|error| Error::of_reading("b", error))
}

#[test]
fn what_we_pack_is_opened_by_age_and_zstd() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let (_, mut recipients) = keygen(&at("one.txt"));
    let (_, second) = keygen(&at("two.txt"));
    recipients.extend(second);
    let clear = sample(3 << 20);
    for level in [None, Some(LEVEL), Some(19)] {
        let layers = Layers { level, recipients: Some(recipients.clone()) };
        let mut packer = Packer::new(std::fs::File::create(at("x")).unwrap(), &layers).unwrap();
        packer.write_all(&clear).unwrap();
        packer.finish().unwrap();
        for key in ["one.txt", "two.txt"] {
            must(real("age").arg("-d").arg("-i").arg(at(key)).arg("-o").arg(at("y")).arg(at("x")));
            if level.is_some() {
                must(real("zstd").args(["-d", "-q", "-f", "-o"]).arg(at("z")).arg(at("y")));
            } else {
                std::fs::rename(at("y"), at("z")).unwrap();
            }
            assert!(std::fs::read(at("z")).unwrap() == clear, "{level:?} {key}");
        }
    }
}

#[test]
fn what_zstd_and_age_pack_is_opened_by_us() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let (keys, recipients) = keygen(&at("k.txt"));
    let clear = sample(3 << 20);
    std::fs::write(at("x"), &clear).unwrap();
    for (zstd, armor) in [
        (None, false),
        (Some("-3"), false),
        (Some("-1"), true),
        (Some("--fast=5"), false),
        (Some("--long=27"), false),
        (Some("--no-check"), true),
    ] {
        let input = match zstd {
            None => at("x"),
            Some(how) => {
                must(real("zstd").args([how, "-q", "-f", "-o"]).arg(at("x.zst")).arg(at("x")));
                assert!(unpack(&at("x.zst"), &Identities::default()).unwrap() == clear);
                at("x.zst")
            }
        };
        let mut age = real("age");
        age.args(if armor { &["-a"][..] } else { &[] });
        must(age.args(["-r", &recipients.texts()[0], "-o"]).arg(at("x.age")).arg(input));
        assert!(unpack(&at("x.age"), &keys).unwrap() == clear, "{zstd:?} {armor}");
        let bytes = std::fs::read(at("x.age")).unwrap();
        assert_eq!(try_header(&bytes[..HEADER], &keys, "b").unwrap(), Opens::Yes);
        let other = Identities::generate();
        assert_eq!(try_header(&bytes[..HEADER], &other, "b").unwrap(), Opens::No);
        assert!(matches!(unpack(&at("x.age"), &other), Err(Error::WrongKey { .. })));
    }
}

#[test]
fn a_window_of_gigabytes_is_refused_before_it_costs_memory() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    // Larger than the smaller windows, or zstd would write a smaller one than asked for.
    std::fs::write(at("x"), sample(1 << 20)).unwrap();
    let mut zstd = real("zstd");
    zstd.args(["--ultra", "--long=31", "-q", "-f", "-o"]).arg(at("x.zst"));
    // From a pipe the size is not known in advance, and the window is the one asked for.
    zstd.stdin(std::fs::File::open(at("x")).unwrap());
    assert!(zstd.status().unwrap().success());
    let refused = unpack(&at("x.zst"), &Identities::default()).unwrap_err();
    assert!(matches!(refused, Error::Damaged { damage: Damage::PackWindow, .. }), "{refused}");
}

#[test]
fn a_file_that_age_calls_damaged_is_damaged_to_us() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let (keys, recipients) = keygen(&at("k.txt"));
    std::fs::write(at("x"), sample(200_000)).unwrap();
    must(real("age").args(["-r", &recipients.texts()[0], "-o"]).arg(at("x.age")).arg(at("x")));
    let good = std::fs::read(at("x.age")).unwrap();
    let chunk = 65_536 + 16;
    let payload = good.len() - 200_000 - 4 * 16;
    let flip = |at: usize| {
        let mut bad = good.clone();
        bad[at] ^= 1;
        bad
    };
    let cases = [
        ("cut in the header", good[..100].to_vec()),
        ("cut in the nonce", good[..payload - 3].to_vec()),
        ("cut before the first chunk", good[..payload].to_vec()),
        ("cut after the first chunk", good[..payload + chunk].to_vec()),
        ("cut in a chunk", good[..payload + 70_000].to_vec()),
        ("cut by one byte", good[..good.len() - 1].to_vec()),
        ("one byte more", [&good[..], b"x"].concat()),
        ("a chunk more", [&good[..], &good[payload..payload + chunk]].concat()),
        ("flipped in the version", flip(20)),
        ("flipped in a stanza", flip(30)),
        ("flipped in a stanza's body", flip(90)),
        ("flipped in the MAC", flip(payload - 16 - 10)),
        ("flipped in the nonce", flip(payload - 1)),
        ("flipped in the first chunk", flip(payload + 5)),
        ("flipped in a tag", flip(payload + chunk - 1)),
        ("flipped in the last byte", flip(good.len() - 1)),
    ];
    for (what, bad) in cases {
        std::fs::write(at("bad.age"), bad).unwrap();
        let theirs = run(real("age").arg("-d").arg("-i").arg(at("k.txt")).arg(at("bad.age")));
        assert_ne!(theirs.code, 0, "age takes it: {what}");
        assert!(unpack(&at("bad.age"), &keys).is_err(), "{what}");
    }
}
