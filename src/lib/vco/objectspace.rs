//! Objectspaces: S3 stores of a customer, each in one location.
//!
//! The root keys are asked for by calls of their own; all others name the fields they want, so
//! that no secret is sent that nobody needs.

use secrecy::SecretString;
use serde_json::{Value, json};

use super::call::{Body, Call, Method};
use super::cloudspace::location_in;
use super::customer::Customer;
use super::error::Error;
use super::wire;
use crate::fault::{Class, Fault as _};
use crate::id::{CloudspaceId, Location, ObjectspaceId};

/// What of an objectspace is read: all but its root keys.
const FIELDS: &str = "objectspace_id,objectspace_name,status,location,domain,creation_time,\
    cloudspaces{name,cloudspace_id,ip_address,external_ip_address,status,mode}";

/// An objectspace; lists leave `domain` and `creation_time` out.
#[derive(Debug, Clone, PartialEq)]
pub struct Objectspace {
    /// Its id.
    pub id: ObjectspaceId,
    /// Its name; nothing says that it is unique.
    pub name: Option<String>,
    /// Values are not listed; `DEPLOYED` by the back-end's pattern (vco-api.md 10.1, inference).
    pub status: Option<String>,
    /// Where it is.
    pub location: Option<String>,
    /// The public name under which it is published, if it is.
    pub domain: Option<String>,
    /// When it was made, in seconds since 1970; the form is not declared (vco-api.md 12.3).
    pub created: Option<f64>,
    /// The cloudspaces from which it can be reached.
    pub links: Vec<Link>,
}

/// A cloudspace from which an objectspace can be reached.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Link {
    /// The cloudspace.
    pub cloudspace: Option<CloudspaceId>,
    /// Its name.
    pub name: Option<String>,
    /// Where S3 is inside the cloudspace, over plain HTTP (vco-api.md 10.1, WEB); port unknown.
    pub ip_address: Option<String>,
    /// The cloudspace's own address outside.
    pub external_ip_address: Option<String>,
    /// The cloudspace's state.
    pub status: Option<String>,
}

impl Objectspace {
    /// Reads a row of a list, or a detail; `None` without a usable id.
    #[must_use]
    pub fn read(row: &Value) -> Option<Self> {
        let text = |key| wire::text(row, key).filter(|text| !text.is_empty());
        let links = wire::rows(&row["cloudspaces"], "cloudspaces").unwrap_or_default();
        Some(Self {
            id: text("objectspace_id")?.parse().ok()?,
            name: text("objectspace_name"),
            status: text("status"),
            location: text("location"),
            domain: text("domain"),
            created: wire::time(row, "creation_time"),
            links: links.into_iter().map(Link::read).collect(),
        })
    }
}

impl Link {
    fn read(row: &Value) -> Self {
        let text = |key| wire::text(row, key).filter(|text| !text.is_empty());
        Self {
            cloudspace: text("cloudspace_id").and_then(|id| id.parse().ok()),
            name: text("name"),
            ip_address: text("ip_address"),
            external_ip_address: text("external_ip_address"),
            status: text("status"),
        }
    }
}

/// An objectspace to be made. There is no text field: a mark goes into its name, and a note
/// repeats it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewObjectspace {
    /// Its name.
    pub name: String,
    /// Where.
    pub location: Location,
    /// Whether and how it is reachable from outside.
    pub publish: Option<Publish>,
}

/// How an objectspace is published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Publish {
    /// The public name.
    pub domain: String,
    /// The cloudspace through which it is reached.
    pub through: Through,
    /// Where Let's Encrypt writes to; with it a certificate is asked for.
    pub letsencrypt_email: Option<String>,
}

/// The cloudspace that publishes an objectspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Through {
    /// One that is there.
    Cloudspace(CloudspaceId),
    /// One that is made for it.
    New {
        /// Its private network, such as `192.168.104.0/24`.
        subnet: String,
        /// The external network it is connected to.
        external_network: u64,
    },
}

impl Publish {
    fn document(&self) -> Value {
        let cloudspace = match &self.through {
            Through::Cloudspace(id) => json!({"cloudspace_id": id}),
            Through::New { subnet, external_network } => {
                json!({"subnet": subnet, "external_network": external_network})
            }
        };
        let mut document = json!({"domain": self.domain, "cloudspace": cloudspace});
        if let Some(email) = &self.letsencrypt_email {
            document["letsencrypt"] = true.into();
            document["letsencrypt_email"] = email.as_str().into();
        }
        document
    }
}

/// The keys to everything in an objectspace.
#[derive(Debug, Clone)]
pub struct RootKeys {
    /// The key id.
    pub access_key: String,
    /// The secret; never shown.
    pub secret: SecretString,
}

