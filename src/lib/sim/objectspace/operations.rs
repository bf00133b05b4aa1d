//! The declared operations on objectspaces, buckets and their keys: one row each, in the
//! vendor's words.

use super::super::operations::{Body, Op as Any, Operation, Param, Type, may, must};

/// An operation on objectspaces and what is in them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::sim) enum Op {
    List,
    Create,
    Read,
    Delete,
    Restore,
    Reset,
    Notes,
    AddNote,
    ChangeNote,
    DeleteNote,
    Links,
    Link,
    Unlink,
    Buckets,
    Bucket,
    CreateBucket,
    DeleteBucket,
    RestoreBucket,
    LimitBucket,
    ResetLimit,
    Keys,
    CreateKey,
    ChangeKey,
    DeleteKey,
    Rules,
    AddRule,
    DeleteRule,
    Uploads,
    CancelUpload,
}

const DELETED: &[Param] =
    &[may("include_deleted", Type::Boolean), may("only_deleted", Type::Boolean)];
const PERMANENTLY: &[Param] = &[may("permanently", Type::Boolean)];
const OBJECTSPACE: &[Param] = &[must("objectspace_id", Type::Text)];
const ACCESS: Param = must("access_type", Type::OneOf(&["r", "w", "rw"]));
const NOTE: Body = Body::Object(&[must("title", Type::Text), must("content", Type::Text)]);
const RULE: Body = Body::Object(&[
    must("ID", Type::Text),
    must("Prefix", Type::Text),
    must("Status", Type::Text),
    must(
        "AbortIncompleteMultipartUpload",
        Type::Object(&[must("DaysAfterInitiation", Type::Integer)]),
    ),
]);
const PUBLISH: Body = Body::Maybe(&[
    must("domain", Type::Text),
    must(
        "cloudspace",
        Type::Object(&[
            may("cloudspace_id", Type::Text),
            may("subnet", Type::Text),
            may("external_network", Type::Integer),
            may("ip_address", Type::Text),
            may("metric", Type::Integer),
        ]),
    ),
    may("letsencrypt_email", Type::Text),
    may("letsencrypt", Type::Boolean),
]);

/// A row; `{C}` cannot be abbreviated, because faults and journal show the vendor's paths.
const fn row(
    op: Op,
    id: &'static str,
    method: &'static str,
    path: &'static str,
    query: &'static [Param],
    body: Body,
) -> Operation {
    let writes = !matches!(method.as_bytes(), b"GET");
    Operation { op: Any::Store(op), id, method, path, query, body, writes }
}

macro_rules! rows {
    ($($op:ident $id:literal $method:literal $base:ident $tail:literal, $query:expr, $body:expr;)*) => {
        &[$(row(Op::$op, $id, $method, rows!(@ $base $tail), $query, $body)),*]
    };
    (@ customer $tail:literal) => { concat!("/customers/{customer_id}", $tail) };
    (@ cloudspace $tail:literal) => {
        concat!("/customers/{customer_id}/cloudspaces/{cloudspace_id}/objectspaces", $tail)
    };
    (@ space $tail:literal) => {
        concat!("/customers/{customer_id}/objectspaces/{objectspace_id}", $tail)
    };
    (@ bucket $tail:literal) => {
        concat!(
            "/customers/{customer_id}/objectspaces/{objectspace_id}/buckets/{bucket_id}", $tail
        )
    };
}

/// All of them.
#[rustfmt::skip]
pub(in crate::sim) const OPERATIONS: &[Operation] = rows! {
    List "listObjectspaces" "GET" customer "/objectspaces", DELETED, Body::Nothing;
    Create "createObjectspace" "POST" customer "/objectspaces",
        &[must("name", Type::Text), must("location", Type::Text)], PUBLISH;
    Read "getObjectspace" "GET" space "", &[], Body::Nothing;
    Delete "deleteObjectspace" "DELETE" space "", PERMANENTLY, Body::Nothing;
    Restore "restoreObjectspace" "PUT" space "/restore", &[], Body::Nothing;
    Reset "resetObjectspace" "PUT" space "/reset", &[], Body::Nothing;
    Notes "getObjectspaceNotes" "GET" space "/notes", &[], Body::Nothing;
    AddNote "createObjectspaceNote" "POST" space "/notes", &[], NOTE;
    ChangeNote "upateObjectspaceNote" "PUT" space "/notes/{note_id}", &[], NOTE;
    DeleteNote "deleteObjectspaceNote" "DELETE" space "/notes/{note_id}", &[], Body::Nothing;
    Links "listCloudspaceObjectspaces" "GET" cloudspace "", DELETED, Body::Nothing;
    Link "connectObjectspace" "POST" cloudspace "", OBJECTSPACE, Body::Nothing;
    Unlink "disconnectObjectspace" "DELETE" cloudspace "", OBJECTSPACE, Body::Nothing;
    Buckets "listBuckets" "GET" space "/buckets", DELETED, Body::Nothing;
    Bucket "getBucket" "GET" bucket "", &[], Body::Nothing;
    CreateBucket "createBucket" "POST" bucket "",
        &[may("limit", Type::Integer), may("enable_locking", Type::Boolean)], Body::Nothing;
    DeleteBucket "deleteBucket" "DELETE" bucket "", PERMANENTLY, Body::Nothing;
    RestoreBucket "restoreBucket" "PUT" space "/{bucket_id}/restore", &[], Body::Nothing;
    LimitBucket "setBucketLimit" "PUT" space "/{bucket_id}/bucket-limit",
        &[must("limit", Type::Integer)], Body::Nothing;
    ResetLimit "resetBucketLimit" "PUT" space "/{bucket_id}/reset-limit", &[], Body::Nothing;
    Keys "listBucketAccess" "GET" bucket "/access-management", &[], Body::Nothing;
    CreateKey "CreateBucketAccess" "POST" bucket "/access-management",
        &[must("access_name", Type::Text), ACCESS], Body::Nothing;
    ChangeKey "UpdateBucketAccess" "PUT" bucket "/access-management/{access_name}",
        &[ACCESS], Body::Nothing;
    DeleteKey "DeleteBucketAccess" "DELETE" bucket "/access-management/{access_name}",
        &[], Body::Nothing;
    Rules "listBucketLifeCycleRules" "GET" bucket "/lifecycle-rules", &[], Body::Nothing;
    AddRule "addMultipartAbortionRule" "POST" bucket
        "/lifecycle-rules/delete-incomplete-multipart-uploads", &[], RULE;
    DeleteRule "deleteLifeCycleRule" "DELETE" bucket "/lifecycle-rules/{rule_id}",
        &[], Body::Nothing;
    Uploads "listMultipartUploads" "GET" bucket "/multipart-uploads", &[], Body::Nothing;
    CancelUpload "cancelMultipartUpload" "DELETE" bucket
        "/multipart-uploads/{key}/{upload_id}", &[], Body::Nothing;
};
