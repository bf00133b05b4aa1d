//! The database as a member of the new cluster has it: which pages are new, and why.
//!
//! What is changed is what etcd's own restore changes (`etcdutl/snapshot/v3_snapshot.go`,
//! v3.5.35 to v3.7.3): `members` and `members_removed`, `consistent_index` and `term` in `meta`,
//! and for a bump one row in `key` and `scheduledCompactRev`. Beyond that `confState` is written
//! anew: the old cluster's names members that are no more, and etcd from 3.6 on takes a database
//! without `confState` or `term` for one older than 3.5 (`server/storage/schema/schema.go`).

use super::append::{Appended, Child, Rows, bucket_on_pages};
use super::plan::Prepared;
use crate::etcd::db::page::{Bucket, Header, IS_BUCKET, Meta, NO_FREELIST, branch_element, flag};
use crate::etcd::db::page::{LeafElement, leaf_element};
use crate::etcd::db::row::Revision;
use crate::etcd::db::tree::{self, Seen, Visit};
use crate::etcd::db::{Damage, Db};

/// More than any of the small buckets has.
const MAX_BUCKET: usize = 8 << 20;
/// As deep as a tree may be, and as large as a branch: `tree` holds both.
const MAX_DEPTH: usize = 20;

/// What is written: pages behind the last one, and then the meta pages.
#[derive(Debug)]
pub(super) struct Rewritten {
    /// Where the new pages begin in the file.
    pub at: u64,
    /// The new pages.
    pub pages: Vec<u8>,
    /// The meta that names their root.
    pub meta: Meta,
}

/// Decides all new pages of `db`.
pub(super) fn rewrite(db: &Db, prepared: &Prepared) -> Result<Rewritten, Damage> {
    let old = *db.meta();
    let mut new = Appended::new(old.page_size, old.high_water);
    let mut seen = Seen::new(old.high_water);
    let mut root: Rows = tree::buckets(db, &mut seen)?.into_iter().collect();
    let empty = Appended::new(old.page_size, 0).bucket(&Rows::new(), 0);
    for name in ["members", "members_removed", "meta", "key"] {
        root.entry(name.as_bytes().to_vec()).or_insert_with(|| empty.clone());
    }
    for (name, value) in &mut root {
        match name.as_slice() {
            b"members" => *value = new.bucket(&members(prepared), sequence(value)),
            b"members_removed" => *value = new.bucket(&Rows::new(), sequence(value)),
            b"meta" => {
                let mut rows = small_bucket(db, &mut seen, (name, value))?;
                facts(&mut rows, prepared);
                *value = new.bucket(&rows, sequence(value));
            }
            b"key" => {
                if let Some(main) = prepared.bumped_to {
                    *value = bumped(db, &mut new, (name, value), main)?;
                }
            }
            _ => {}
        }
    }
    let root = new.tree(&root, IS_BUCKET);
    let (high_water, pages) = new.finish();
    let meta = Meta { root, freelist: NO_FREELIST, high_water, ..old };
    Ok(Rewritten { at: old.bytes(), pages, meta })
}

fn sequence(value: &[u8]) -> u64 {
    Bucket::read(value).map_or(0, |bucket| bucket.sequence)
}

fn members(prepared: &Prepared) -> Rows {
    prepared.members.iter().map(|member| (member.key(), member.json())).collect()
}

fn facts(rows: &mut Rows, prepared: &Prepared) {
    let count = prepared.members.len() as u64;
    let mut put = |key: &str, value: Vec<u8>| rows.insert(key.as_bytes().to_vec(), value);
    put("consistent_index", count.to_be_bytes().to_vec());
    if prepared.since_3_5 {
        put("term", 1_u64.to_be_bytes().to_vec());
        let voters: Vec<u64> = prepared.members.iter().map(|member| member.id).collect();
        let state = serde_json::json!({"voters": voters, "auto_leave": false});
        put("confState", state.to_string().into_bytes());
    }
    if let Some(main) = prepared.bumped_to {
        put("scheduledCompactRev", Revision { main, sub: 0 }.key().to_vec());
    }
}

/// Collects a bucket that is known to be small.
#[derive(Debug, Default)]
struct Collect {
    rows: Rows,
    bytes: usize,
}

impl Visit for Collect {
    fn bucket(&mut self, _: &[u8]) {}

    fn entry(&mut self, key: &[u8], value: &[u8], len: u64) -> Result<(), Damage> {
        self.bytes += key.len() + value.len();
        if len > value.len() as u64 || self.bytes > MAX_BUCKET {
            return Err(Damage::bucket(key, "a bucket of small facts is too large to be etcd's"));
        }
        self.rows.insert(key.to_vec(), value.to_vec());
        Ok(())
    }

    fn more(&mut self, _: &[u8]) {}
}

fn small_bucket(db: &Db, seen: &mut Seen, bucket: (&[u8], &[u8])) -> Result<Rows, Damage> {
    let mut collect = Collect::default();
    tree::bucket(db, seen, &mut collect, bucket)?;
    Ok(collect.rows)
}

