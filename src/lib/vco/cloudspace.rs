//! Cloudspaces: a customer's networks, each in one location.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;

use super::customer::Customer;
use super::error::Error;
use super::wire;
use crate::id::{CloudspaceId, Location};

/// A cloudspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cloudspace {
    /// Its id.
    pub id: CloudspaceId,
    /// Its name.
    pub name: Option<String>,
    /// `DEPLOYED` is the usable one (vco-api.md 4.1, G8D).
    pub status: Option<String>,
}

impl Cloudspace {
    /// Reads a row of a list; `None` without a usable id.
    #[must_use]
    pub fn read(row: &Value) -> Option<Self> {
        let id = wire::text(row, "cloudspace_id")?.parse().ok()?;
        Some(Self { id, name: wire::text(row, "name"), status: wire::text(row, "status") })
    }
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
        reply
            .rows("cloudspaces")?
            .into_iter()
            .filter(|row| !elsewhere(row))
            // A row left out would be a cloudspace that nobody looks into.
            .map(|row| Cloudspace::read(row).ok_or_else(|| reply.garbled("a row has no id")))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

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
        let row = json!({"cloudspace_id": "YmU6MQ", "name": null, "status": "DEPLOYED", "x": []});
        let read = Cloudspace::read(&row).unwrap();
        assert_eq!((read.id.as_str(), read.name), ("YmU6MQ", None));
        for odd in [json!({}), json!({"cloudspace_id": null}), json!({"cloudspace_id": "a/b"})] {
            assert_eq!(Cloudspace::read(&odd), None, "{odd}");
        }
        assert!(Cloudspace::read(&json!({"cloudspace_id": 12})).is_some());
    }
}
