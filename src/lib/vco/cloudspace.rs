//! Cloudspaces: a customer's networks, each in one location; and what a new one can be made of.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::address;
use super::call::{Body, Call, Method};
use super::customer::Customer;
use super::error::{Error, Kind};
use super::wire;
use crate::fault::{Class, Fault as _};
use crate::id::{CloudspaceId, Location};

/// A cloudspace; lists leave `external_network_id` out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cloudspace {
    /// Its id.
    pub id: CloudspaceId,
    /// Its name.
    pub name: Option<String>,
    /// `DEPLOYED` is the usable one (vco-api.md 4.1, G8D).
    pub status: Option<String>,
    /// Where it is.
    pub location: Option<Location>,
    /// Its address outside, without prefix length.
    pub external_ip: Option<String>,
    /// The external network that its firewall is connected to.
    pub external_network_id: Option<u64>,
    /// Its network inside, such as `192.168.103.0/24`; it never changes (vco-api.md 4.1, TF).
    pub private_network: Option<String>,
}

impl Cloudspace {
    /// Reads a row of a list, or a detail; `None` without a usable id.
    #[must_use]
    pub fn read(row: &Value) -> Option<Self> {
        let text = |key| wire::text(row, key).filter(|text| !text.is_empty());
        Some(Self {
            id: text("cloudspace_id")?.parse().ok()?,
            name: text("name"),
            status: text("status"),
            location: text("location").and_then(|location| location.parse().ok()),
            external_ip: address::field(row, "external_network_ip"),
            external_network_id: wire::id(row, "external_network_id"),
            private_network: text("private_network"),
        })
    }
}

/// A cloudspace to be made, behind the cloud's own firewall. Quotas are left at no limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewCloudspace {
    /// Its name: unique in the customer, deleted ones in the bin included (vco-api.md 4.1, G8D).
    pub name: String,
    /// Where.
    pub location: Location,
    /// Its network inside in CIDR form; `192.168.103.0/24` unless said.
    pub private_network: Option<String>,
    /// The domain that its guests are told.
    pub local_domain: Option<String>,
    /// The external network to connect its firewall to; the cloud chooses unless said.
    pub external_network_id: Option<u64>,
}

impl NewCloudspace {
    fn document(&self) -> Value {
        let Self { name, location, private_network, local_domain, external_network_id } = self;
        let mut document =
            json!({"name": name, "location": location, "firewall": {"private": false}});
        if let Some(id) = external_network_id {
            document["firewall"]["external_network_id"] = (*id).into();
        }
        if let Some(network) = private_network {
            document["private_network"] = network.as_str().into();
        }
        if let Some(domain) = local_domain {
            document["local_domain"] = domain.as_str().into();
        }
        document
    }
}

/// A network outside that a location offers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExternalNetwork {
    /// Its id, unique only together with the location.
    pub id: Option<u64>,
    /// Its name.
    pub name: Option<String>,
    /// Its network, such as `185.1.2.0/24`; the form is not declared.
    pub network: Option<String>,
    /// Whether it faces the internet.
    pub public: Option<bool>,
    /// Whether guests get their address by DHCP; else somebody must configure it inside.
    pub dhcp: Option<bool>,
}

impl ExternalNetwork {
    fn read(row: &Value) -> Self {
        Self {
            id: wire::id(row, "external_network_id"),
            name: wire::text(row, "name"),
            network: wire::text(row, "network"),
            public: wire::flag(row, "public"),
            dhcp: wire::flag(row, "dhcp"),
        }
    }
}

/// Whether a state says that the thing is deleted: in the recycle bin or for good. Such things
/// may still be shown (vco-api.md 13.4, TF).
pub(super) fn is_gone(status: Option<&str>) -> bool {
    let gone = ["DELETED", "DESTROYED", "TOBEDELETED", "TOBEDESTROYED"];
    status.is_some_and(|status| gone.iter().any(|word| status.eq_ignore_ascii_case(word)))
}

/// The location that is encoded in a cloudspace's id (vco-api.md 0.3, EX), to count a call
/// against the right limits; `None` if the id is of another form.
pub(super) fn location_of(id: &CloudspaceId) -> Option<Location> {
    location_in(id.as_str())
}

/// The same for any id of that form.
pub(super) fn location_in(id: &str) -> Option<Location> {
    let decoded = URL_SAFE_NO_PAD.decode(id.trim_end_matches('=')).ok()?;
    let (location, _) = std::str::from_utf8(&decoded).ok()?.rsplit_once(':')?;
    location.parse().ok()
}

/// A free subnet in CIDR form. They are /24s (vco-api.md 4.2); whether the reply says so is not
/// declared.
fn subnet(row: &Value) -> Option<String> {
    let text = wire::text(row, "ip_address").filter(|text| !text.is_empty())?;
    Some(if text.contains('/') { text } else { text + "/24" })
}

