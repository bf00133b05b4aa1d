//! Packing, unpacking, and what is refused.

use std::fs;
use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use tar::{Builder, EntryType, Header};

use super::*;
use crate::snapshot::error::Damage;
use crate::snapshot::pack::{LEVEL, Layers, Packer, Unpacker};
use crate::snapshot::seal::{Identities, Recipients};

fn put(path: &Path, content: &str, mode: u32) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn node() -> tempfile::TempDir {
    let node = tempfile::tempdir().unwrap();
    put(&node.path().join("pki/ca.crt"), "cert", 0o644);
    put(&node.path().join("pki/ca.key"), "key", 0o600);
    put(&node.path().join("pki/etcd/ca.key"), "other key", 0o400);
    put(&node.path().join("enc.yaml"), "aescbc", 0o640);
    fs::write(node.path().join("pki/empty"), "").unwrap();
    node
}

fn packed(paths: &[PathBuf]) -> (Packed, Vec<u8>) {
    pack(paths, Vec::new()).unwrap()
}

fn made(change: impl FnOnce(&mut Builder<Vec<u8>>)) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    change(&mut builder);
    builder.into_inner().unwrap()
}

fn header(kind: EntryType, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(0o4777);
    header.set_size(size);
    header
}

#[test]
fn what_is_packed_is_unpacked_with_its_permissions() {
    let node = node();
    let root = node.path().strip_prefix("/").unwrap();
    let (done, bytes) = packed(&[node.path().join("pki"), node.path().join("enc.yaml")]);
    assert_eq!((done.files, done.bytes), (5, 4 + 3 + 9 + 6));
    assert!(done.remarks.is_empty());
    let archive = Archive::read(&bytes[..], "pki").unwrap();
    let names: Vec<_> = archive.entries().iter().map(|entry| entry.path.clone()).collect();
    let want =
        ["pki", "pki/ca.crt", "pki/ca.key", "pki/empty", "pki/etcd", "pki/etcd/ca.key", "enc.yaml"];
    assert_eq!(names, want.map(|name| root.join(name)));

    let to = tempfile::tempdir().unwrap();
    let folder = to.path().join("new");
    let written = archive.unpack(&folder).unwrap();
    assert_eq!(written.files().len(), 5);
    let mode = |name: &str| {
        fs::metadata(folder.join(root).join(name)).unwrap().permissions().mode() & 0o7777
    };
    assert_eq!(mode("pki/ca.crt"), 0o644);
    assert_eq!(mode("pki/ca.key"), 0o600);
    assert_eq!(mode("pki/etcd/ca.key"), 0o600, "the owner may always write");
    assert_eq!(mode("enc.yaml"), 0o640);
    assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
    let read = |name: &str| fs::read_to_string(folder.join(root).join(name)).unwrap();
    assert_eq!((read("pki/etcd/ca.key"), read("pki/empty")), ("other key".into(), String::new()));

    assert!(archive.unpack(&folder).unwrap().files().is_empty(), "the same files may be there");
    put(&folder.join(root).join("pki/ca.crt"), "CERT", 0o644);
    fs::remove_file(folder.join(root).join("enc.yaml")).unwrap();
    let refused = archive.unpack(&folder).unwrap_err();
    assert!(matches!(&refused, Error::InTheWay { path } if path.ends_with("pki/ca.crt")));
    assert!(!folder.join(root).join("enc.yaml").exists(), "nothing is written then");
    assert_eq!(read("pki/ca.crt"), "CERT");
}