impl RootKeys {
    /// The secret's field is `secret` in details and `secret_key` after a reset.
    fn read(reply: &Value) -> Option<Self> {
        let text = |key| wire::text(reply, key).filter(|text| !text.is_empty());
        let secret = text("secret").or_else(|| text("secret_key"))?;
        Some(Self { access_key: text("access_key")?, secret: secret.into() })
    }
}

impl Customer {
    /// The objectspaces of a location, deleted ones left out.
    ///
    /// # Errors
    /// [`Incomplete`](super::Kind::Incomplete) if the list does not vouch for that location.
    pub async fn objectspaces(&self, at: &Location) -> Result<Vec<Objectspace>, Error> {
        self.list_objectspaces(at, false).await
    }

    /// The objectspaces of a location that lie in the recycle bin.
    ///
    /// # Errors
    /// [`Incomplete`](super::Kind::Incomplete) if the list does not vouch for that location.
    pub async fn deleted_objectspaces(&self, at: &Location) -> Result<Vec<Objectspace>, Error> {
        self.list_objectspaces(at, true).await
    }

    async fn list_objectspaces(
        &self,
        at: &Location,
        deleted: bool,
    ) -> Result<Vec<Objectspace>, Error> {
        let mut call = self.read("list objectspaces", &["objectspaces"]).at(at);
        if deleted {
            call = call.with("only_deleted", true);
        }
        let reply = self.send(call.about(format!("location {at}"))).await?;
        reply.vouched(at)?;
        let elsewhere = |row: &Value| wire::text(row, "location").is_some_and(|l| l != at.as_str());
        reply
            .rows("objectspaces")?
            .into_iter()
            .filter(|row| !elsewhere(row))
            // A row left out would be an objectspace that is made a second time.
            .map(|row| Objectspace::read(row).ok_or_else(|| reply.garbled("a row has no id")))
            .collect()
    }

    /// One objectspace, without its keys; `None` if the API says that there is no such one.
    pub async fn objectspace(&self, id: &ObjectspaceId) -> Result<Option<Objectspace>, Error> {
        let call = self.read_objectspace(id, "read the objectspace", &[]).mask(FIELDS);
        match self.send(call).await {
            Ok(reply) => Objectspace::read(&reply.json)
                .map(Some)
                .ok_or_else(|| reply.garbled("it holds no objectspace")),
            Err(error) if error.status() == Some(404) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The root keys of an objectspace, which the API gives away at any time.
    pub async fn root_keys(&self, id: &ObjectspaceId) -> Result<RootKeys, Error> {
        let call = self.read_objectspace(id, "read the objectspace's keys", &[]);
        let reply = self.send(call.mask("access_key,secret")).await?;
        RootKeys::read(&reply.json).ok_or_else(|| reply.garbled("it holds no keys"))
    }

    /// Makes new root keys. Whatever uses the old ones stops working at once (vco-api.md 10.1),
    /// so it may not be repeated; after a lost reply [`Customer::root_keys`] has the new ones.
    pub async fn reset_root_keys(&self, id: &ObjectspaceId) -> Result<RootKeys, Error> {
        let operation = "reset the objectspace's keys";
        let call = self.change_objectspace(Method::Put, id, operation, &["reset"]);
        let reply = self.send(call.expect_json()).await?;
        RootKeys::read(&reply.json).ok_or_else(|| reply.garbled("it holds no keys"))
    }

    /// Makes an objectspace. It may not be repeated: nothing says that names are unique. The
    /// reply should hold its id; where it is lost, or holds none, the name in
    /// [`Customer::objectspaces`] tells ([`Customer::create_surely`]).
    pub async fn create_objectspace(
        &self,
        new: &NewObjectspace,
    ) -> Result<Option<ObjectspaceId>, Error> {
        let NewObjectspace { name, location, publish } = new;
        let path = self.below(&["objectspaces"]);
        let mut call = Call::change(Method::Post, "create the objectspace", &path)
            .at(location)
            .about(format!("location {location}, objectspace {name}"))
            .with("name", name)
            .with("location", location);
        if let Some(publish) = publish {
            call = call.body(Body::Json(publish.document()));
        }
        let reply = self.send(call).await?;
        let id =
            wire::text(&reply.json, "objectspace_id").or_else(|| wire::text(&reply.json, "id"));
        Ok(id.and_then(|id| id.parse().ok()))
    }

    /// Deletes an objectspace for good, with all that is in it; one that is not there counts as
    /// deleted. It may be repeated. Locked data may make the cloud refuse (vco-api.md 10.2).
    pub async fn delete_objectspace(&self, id: &ObjectspaceId) -> Result<(), Error> {
        let operation = "delete the objectspace";
        let call = self.change_objectspace(Method::Delete, id, operation, &[]);
        self.send_delete(call.with("permanently", true)).await
    }

    /// Puts an objectspace into the recycle bin. It may be repeated.
    pub async fn bin_objectspace(&self, id: &ObjectspaceId) -> Result<(), Error> {
        let operation = "put the objectspace into the recycle bin";
        self.send_delete(self.change_objectspace(Method::Delete, id, operation, &[])).await
    }

    /// Takes an objectspace out of the recycle bin. It is not repeated: a second time the cloud
    /// may refuse what the first did (vco-api.md 4.1, G8S, on cloudspaces).
    pub async fn restore_objectspace(&self, id: &ObjectspaceId) -> Result<(), Error> {
        let operation = "restore the objectspace";
        let call = self.change_objectspace(Method::Put, id, operation, &["restore"]);
        self.send(call).await.map(|_| ())
    }

    /// A call that reads below an objectspace.
    pub(super) fn read_objectspace<'a>(
        &self,
        id: &ObjectspaceId,
        operation: &'static str,
        path: &[&str],
    ) -> Call<'a> {
        let path = [&["objectspaces", id.as_str()], path].concat();
        located(self.read(operation, &path), id)
    }

