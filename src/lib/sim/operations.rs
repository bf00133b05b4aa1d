//! The declared operations: one row each, in the vendor's words.
//!
//! What is not in this table is answered 400 and recorded, so a wrong client cannot pass. To add
//! an operation: a variant of [`Op`], a row here copied from the vendor's API file (name, type,
//! required), and an arm in `answer.rs`; the compiler and the tests ask for the rest. The rooms
//! below have tables of their own.

use super::disk::operations as disk;
use super::ingress::operations as ingress;
use super::machine::operations as machine;
use super::network::operations as network;
use super::objectspace::operations as store;

/// An operation that the cloud serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Op {
    Me,
    OsNames,
    OsTypes,
    Locations,
    Location,
    Capacity,
    Images,
    CreateImage,
    Image,
    DeleteImage,
    RestoreImage,
    StartUpload,
    UploadPart,
    FinishUpload,
    RecycleBin,
    Network(network::Op),
    Machine(machine::Op),
    Disk(disk::Op),
    Ingress(ingress::Op),
    Store(store::Op),
}

/// The type of a parameter or a body's field.
#[derive(Debug, Clone, Copy)]
pub(super) enum Type {
    Text,
    Integer,
    /// A number that need not be whole.
    Number,
    Boolean,
    /// Text separated by commas.
    Csv,
    OneOf(&'static [&'static str]),
    ListOf(&'static [Param]),
    Object(&'static [Param]),
    /// An object with any keys.
    Map,
}

/// A query parameter, or a field of a body.
#[derive(Debug, Clone, Copy)]
pub(super) struct Param {
    pub(super) name: &'static str,
    pub(super) kind: Type,
    pub(super) required: bool,
}

/// What a request may carry besides its query.
#[derive(Debug, Clone, Copy)]
pub(super) enum Body {
    Nothing,
    /// Raw bytes, described in words only.
    Bytes,
    /// A required JSON object of these fields.
    Object(&'static [Param]),
    /// The same, if anything.
    Maybe(&'static [Param]),
}

/// One row of the table.
#[derive(Debug)]
pub(super) struct Operation {
    pub(super) op: Op,
    /// The vendor's `operationId`.
    pub(super) id: &'static str,
    pub(super) method: &'static str,
    /// Below `/api/1`, with `{names}`.
    pub(super) path: &'static str,
    pub(super) query: &'static [Param],
    pub(super) body: Body,
    /// Whether it changes anything, and so is slow.
    pub(super) writes: bool,
}

pub(super) const fn must(name: &'static str, kind: Type) -> Param {
    Param { name, kind, required: true }
}

pub(super) const fn may(name: &'static str, kind: Type) -> Param {
    Param { name, kind, required: false }
}

const LOGO: &[Param] = &[may("include_logo", Type::Boolean)];

/// The parameters that creating an image from a URL and from an upload share.
macro_rules! image_params {
    ($($first:expr),*) => {
        &[
            $($first,)*
            must("name", Type::Text),
            must("memory", Type::Integer),
            must("boot_disk_size", Type::Integer),
            may("add_memory", Type::Boolean),
            may("add_vcpu", Type::Boolean),
            may("remove_vcpu", Type::Boolean),
            may("add_disk", Type::Boolean),
            may("remove_disk", Type::Boolean),
            may("add_nic", Type::Boolean),
            may("remove_nic", Type::Boolean),
            may("username", Type::Text),
            may("password", Type::Text),
            may("user_data", Type::Text),
            may("tags", Type::Text),
            may("md5_sum", Type::Text),
            must("boot_type", Type::OneOf(BOOT_TYPES)),
            must("os_name", Type::OneOf(OS_NAMES)),
            must("os_type", Type::OneOf(OS_TYPES)),
        ]
    };
}

const PART: &[Param] = &[must("part_number", Type::Integer), must("etag", Type::Text)];

macro_rules! operation {
    ($op:ident, $id:literal, $method:literal, $path:literal, $query:expr) => {
        operation!($op, $id, $method, $path, $query, Body::Nothing)
    };
    ($op:ident, $id:literal, $method:literal, $path:literal, $query:expr, $body:expr) => {
        Operation {
            op: Op::$op,
            id: $id,
            method: $method,
            path: $path,
            query: $query,
            body: $body,
            writes: !matches!($method.as_bytes(), b"GET"),
        }
    };
}

/// All of them.
pub(super) fn all() -> impl Iterator<Item = &'static Operation> {
    let rooms = [network::OPERATIONS, machine::OPERATIONS, disk::OPERATIONS, ingress::OPERATIONS];
    OPERATIONS.iter().chain(rooms.into_iter().flatten()).chain(store::OPERATIONS)
}

/// A table of a room of its own: variant, `operationId`, method, what the path begins with and
/// how it ends, query, body.
macro_rules! rows {
    ($room:ident;
     $($op:ident $id:literal $method:literal $base:ident $tail:literal, $query:expr, $body:expr;)*
    ) => {
        &[$(Operation {
            op: $crate::sim::operations::Op::$room(Op::$op),
            id: $id,
            method: $method,
            path: rows!(@ $base $tail),
            query: $query,
            body: $body,
            writes: !matches!($method.as_bytes(), b"GET"),
        }),*]
    };
    (@ customer $tail:literal) => { concat!("/customers/{customer_id}", $tail) };
    (@ location $tail:literal) => {
        concat!("/customers/{customer_id}/locations/{location}", $tail)
    };
    (@ cloudspace $tail:literal) => {
        concat!("/customers/{customer_id}/cloudspaces/{cloudspace_id}", $tail)
    };
    (@ vm $tail:literal) => {
        concat!("/customers/{customer_id}/cloudspaces/{cloudspace_id}/vms/{vm_id}", $tail)
    };
}
pub(super) use rows;

const OPERATIONS: &[Operation] = &[
    operation!(Me, "getCurrentUserInfo", "GET", "/me", &[]),
    operation!(OsNames, "getOSNames", "GET", "/customers/vm-images/os-names", &[]),
    operation!(OsTypes, "getOSTypes", "GET", "/customers/vm-images/os-types", &[]),
    operation!(
        Locations,
        "listCustomerLocations",
        "GET",
        "/customers/{customer_id}/locations",
        &[]
    ),
    operation!(
        Location,
        "getCustomerLocation",
        "GET",
        "/customers/{customer_id}/locations/{location}",
        &[]
    ),
    operation!(
        Capacity,
        "getCustomerLocationCapacity",
        "GET",
        "/customers/{customer_id}/locations/{location}/capacity",
        &[]
    ),
    operation!(
        Images,
        "listCustomerImages",
        "GET",
        "/customers/{customer_id}/locations/{location}/vm-images",
        LOGO
    ),
    operation!(
        CreateImage,
        "createCustomerImage",
        "POST",
        "/customers/{customer_id}/locations/{location}/vm-images",
        image_params!(must("url", Type::Text))
    ),
    operation!(
        Image,
        "getImage",
        "GET",
        "/customers/{customer_id}/locations/{location}/vm-images/{image_id}",
        LOGO
    ),
    operation!(
        DeleteImage,
        "deleteCustomerImage",
        "DELETE",
        "/customers/{customer_id}/locations/{location}/vm-images/{image_id}",
        &[may("permanently", Type::Boolean)]
    ),
    operation!(
        RestoreImage,
        "restoreCustomerImage",
        "PUT",
        "/customers/{customer_id}/locations/{location}/vm-images/{image_id}/restore",
        &[]
    ),
    operation!(
        StartUpload,
        "createVMImageMultipartUpload",
        "POST",
        "/customers/{customer_id}/locations/{location}/vm-images/upload-vm-image",
        &[must("file_name", Type::Text)]
    ),
    operation!(
        UploadPart,
        "UploadImagePart",
        "PUT",
        "/customers/{customer_id}/locations/{location}/vm-images/{upload_id}/upload-part/{part_id}",
        &[must("object_name", Type::Text)],
        Body::Bytes
    ),
    operation!(
        FinishUpload,
        "createCustomerImageFromFile",
        "POST",
        "/customers/{customer_id}/locations/{location}/vm-images/{upload_id}/finish-image-upload",
        image_params!(),
        Body::Object(&[
            must("object_name", Type::Text),
            must("uploaded_parts", Type::ListOf(PART))
        ])
    ),
    operation!(RecycleBin, "recycleBin", "GET", "/customers/{customer_id}/recycle-bin", &[]),
];

/// How images boot.
const BOOT_TYPES: &[&str] = &["bios", "uefi", "uefi-secure-boot"];

/// The families of operating systems.
pub(super) const OS_TYPES: &[&str] = &["Linux", "Windows", "Unix", "BSD", "Darwin", "Other"];

/// The operating systems that an image may name (vco-api.md 0.2: 47 values everywhere).
pub(super) const OS_NAMES: &[&str] = &[
    "Windows Server 2012",
    "Windows Server 2012 r2",
    "Windows Server 2016",
    "Windows Server 2016 r2",
    "Windows Server 2019",
    "Windows - other",
    "Ubuntu server 16.04",
    "Ubuntu server 18.04",
    "Ubuntu server 20.04",
    "Ubuntu 16.04",
    "Ubuntu 18.04",
    "Ubuntu 20.04",
    "Debian 5",
    "Debian 6",
    "Debian 7",
    "Debian 8",
    "Debian 9",
    "Debian 10",
    "Centos 7",
    "Centos 8",
    "RHEL 3",
    "RHEL 4",
    "RHEL 5",
    "RHEL 6",
    "RHEL 7",
    "RHEL 8",
    "Suse Linux Enterprise Server 9",
    "Suse Linux Enterprise Server 10",
    "Suse Linux Enterprise Server 11",
    "Suse Linux Enterprise Server 12",
    "Suse Linux Enterprise Server 15",
    "Openwrt 17",
    "Openwrt 18",
    "Openwrt 19",
    "Linux - other",
    "Unix - other",
    "other",
    "Other - other",
    "Free bsd 5",
    "Free bsd 6",
    "Free bsd 7",
    "Free bsd 11",
    "Free bsd 12",
    "Free bsd 13",
    "BSD - other",
    "Mac OS",
    "Darwin - other",
];

/// The family that an operating system's name belongs to.
pub(super) fn os_type_of(os_name: &str) -> &'static str {
    match os_name {
        "other" | "Other - other" => "Other",
        "Unix - other" => "Unix",
        "BSD - other" => "BSD",
        "Mac OS" | "Darwin - other" => "Darwin",
        name if name.starts_with("Windows") => "Windows",
        name if name.starts_with("Free bsd") => "BSD",
        _ => "Linux",
    }
}

/// The path parameters of `path` if it fits `template`, still percent-encoded.
fn fit<'a>(template: &'static str, path: &'a str) -> Option<Vec<(&'static str, &'a str)>> {
    let (mut names, mut values) = (template.split('/'), path.split('/'));
    let mut params = Vec::new();
    loop {
        match (names.next(), values.next()) {
            (None, None) => return Some(params),
            (Some(name), Some(value)) if name.starts_with('{') && !value.is_empty() => {
                params.push((name.trim_matches(['{', '}']), value));
            }
            (Some(name), Some(value)) if name == value => {}
            _ => return None,
        }
    }
}