#[test]
fn links_are_followed_and_rings_end() {
    use std::os::unix::fs::symlink;
    let node = node();
    let at = |name: &str| node.path().join(name);
    symlink(at("enc.yaml"), at("pki/linked.yaml")).unwrap();
    symlink(at("pki"), at("pki/etcd/ring")).unwrap();
    symlink("/nowhere/at/all", at("pki/broken")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(at("pki/kms.sock")).unwrap();
    let (done, bytes) = packed(&[at("pki"), at("pki/ca.crt")]);
    assert_eq!(done.files, 5, "{done:?}");
    assert_eq!(done.remarks.len(), 3, "{done:?}");
    assert!(done.remarks[0].ends_with("pki/broken was left out: its link leads nowhere"));
    assert!(done.remarks[1].contains("ring was left out: it is a link to a folder"));
    assert!(done.remarks[2].ends_with("kms.sock was left out: it is a socket"));
    let archive = Archive::read(&bytes[..], "pki").unwrap();
    let linked = archive.entries().iter().find(|e| e.path.ends_with("linked.yaml")).unwrap();
    assert_eq!(linked.size(), Some(6));
    let missing = pack(&[at("gone")], Vec::new()).unwrap_err();
    assert!(missing.to_string().starts_with("cannot read /"), "{missing}");
}

#[test]
fn what_would_leave_its_folder_is_refused() {
    let raw = |name: &[u8]| {
        made(|builder| {
            let mut header = header(EntryType::Regular, 1);
            // The crate refuses to write such a name: put it in by hand.
            header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name);
            header.set_cksum();
            builder.append(&header, &b"x"[..]).unwrap();
        })
    };
    for name in [&b"../x"[..], b"/etc/passwd", b"a/../../x", b"..", b".", b"a/.."] {
        let error = Archive::read(&raw(name)[..], "pki").unwrap_err();
        assert!(error.to_string().contains("leads out of its folder"), "{name:?} {error}");
    }
    let plain = Archive::read(&raw(b"./a/./b")[..], "pki").unwrap();
    assert_eq!(plain.entries()[0].path, Path::new("a/b"));
    assert_eq!(plain.entries()[0].mode, 0o777, "no bit that lends rights");
    for kind in [EntryType::Symlink, EntryType::Link, EntryType::Char, EntryType::Fifo] {
        let bytes = made(|builder| {
            let mut header = header(kind, 0);
            header.set_link_name("/etc/passwd").unwrap();
            builder.append_data(&mut header, "a", &b""[..]).unwrap();
        });
        let error = Archive::read(&bytes[..], "pki").unwrap_err();
        assert_eq!(error.to_string(), "pki: \"a\" is neither file nor folder");
    }
}

#[test]
fn no_link_below_the_folder_is_followed() {
    let bytes = made(|builder| {
        let mut header = header(EntryType::Regular, 1);
        builder.append_data(&mut header, "a/b", &b"x"[..]).unwrap();
    });
    let (folder, victim) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::os::unix::fs::symlink(victim.path(), folder.path().join("a")).unwrap();
    let refused = Archive::read(&bytes[..], "pki").unwrap().unpack(folder.path()).unwrap_err();
    assert!(matches!(refused, Error::InTheWay { .. }));
    assert_eq!(fs::read_dir(victim.path()).unwrap().count(), 0);
}

#[test]
fn an_archive_that_is_none_or_too_large_is_refused() {
    let said = |bytes: &[u8]| Archive::read(bytes, "pki").unwrap_err().to_string();
    assert_eq!(said(b""), "pki: there is nothing in it");
    assert_eq!(said(&[0; 1024]), "pki: there is nothing in it");
    assert!(said(&[7; 1024]).starts_with("pki: it is no good tar archive ("));
    let node = node();
    let (_, bytes) = packed(&[node.path().join("pki")]);
    for cut in [1, 511, 700, 1500] {
        assert!(Archive::read(&bytes[..cut], "pki").is_err(), "{cut}");
    }
    let huge = made(|builder| {
        let mut header = header(EntryType::Regular, LARGEST + 1);
        let zeros = io::repeat(0).take(LARGEST + 1);
        builder.append_data(&mut header, "a", zeros).unwrap();
    });
    assert_eq!(said(&huge), "pki: its files have more than 64 MiB");
}

/// A long name as GNU's tar writes it, of a length that only the header knows.
fn endless(kind: EntryType, size: u64) -> impl io::Read {
    let mut header = header(kind, size);
    header.set_path("././@LongLink").unwrap();
    header.set_cksum();
    io::Cursor::new(header.as_bytes().to_vec()).chain(io::repeat(b'a').take(size))
}

/// Counts what is read.
struct Counted<R>(R, u64);

impl<R: io::Read> io::Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let taken = self.0.read(buffer)?;
        self.1 += taken as u64;
        Ok(taken)
    }
}

#[test]
fn an_archive_that_goes_on_and_on_is_left_early() {
    for (kind, most) in [
        (EntryType::GNULongName, "a name in it has more than 4096 bytes"),
        (EntryType::XHeader, "a header in it has more than 65536 bytes"),
    ] {
        let mut input = Counted(endless(kind, 8 << 30), 0);
        let error = Archive::read(&mut input, "pki").unwrap_err().to_string();
        assert!(error.contains(most), "{error}");
        assert!(input.1 < 1 << 20, "{} bytes were read", input.1);
    }
    // What is skipped unread, and zeros behind the end.
    let global = endless(EntryType::XGlobalHeader, 8 << 30);
    let (_, whole) = packed(&[node().path().join("enc.yaml")]);
    let trailing = io::Cursor::new(whole).chain(io::repeat(0).take(8 << 30));
    let inputs: [Box<dyn io::Read>; 2] = [Box::new(global), Box::new(trailing)];
    for input in inputs {
        let mut input = Counted(input, 0);
        let error = Archive::read(&mut input, "pki").unwrap_err().to_string();
        assert_eq!(error, "pki: there is more in it than any node has");
        assert!(input.1 < 2 * LARGEST, "{} bytes were read", input.1);
    }
}