impl Customer {
    /// The cloudspaces of a location, disabled ones included, deleted ones not.
    ///
    /// # Errors
    /// [`Incomplete`](super::Kind::Incomplete) if the list does not vouch for that location.
    pub async fn cloudspaces(&self, at: &Location) -> Result<Vec<Cloudspace>, Error> {
        let call = self.read("list cloudspaces", &["cloudspaces"]);
        let call = call.at(at).about(format!("location {at}")).with("locations", at);
        let reply = self.send(call).await?;
        reply.vouched(at)?;
        let elsewhere = |row: &Value| wire::text(row, "location").is_some_and(|l| l != at.as_str());
        let gone = |row: &Value| is_gone(wire::text(row, "status").as_deref());
        reply
            .rows("cloudspaces")?
            .into_iter()
            .filter(|row| !elsewhere(row) && !gone(row))
            // A row left out would be a cloudspace that nobody looks into.
            .map(|row| Cloudspace::read(row).ok_or_else(|| reply.garbled("a row has no id")))
            .collect()
    }

    /// One cloudspace.
    ///
    /// # Errors
    /// Of [`Class::NotFound`] if there is no such one, or only a
    /// deleted one: it may still be shown, with its state (vco-api.md 13.4, TF).
    pub async fn cloudspace(&self, id: &CloudspaceId) -> Result<Cloudspace, Error> {
        let reply = match self.send(self.read_in(id, "read the cloudspace", &[])).await {
            Ok(reply) => reply,
            Err(error) => return Err(self.verified_space(id, error).await),
        };
        let space =
            Cloudspace::read(&reply.json).ok_or_else(|| reply.garbled("it holds no cloudspace"))?;
        if !is_gone(space.status.as_deref()) {
            return Ok(space);
        }
        let why = format!("its state is {}", space.status.unwrap_or_default());
        Err(Error::new(reply.operation, reply.target, Kind::Gone).with_message(why))
    }

    /// What a 400 about a cloudspace means: that it is gone, or what it says. Only a list that
    /// vouches for its location tells.
    async fn verified_space(&self, id: &CloudspaceId, error: Error) -> Error {
        if error.status() != Some(400) || error.class() != Class::Invalid {
            return error;
        }
        let Some(at) = location_of(id) else { return error };
        match self.cloudspaces(&at).await {
            Ok(all) if all.iter().all(|space| space.id != *id) => {
                let why = format!("the list of location {at} does not show it");
                Error::new(error.operation(), error.target(), Kind::Gone).with_message(why)
            }
            // It may be a refusal for the same reason; only what passes is worth waiting for.
            Err(listing) if listing.class().is_other_side() => listing,
            _ => error,
        }
    }

    /// Makes a cloudspace. It may not be repeated; after a lost reply its name, which is unique,
    /// tells in [`Customer::cloudspaces`]. It may not be `DEPLOYED` yet when this returns.
    pub async fn create_cloudspace(&self, new: &NewCloudspace) -> Result<CloudspaceId, Error> {
        let NewCloudspace { name, location, .. } = new;
        let path = self.below(&["cloudspaces"]);
        let call = Call::change(Method::Post, "create the cloudspace", &path)
            .at(location)
            .about(format!("location {location}, cloudspace {name}"))
            .body(Body::Json(new.document()));
        self.send(call).await?.created(&["cloudspace_id", "id"])
    }

    /// Deletes a cloudspace for good; one that is not there counts as deleted. It may be
    /// repeated.
    ///
    /// # Errors
    /// By the back-end's words (vco-api.md 4.1, G8S): 409 while VMs are in it, 400 while it is
    /// being deployed.
    pub async fn delete_cloudspace(&self, id: &CloudspaceId) -> Result<(), Error> {
        let call = self.change_in(Method::Delete, id, "delete the cloudspace", &[]);
        self.send_delete(call.with("permanently", true)).await
    }

    /// Subnets that no cloudspace of the customer uses, in CIDR form. Nothing reserves them: two
    /// askers may be told the same.
    pub async fn free_subnets(&self, count: u32) -> Result<Vec<String>, Error> {
        let path = ["cloudspaces", "available-subnets"];
        let call = self.read("list free subnets", &path).with("number_of_networks", count);
        let reply = self.send(call).await?;
        Ok(reply.rows("subnets")?.into_iter().filter_map(subnet).collect())
    }

    /// The networks outside that a location offers.
    pub async fn external_networks(&self, at: &Location) -> Result<Vec<ExternalNetwork>, Error> {
        let reply =
            self.send(self.read_at(at, "list external networks", &["external-networks"])).await?;
        Ok(reply.rows("external_networks")?.into_iter().map(ExternalNetwork::read).collect())
    }

    /// The free addresses of an external network, as the cloud writes them: perhaps with prefix
    /// length ([`bare`](super::bare) takes it off). They may be handed back as they are
    /// (vco-api.md 2, PC). Nothing reserves them: two askers may be told the same.
    pub async fn external_addresses(
        &self,
        at: &Location,
        network: u64,
    ) -> Result<Vec<String>, Error> {
        let path = ["external-networks", &network.to_string(), "ip-addresses"];
        let call = self
            .read_at(at, "list free addresses", &path)
            .about(format!("location {at}, external network {network}"));
        let reply = self.send(call).await?;
        address::list(&reply.json).ok_or_else(|| reply.garbled("it holds no list"))
    }