    /// A call that changes something there.
    pub(super) fn change_objectspace<'a>(
        &self,
        method: Method,
        id: &ObjectspaceId,
        operation: &'static str,
        path: &[&str],
    ) -> Call<'a> {
        let path = [&["objectspaces", id.as_str()], path].concat();
        located(Call::change(method, operation, &self.below(&path)), id)
    }

    /// Deletes; what is not there counts as deleted.
    pub(super) async fn send_delete(&self, call: Call<'_>) -> Result<(), Error> {
        match self.send(call).await {
            Err(error) if error.class() != Class::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// Counted against the location, if the id tells it as a cloudspace's does (inference).
fn located<'a>(mut call: Call<'a>, id: &ObjectspaceId) -> Call<'a> {
    call.at = location_in(id.as_str());
    call.about(format!("objectspace {id}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_objectspace_needs_an_id_only() {
        let row = json!({
            "objectspace_id": 7, "objectspace_name": null, "status": "DEPLOYED", "domain": "",
            "creation_time": "1790000000", "more": [],
            "cloudspaces": [{"cloudspace_id": "YmU6MQ", "ip_address": "10.0.0.9"}, null],
        });
        let read = Objectspace::read(&row).unwrap();
        assert_eq!((read.id.as_str(), read.name, read.domain), ("7", None, None));
        assert_eq!((read.created, read.links.len()), (Some(1_790_000_000.0), 1));
        assert_eq!(read.links[0].ip_address.as_deref(), Some("10.0.0.9"));
        for odd in [json!({}), json!({"objectspace_id": null}), json!({"objectspace_id": ".."})] {
            assert_eq!(Objectspace::read(&odd), None, "{odd}");
        }
        let nulls = json!({"objectspace_id": "a", "cloudspaces": null, "creation_time": "soon"});
        assert!(Objectspace::read(&nulls).unwrap().links.is_empty());
    }

    #[test]
    fn keys_are_read_and_never_shown() {
        for reply in [
            json!({"access_key": "AK", "secret": "hunter2"}),
            json!({"access_key": "AK", "secret_key": "hunter2"}),
        ] {
            let keys = RootKeys::read(&reply).unwrap();
            assert_eq!(keys.access_key, "AK");
            assert!(!format!("{keys:?}").contains("hunter2"));
        }
        assert!(RootKeys::read(&json!({"access_key": "AK", "secret": null})).is_none());
    }

    #[test]
    fn what_is_published_is_written_in_the_clouds_words() {
        let publish = |through, email: Option<&str>| Publish {
            domain: "s3.example.com".into(),
            through,
            letsencrypt_email: email.map(Into::into),
        };
        let there = publish(Through::Cloudspace("YmU6MQ".parse().unwrap()), None);
        assert_eq!(
            there.document(),
            json!({"domain": "s3.example.com", "cloudspace": {"cloudspace_id": "YmU6MQ"}})
        );
        let subnet = "192.168.104.0/24".to_owned();
        let new = publish(Through::New { subnet, external_network: 5 }, Some("a@example.com"));
        assert_eq!(
            new.document(),
            json!({
                "domain": "s3.example.com", "letsencrypt": true,
                "letsencrypt_email": "a@example.com",
                "cloudspace": {"subnet": "192.168.104.0/24", "external_network": 5},
            })
        );
    }
}
