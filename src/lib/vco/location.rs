//! Locations: the customer's independent back-ends.

use serde_json::Value;

use super::customer::Customer;
use super::error::Error;
use super::{hint, wire};
use crate::id::Location;

/// What the cloud says about one location.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocationInfo {
    /// Its name.
    pub location: Location,
    /// Whether it cannot host VMs.
    pub storage_only: Option<bool>,
}

/// Reads the customer's locations: a pricing document whose list is under `locations`
/// (vco-api.md section 2). Rows without a usable name are left out.
#[must_use]
pub fn read_names(rows: &[&Value]) -> Vec<Location> {
    let mut names: Vec<Location> = Vec::new();
    for row in rows {
        let name = wire::text(row, "location").or_else(|| wire::text(row, "name"));
        let name = name.and_then(|name| name.parse::<Location>().ok());
        names.extend(name.filter(|name| !names.contains(name)));
    }
    names
}

impl Customer {
    /// The customer's locations, in the cloud's order.
    ///
    /// # Errors
    /// Status 403 or 404 if the customer is unknown or not the token's; the hint then names the
    /// token's customers.
    pub async fn locations(&self) -> Result<Vec<Location>, Error> {
        let call = self.read("list locations", &["locations"]);
        let reply = match self.send(call.about(format!("customer {}", self.id()))).await {
            Ok(reply) => reply,
            Err(error) if matches!(error.status(), Some(403 | 404)) => {
                let advice = self.other_customers().await;
                return Err(error.with_advice(advice));
            }
            Err(error) => return Err(error),
        };
        Ok(read_names(&reply.rows("locations")?))
    }

    /// The token's customers, where this is none of them and the portal tells.
    async fn other_customers(&self) -> Option<String> {
        let me = self.client().me().await.ok()?;
        let known: Vec<_> = me.customers.iter().map(|one| one.id.as_str()).collect();
        hint::other_customers(self.id().as_str(), &known)
    }

    /// What the cloud says about a location.
    ///
    /// # Errors
    /// Status 403 if the customer has no access to it, 404 if it (or the customer) is unknown.
    pub async fn location(&self, at: &Location) -> Result<LocationInfo, Error> {
        let reply = self.send(self.read_at(at, "read the location", &[])).await?;
        let storage_only = wire::flag(&reply.json, "storage_only");
        Ok(LocationInfo { location: at.clone(), storage_only })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names_are_read_from_the_pricing_document() {
        let reply = json!({"currency": "EUR", "locations": [
            {"location": "be-1", "resources": {"su": 1.5}}, {"location": "be-1"},
            {"location": null}, {"location": "a b"}, {"name": "nl-1"}]});
        let names = read_names(&wire::rows(&reply, "locations").unwrap());
        assert_eq!(names.iter().map(Location::as_str).collect::<Vec<_>>(), ["be-1", "nl-1"]);
    }
}