    /// A call that reads below a cloudspace.
    pub(super) fn read_in<'a>(
        &self,
        id: &CloudspaceId,
        operation: &'static str,
        path: &[&str],
    ) -> Call<'a> {
        let path = [&["cloudspaces", id.as_str()], path].concat();
        located(self.read(operation, &path), id)
    }

    /// A call that changes something there.
    pub(super) fn change_in<'a>(
        &self,
        method: Method,
        id: &CloudspaceId,
        operation: &'static str,
        path: &[&str],
    ) -> Call<'a> {
        let path = [&["cloudspaces", id.as_str()], path].concat();
        located(Call::change(method, operation, &self.below(&path)), id)
    }
}

fn located<'a>(mut call: Call<'a>, id: &CloudspaceId) -> Call<'a> {
    call.at = location_of(id);
    call.about(format!("cloudspace {id}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_tells_its_location() {
        for (id, location) in [
            ("dXMtamFjLWRjMDEtMDAyOjEzMDI", Some("us-jac-dc01-002")),
            ("dXMtamFjLWRjMDEtMDAyOjEzMDI=", Some("us-jac-dc01-002")),
            ("1302", None),
            ("opaque!", None),
        ] {
            let found = location_of(&id.parse().unwrap());
            assert_eq!(found.as_ref().map(Location::as_str), location, "{id}");
        }
    }

    #[test]
    fn a_cloudspace_needs_an_id_only() {
        let row = json!({"cloudspace_id": "YmU6MQ", "name": null, "status": "DEPLOYED", "x": [],
            "external_network_ip": "185.1.2.3/24", "external_network_id": "5",
            "private_network": "192.168.103.0/24", "location": "be-1"});
        let read = Cloudspace::read(&row).unwrap();
        assert_eq!((read.id.as_str(), read.name), ("YmU6MQ", None));
        assert_eq!(
            (read.external_ip.as_deref(), read.external_network_id),
            (Some("185.1.2.3"), Some(5))
        );
        assert_eq!(read.private_network.as_deref(), Some("192.168.103.0/24"));
        assert_eq!(read.location, "be-1".parse().ok());
        for odd in [json!({}), json!({"cloudspace_id": null}), json!({"cloudspace_id": "a/b"})] {
            assert_eq!(Cloudspace::read(&odd), None, "{odd}");
        }
        let bare = Cloudspace::read(&json!({"cloudspace_id": 12, "location": "", "status": null}));
        assert_eq!(bare.unwrap().location, None);
    }

    #[test]
    fn deleted_things_are_gone_in_any_spelling() {
        for (status, gone) in [
            (Some("DELETED"), true),
            (Some("destroyed"), true),
            (Some("TOBEDELETED"), true),
            (Some("DELETING"), false),
            (Some("DEPLOYED"), false),
            (Some(""), false),
            (None, false),
        ] {
            assert_eq!(is_gone(status), gone, "{status:?}");
        }
    }

    #[test]
    fn a_new_cloudspace_is_written_in_the_clouds_words() {
        let mut new = NewCloudspace {
            name: "capvco-x-web".to_owned(),
            location: "be-1".parse().unwrap(),
            private_network: None,
            local_domain: None,
            external_network_id: None,
        };
        let plain =
            json!({"name": "capvco-x-web", "location": "be-1", "firewall": {"private": false}});
        assert_eq!(new.document(), plain);
        new.private_network = Some("192.168.104.0/24".to_owned());
        new.local_domain = Some("web.example".to_owned());
        new.external_network_id = Some(5);
        assert_eq!(
            new.document(),
            json!({"name": "capvco-x-web", "location": "be-1", "local_domain": "web.example",
                "private_network": "192.168.104.0/24",
                "firewall": {"private": false, "external_network_id": 5}})
        );
    }

    #[test]
    fn a_free_subnet_has_its_length() {
        for (row, found) in [
            (json!({"ip_address": "192.168.104.0"}), Some("192.168.104.0/24")),
            (json!({"ip_address": "192.168.104.0/24"}), Some("192.168.104.0/24")),
            (json!({"ip_address": ""}), None),
            (json!({"ip_address": null}), None),
        ] {
            assert_eq!(subnet(&row).as_deref(), found, "{row}");
        }
    }

    #[test]
    fn an_external_network_is_read_whatever_its_fields_are() {
        let row = json!({"external_network_id": "5", "name": "internet", "public": "True",
            "dhcp": null, "network": "185.1.2.0/24", "more": 1});
        let read = ExternalNetwork::read(&row);
        assert_eq!((read.id, read.public, read.dhcp), (Some(5), Some(true), None));
        assert_eq!(ExternalNetwork::read(&json!(null)), ExternalNetwork::default());
    }
}