#[test]
fn a_long_name_is_read_however_it_is_written() {
    let long = "x/".repeat(100) + "key";
    let gnu = made(|builder| {
        let mut header = header(EntryType::Regular, 1);
        builder.append_data(&mut header, &long, &b"k"[..]).unwrap();
    });
    let pax = made(|builder| {
        builder.append_pax_extensions([("path", long.as_bytes())]).unwrap();
        let mut header = header(EntryType::Regular, 1);
        builder.append_data(&mut header, "short", &b"k"[..]).unwrap();
    });
    for bytes in [gnu, pax] {
        let archive = Archive::read(&bytes[..], "pki").unwrap();
        assert_eq!(archive.entries().len(), 1);
        assert_eq!(archive.entries()[0].path, Path::new(&long));
    }
}

#[test]
fn a_name_that_stands_for_two_things_is_refused_before_anything_is_written() {
    for names in [["a", "a"], ["a", "a/b"], ["a/b", "a"], ["./a", "a"]] {
        let bytes = made(|builder| {
            for name in names {
                let mut header = header(EntryType::Regular, 1);
                builder.append_data(&mut header, name, &b"x"[..]).unwrap();
            }
        });
        let error = Archive::read(&bytes[..], "pki").unwrap_err().to_string();
        assert_eq!(error, "pki: \"a\" is in it twice", "{names:?}");
    }
}

#[test]
fn what_cannot_be_written_whole_is_not_written_at_all() {
    let to = tempfile::tempdir().unwrap();
    let folder = to.path().join("new/folder");
    // Its own name still fits what the system takes, and the one that it has before does not.
    let room = 4095 - folder.as_os_str().len() - 1;
    let mut last = "d/".repeat(room / 2);
    last.truncate(room - room % 2 - 2);
    let last = format!("{}/k", last.trim_end_matches('/'));
    let bytes = made(|builder| {
        for name in ["a/first", &last] {
            let mut header = header(EntryType::Regular, 1);
            builder.append_data(&mut header, name, &b"x"[..]).unwrap();
        }
    });
    let archive = Archive::read(&bytes[..], "pki").unwrap();
    let error = archive.unpack(&folder).unwrap_err();
    assert!(matches!(error, Error::Local { doing: "write", .. }), "{error:?}");
    assert_eq!(fs::read_dir(to.path()).unwrap().count(), 0, "folders of ours are gone, too");
}

#[test]
fn what_is_undone_goes_and_what_cannot_go_is_told() {
    let node = node();
    let (_, bytes) = packed(&[node.path().join("pki")]);
    let archive = Archive::read(&bytes[..], "pki").unwrap();
    let to = tempfile::tempdir().unwrap();
    let folder = to.path().join("new");
    assert_eq!(archive.unpack(&folder).unwrap().undo(), Vec::<PathBuf>::new());
    assert!(!folder.exists());
    fs::create_dir(&folder).unwrap();
    let done = archive.unpack(&folder).unwrap();
    let below = folder.join(node.path().strip_prefix("/").unwrap());
    fs::write(below.join("pki/of-others"), "x").unwrap();
    let left = done.undo();
    assert_eq!(left.first(), Some(&below.join("pki")));
    assert!(below.join("pki/of-others").exists() && !below.join("pki/ca.key").exists());
}

#[test]
fn nothing_is_believed_before_the_seal_is_whole() {
    let node = node();
    let key = Identities::generate();
    let recipients = Recipients::parse(key.public(), "r").unwrap();
    let layers = Layers { level: Some(LEVEL), recipients: Some(recipients) };
    let packer = Packer::new(Vec::new(), &layers).unwrap();
    let (_, packer) = pack(&[node.path().join("pki")], packer).unwrap();
    let file = packer.finish().unwrap();
    let read = |bytes: &[u8]| {
        let unpacker = Unpacker::new(io::Cursor::new(bytes.to_vec()), &key, "pki")?;
        Archive::read(unpacker, "pki")
    };
    assert!(read(&file).is_ok());
    let cut = read(&file[..file.len() - 1]).unwrap_err();
    assert!(matches!(cut, Error::Damaged { damage: Damage::SealChanged, .. }), "{cut}");
    // A tar that ends well inside a frame that does not.
    let open = Layers { recipients: None, ..layers };
    let packer = Packer::new(Vec::new(), &open).unwrap();
    let (_, packer) = pack(&[node.path().join("pki")], packer).unwrap();
    let mut file = packer.finish().unwrap();
    file.extend(b"more");
    let more = Unpacker::new(io::Cursor::new(file), &key, "pki");
    let more = more.and_then(|unpacker| Archive::read(unpacker, "pki")).unwrap_err();
    assert!(matches!(more, Error::Damaged { .. }), "{more}");
}
