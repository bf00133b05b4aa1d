//! VM images of a location: list, read, create from a URL, delete, restore.

use serde_json::Value;

use super::call::{Call, Method, Reply};
use super::customer::Customer;
use super::error::Error;
use super::wire;
use crate::id::{ImageId, Location};

/// An image as the cloud describes it; lists leave more out than details do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Image {
    /// Its id, unique only together with the location.
    pub id: Option<ImageId>,
    /// Its name; nothing says that it is unique.
    pub name: Option<String>,
    /// `CREATED` is the usable one (vco-api.md 3.2, G8D).
    pub status: Option<String>,
    /// Free text, set at creation and never changed.
    pub tags: Option<String>,
    /// Whether it belongs to the cloud rather than to the customer; only lists say so.
    pub public: Option<bool>,
    /// Its size; the unit is not declared.
    pub size: Option<u64>,
    /// The smallest boot disk of a VM made from it, in GiB (by analogy, vco-api.md 3.2).
    pub boot_disk_size: Option<u64>,
    /// The least memory of a VM made from it, in MiB (by analogy, vco-api.md 3.2).
    pub memory: Option<u64>,
    /// Linux, Windows, Unix, BSD, Darwin or Other.
    pub os_type: Option<String>,
    /// A value of the cloud's own list; only details hold it.
    pub os_name: Option<String>,
    /// bios, uefi or uefi-secure-boot; only details hold it.
    pub boot_type: Option<String>,
    /// Cannot be set through the API.
    pub description: Option<String>,
}

impl Image {
    /// Reads an image out of a list, a detail or the recycle bin (where it is `image_name`).
    #[must_use]
    pub fn read(row: &Value) -> Self {
        let text = |key| wire::text(row, key);
        Self {
            id: wire::id(row, "image_id").or_else(|| wire::id(row, "id")).map(ImageId),
            name: text("name").or_else(|| text("image_name")),
            status: text("status"),
            tags: text("tags"),
            public: wire::flag(row, "public"),
            size: wire::amount(row, "size"),
            boot_disk_size: wire::amount(row, "boot_disk_size"),
            memory: wire::amount(row, "memory"),
            os_type: text("os_type"),
            os_name: text("os_name"),
            boot_type: text("boot_type"),
            description: text("description"),
        }
    }
}

/// An image to be made. What a VM may change while it runs (`add_memory` and the like) is left
/// at the cloud's defaults.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewImage {
    /// Its name.
    pub name: String,
    /// The least memory of a VM made from it, in MiB.
    pub memory_mib: u64,
    /// The smallest boot disk of a VM made from it, in GiB.
    pub boot_disk_gib: u64,
    /// Linux, Windows, Unix, BSD, Darwin or Other.
    pub os_type: String,
    /// A value of the cloud's own list, such as `Linux - other`.
    pub os_name: String,
    /// bios, uefi or uefi-secure-boot.
    pub boot_type: String,
    /// Free text: the only place for marks and digests (vco-api.md 3.2).
    pub tags: Option<String>,
    /// The only checksum the cloud takes, and it never gives it back (vco-api.md 3.2).
    pub md5_sum: Option<String>,
}

impl NewImage {
    /// Adds the parameters that creating from a URL and from an upload have in common.
    pub(super) fn parameters<'a>(&self, call: Call<'a>) -> Call<'a> {
        let Self { name, memory_mib, boot_disk_gib, os_type, os_name, boot_type, tags, md5_sum } =
            self;
        let mut call = call
            .with("name", name)
            .with("memory", memory_mib)
            .with("boot_disk_size", boot_disk_gib)
            .with("os_type", os_type)
            .with("os_name", os_name)
            .with("boot_type", boot_type);
        call.query = call.query.with_some("tags", tags.as_ref());
        call.query = call.query.with_some("md5_sum", md5_sum.as_ref());
        call
    }
}

impl Customer {
    /// The customer's and the public images of a location, deleted ones left out.
    pub async fn images(&self, at: &Location) -> Result<Vec<Image>, Error> {
        let reply = self.send(self.read_at(at, "list images", &["vm-images"])).await?;
        Ok(reply.rows("images")?.into_iter().map(Image::read).collect())
    }

