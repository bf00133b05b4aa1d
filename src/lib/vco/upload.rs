//! The multipart upload of an image: start, parts, finish (vco-api.md 3.1).

use serde_json::json;

use super::call::{Body, Method};
use super::customer::Customer;
use super::error::Error;
use super::image::NewImage;
use super::part::FilePart;
use super::wire;
use crate::id::{ImageId, Location};

/// An upload under way. Nothing is known of how long it lives (vco-api.md 13.3 no. 4), and
/// there is no call to abort one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upload {
    /// The cloud's name for it.
    pub upload_id: String,
    /// The object that the parts become.
    pub object_name: String,
    /// How long each part but the last is to be, in bytes; never 0.
    pub part_size: u64,
}

impl Customer {
    /// Starts an upload. Repeating it does no harm: an upload that is never finished makes no
    /// image.
    pub async fn start_upload(&self, at: &Location, file_name: &str) -> Result<Upload, Error> {
        let path = ["vm-images", "upload-vm-image"];
        let call = self
            .change_at(Method::Post, at, "start the upload", &path)
            .about(format!("location {at}, file {file_name}"))
            .with("file_name", file_name)
            .repeatable()
            .expect_json();
        let reply = self.send(call).await?;
        let text = |key| wire::text(&reply.json, key).filter(|text| !text.is_empty());
        let part_size = wire::amount(&reply.json, "part_size").filter(|size| *size > 0);
        match (text("upload_id"), text("object_name"), part_size) {
            (Some(upload_id), Some(object_name), Some(part_size)) => {
                Ok(Upload { upload_id, object_name, part_size })
            }
            _ => Err(reply.garbled("upload_id, object_name or part_size is missing")),
        }
    }

    /// Uploads a part, as a whole again where a try failed, and returns its `ETag`. `sent`
    /// hears how many of the part's bytes went out; it starts at 0 again with each try.
    ///
    /// Part numbers presumably start at 1, as in S3 (vco-api.md 3.2).
    ///
    /// # Errors
    /// Among others [`File`](super::Kind::File) if the file cannot be read or became shorter.
    pub async fn upload_part(
        &self,
        at: &Location,
        upload: &Upload,
        number: u32,
        part: &FilePart,
        sent: &(dyn Fn(u64) + Send + Sync),
    ) -> Result<String, Error> {
        let number = number.to_string();
        let path = ["vm-images", &upload.upload_id, "upload-part", &number];
        let call = self
            .change_at(Method::Put, at, "upload the part", &path)
            .about(format!("location {at}, file {}, part {number}", part.path.display()))
            .with("object_name", &upload.object_name)
            .repeatable()
            .body(Body::Part(part, sent));
        let reply = self.send(call).await?;
        wire::etag(reply.etag.as_deref(), &reply.body)
            .ok_or_else(|| reply.garbled("it holds no ETag, neither in the header nor in the body"))
    }

    /// Makes an image of the uploaded parts. The reply may hold its id, or nothing.
    pub async fn finish_upload(
        &self,
        at: &Location,
        upload: &Upload,
        spec: &NewImage,
        parts: &[(u32, String)],
    ) -> Result<Option<ImageId>, Error> {
        let path = ["vm-images", &upload.upload_id, "finish-image-upload"];
        let parts: Vec<_> = parts
            .iter()
            .map(|(number, etag)| json!({"part_number": number, "etag": etag}))
            .collect();
        let document = json!({"object_name": upload.object_name, "uploaded_parts": parts});
        let call = self.change_at(Method::Post, at, "create the image from the upload", &path);
        let call = spec
            .parameters(call)
            .about(format!("location {at}, image {}", spec.name))
            .body(Body::Json(document));
        let reply = self.send(call).await?;
        Ok(wire::created_id(&reply.body, "image_id").map(ImageId))
    }
}