/// An operation and its path parameters, as [`find`] found them.
pub(super) type Found<'a> = (&'static Operation, Vec<(&'static str, &'a str)>);

/// The operation of a method and a path below `/api/1`: a literal segment wins over a parameter.
/// The error is a sentence.
pub(super) fn find<'a>(method: &str, path: &'a str) -> Result<Found<'a>, &'static str> {
    let fits = all().filter_map(|o| Some((o, fit(o.path, path)?)));
    let mut fits: Vec<_> = fits.collect();
    fits.sort_by_key(|(_, params)| params.len());
    let Some(best) = fits.first().map(|(o, _)| o.path) else {
        return Err("undeclared path");
    };
    let mut same_path = fits.into_iter().filter(|(o, _)| o.path == best);
    same_path.find(|(o, _)| o.method == method).ok_or("undeclared method")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_is_found_by_its_own_path() {
        for operation in all() {
            let path = operation.path.replace(['{', '}'], "");
            let (found, params) = find(operation.method, &path).unwrap();
            assert_eq!(found.id, operation.id);
            assert_eq!(params.len(), operation.path.matches('{').count());
        }
    }

    #[test]
    fn paths_and_methods_that_nobody_declared_are_told_apart() {
        let images = "/customers/c/locations/l/vm-images";
        for (method, path, want) in [
            ("GET", "/you", Err("undeclared path")),
            ("GET", "/customers/c/locations//vm-images", Err("undeclared path")),
            ("POST", "/me", Err("undeclared method")),
            ("GET", &format!("{images}/7"), Ok("getImage")),
            ("GET", &format!("{images}/upload-vm-image"), Err("undeclared method")),
            ("POST", &format!("{images}/upload-vm-image"), Ok("createVMImageMultipartUpload")),
            ("PUT", &format!("{images}/7/restore"), Ok("restoreCustomerImage")),
        ] {
            assert_eq!(find(method, path).map(|(o, _)| o.id), want, "{method} {path}");
        }
    }

    #[test]
    fn every_operating_system_has_a_family() {
        assert_eq!(OS_NAMES.len(), 47);
        for (name, family) in
            [("Linux - other", "Linux"), ("Free bsd 13", "BSD"), ("Windows - other", "Windows")]
        {
            assert_eq!(os_type_of(name), family);
        }
        assert!(OS_NAMES.iter().all(|name| OS_TYPES.contains(&os_type_of(name))));
    }
}