    /// One image in detail; `None` if the API says that there is no such image.
    pub async fn image(&self, at: &Location, id: ImageId) -> Result<Option<Image>, Error> {
        let call = self.read_at(at, "read the image", &["vm-images", &id.to_string()]);
        match self.send(call.about(format!("location {at}, image {id}"))).await {
            Ok(reply) if reply.json.is_object() => Ok(Some(Image::read(&reply.json))),
            Ok(reply) => Err(reply.garbled("it is no object")),
            Err(error) if error.status() == Some(404) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Starts the import of an image from a URL. The reply may hold the id, or nothing
    /// (vco-api.md 3.1): then the image is to be found in the list.
    pub async fn create_image(
        &self,
        at: &Location,
        spec: &NewImage,
        url: &str,
    ) -> Result<Option<ImageId>, Error> {
        let call = self.change_at(Method::Post, at, "create the image", &["vm-images"]);
        let call = spec.parameters(call).with("url", url);
        let reply = self.send(call.about(format!("location {at}, image {}", spec.name))).await?;
        Ok(wire::created_id(&reply.body, "image_id").map(ImageId))
    }

    /// Deletes an image for good; one that is not there counts as deleted.
    ///
    /// # Errors
    /// By the back-end's words (vco-api.md 3.2, G8S): 403 before it is `CREATED`, 405 for a
    /// public one, 409 while a VM uses it.
    pub async fn delete_image(&self, at: &Location, id: ImageId) -> Result<(), Error> {
        let path = ["vm-images", &id.to_string()];
        let call = self
            .change_at(Method::Delete, at, "delete the image", &path)
            .about(format!("location {at}, image {id}"))
            .with("permanently", true);
        match self.send(call).await {
            Err(error) if error.status() != Some(404) => Err(error),
            _ => Ok(()),
        }
    }

    /// Takes an image out of the recycle bin.
    pub async fn restore_image(&self, at: &Location, id: ImageId) -> Result<(), Error> {
        let path = ["vm-images", &id.to_string(), "restore"];
        let call = self.change_at(Method::Put, at, "restore the image", &path);
        self.send(call.about(format!("location {at}, image {id}"))).await.map(|_| ())
    }

    /// The images that lie in the recycle bin, of all locations: one document, so one call.
    pub async fn deleted_images(&self) -> Result<DeletedImages, Error> {
        self.send(self.read("list deleted images", &["recycle-bin"])).await.map(DeletedImages)
    }

    /// The values that `os_name` may have, by `os_type`.
    pub async fn os_names(&self) -> Result<Vec<(String, Vec<String>)>, Error> {
        let call = Call::read("list OS names", &["customers", "vm-images", "os-names"]);
        let reply = self.send(call).await?;
        Ok(reply.rows("os_names")?.into_iter().filter_map(read_os_names).collect())
    }
}

/// The recycle bin's images, which some locations may have failed to report.
#[derive(Debug)]
pub struct DeletedImages(Reply);

impl DeletedImages {
    /// The binned images of one location.
    ///
    /// # Errors
    /// [`Incomplete`](super::Kind::Incomplete) if the bin does not vouch for that location.
    pub fn at(&self, at: &Location) -> Result<Vec<Image>, Error> {
        self.0.vouched(at)?;
        let images = wire::rows(&self.0.json["result"]["images"], "images").unwrap_or_default();
        let here = |row: &&Value| wire::text(row, "location").as_deref() == Some(at.as_str());
        Ok(images.into_iter().filter(here).map(Image::read).collect())
    }
}

fn read_os_names(row: &Value) -> Option<(String, Vec<String>)> {
    let names = row.get("os_names").and_then(Value::as_array);
    let names = names.into_iter().flatten().filter_map(|name| name.as_str().map(str::to_owned));
    Some((wire::text(row, "os_type")?, names.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_image_is_read_whatever_its_fields_are() {
        let full = Image::read(&json!({
            "image_id": "7", "name": "k8s", "status": "CREATED", "tags": ["a", "b"], "public": "false",
            "size": 2.5, "boot_disk_size": "10", "memory": 2048.0, "os_type": "Linux",
            "os_name": "Linux - other", "boot_type": "uefi", "description": null, "more": {}}));
        assert_eq!(full.id, Some(ImageId(7)));
        assert_eq!(full.tags.as_deref(), Some("a,b"));
        assert_eq!((full.public, full.size), (Some(false), Some(2)));
        assert_eq!((full.boot_disk_size, full.memory), (Some(10), Some(2048)));
        assert_eq!(Image::read(&json!({"image_name": "x"})).name.as_deref(), Some("x"));
        for empty in [json!({}), json!(null), json!([1]), json!("x")] {
            assert_eq!(Image::read(&empty), Image::default());
        }
    }

    #[test]
    fn a_new_image_becomes_the_declared_parameters() {
        let mut spec = NewImage {
            name: "k8s v1".to_owned(),
            memory_mib: 2048,
            boot_disk_gib: 10,
            os_type: "Linux".to_owned(),
            os_name: "Linux - other".to_owned(),
            boot_type: "uefi".to_owned(),
            tags: None,
            md5_sum: None,
        };
        let encoded = |spec: &NewImage| spec.parameters(Call::read("x", &[])).query.encoded();
        let plain = "name=k8s%20v1&memory=2048&boot_disk_size=10&os_type=Linux\
                     &os_name=Linux%20-%20other&boot_type=uefi";
        assert_eq!(encoded(&spec), plain);
        spec.tags = Some("a;b".to_owned());
        spec.md5_sum = Some("00ff".to_owned());
        assert_eq!(encoded(&spec), format!("{plain}&tags=a%3Bb&md5_sum=00ff"));
    }

    #[test]
    fn os_names_are_read() {
        let row = json!({"os_type": "Linux", "os_names": ["a", null, "b"]});
        let names = vec!["a".to_owned(), "b".to_owned()];
        assert_eq!(read_os_names(&row), Some(("Linux".to_owned(), names)));
        assert_eq!(read_os_names(&json!({"os_names": ["a"]})), None);
    }
}