/// The bucket `key` with one more row behind all others. Old leaves stay where they are, so that
/// large values are not copied: the new row gets a leaf of its own, and the right-most branches
/// are written anew around it.
fn bumped(
    db: &Db,
    new: &mut Appended,
    (name, value): (&[u8], &[u8]),
    main: i64,
) -> Result<Vec<u8>, Damage> {
    let bucket = Bucket::read(value).ok_or_else(|| Damage::bucket(name, "it has no header"))?;
    let key = Revision { main, sub: 0 }.key().to_vec();
    if bucket.root == 0 {
        let mut rows = small_bucket(db, &mut Seen::new(0), (name, value))?;
        rows.insert(key, Vec::new());
        return Ok(new.bucket(&rows, bucket.sequence));
    }
    let (path, first) = right_most(db, bucket.root)?;
    let leaf = new.leaf(&[(&key, &Vec::new())], 0);
    let Some(first) = first else { return Ok(bucket_on_pages(leaf, bucket.sequence)) };
    let Top { page, beside } = new_path(new, path, bucket.root, (key, leaf));
    let root = match beside {
        Some(child) => new.branch(&[(first, page), child]),
        None => page,
    };
    Ok(bucket_on_pages(root, bucket.sequence))
}

/// Branches from a root down, each with its children.
type Path = Vec<Vec<Child>>;

/// What became of the top of a path: its page, and what is beside it if that was not enough.
struct Top {
    page: u64,
    beside: Option<Child>,
}

/// Hangs a new child behind the last leaf below the right-most path, lowest branch first. A branch
/// that is full is halved: bbolt takes a branch with a single child for damage when it deletes
/// below it (`node.rebalance` in its `node.go`).
fn new_path(new: &mut Appended, mut path: Path, root: u64, child: Child) -> Top {
    let leaf = path.last().and_then(|children| children.last()).map_or(root, |(_, page)| *page);
    let mut top = Top { page: leaf, beside: Some(child) };
    while let Some(mut children) = path.pop() {
        if let Some(last) = children.last_mut() {
            last.1 = top.page;
        }
        children.extend(top.beside.take());
        let right = if new.fits(&children) { Vec::new() } else { halve(&mut children) };
        top.page = new.branch(&children);
        top.beside = right.first().map(|(key, _)| (key.clone(), new.branch(&right)));
    }
    top
}

fn halve(children: &mut Vec<Child>) -> Vec<Child> {
    children.split_off(children.len() / 2)
}

/// The branches from `root` down to the last leaf, and the first key of the root; none if the
/// root is an empty leaf.
fn right_most(db: &Db, root: u64) -> Result<(Path, Option<Vec<u8>>), Damage> {
    let (mut path, mut page) = (Path::new(), root);
    while path.len() < MAX_DEPTH {
        let (header, bytes) = read(db, page)?;
        if header.flags != flag::BRANCH {
            let first = match path.first() {
                None => first_key(&bytes, page, &header)?,
                Some(_) => first_of(&path),
            };
            return Ok((path, first));
        }
        let children = children(&bytes, page, &header)?;
        page = children.last().map_or(0, |(_, child)| *child);
        path.push(children);
    }
    Err(Damage::page(root, "the tree is deeper than a tree can be"))
}

fn first_of(path: &Path) -> Option<Vec<u8>> {
    path.first()?.first().map(|(key, _)| key.clone())
}

/// A page: all of a branch, the beginning of a leaf. The walk has held its structure before.
fn read(db: &Db, page: u64) -> Result<(Header, Vec<u8>), Damage> {
    let page_size = db.meta().page_size as usize;
    if !db.meta().holds(page) {
        return Err(Damage::page(page, "it lies outside of the file"));
    }
    let mut bytes = vec![0; page_size];
    db.read(&mut bytes, page * page_size as u64)?;
    let header = Header::read(&bytes).ok_or_else(|| Damage::page(page, "no header"))?;
    let len = (header.overflow as usize + 1) * page_size;
    if header.flags == flag::BRANCH && len > page_size && len <= MAX_BUCKET {
        bytes.resize(len, 0);
        db.read(&mut bytes, page * page_size as u64)?;
    }
    Ok((header, bytes))
}

fn children(bytes: &[u8], page: u64, header: &Header) -> Result<Vec<Child>, Damage> {
    let child = |index| {
        let element = branch_element(bytes, index)?;
        Some((element.key(header, bytes)?.to_vec(), element.child))
    };
    let children: Option<Vec<Child>> = (0..header.count.into()).map(child).collect();
    children.ok_or_else(|| Damage::page(page, "a branch's element points outside of it"))
}

/// The first key of a leaf. Its place may be on a later page, but then only by the elements
/// before it, and there are few where rows are that large.
fn first_key(bytes: &[u8], page: u64, header: &Header) -> Result<Option<Vec<u8>>, Damage> {
    if header.count == 0 {
        return Ok(None);
    }
    let key = |element: LeafElement| {
        let start = usize::try_from(element.key).ok()?;
        Some(bytes.get(start..start.checked_add(element.key_len)?)?.to_vec())
    };
    let first = leaf_element(bytes, 0).and_then(key);
    first.map(Some).ok_or_else(|| Damage::page(page, "its first key is not on it"))
}
