//! Who the token is: `GET /me`, and the customer it implies.

use serde_json::Value;

use super::call::Call;
use super::client::Client;
use super::customer::Customer;
use super::error::{Error, Kind};
use super::wire;
use crate::id::CustomerId;

/// The token's user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Me {
    /// The user's name at the IAM.
    pub username: Option<String>,
    /// The IAM's host, a different one from the portal's (vco-api.md 1.1, OC).
    pub iam_domain: Option<String>,
    /// The customers the user belongs to.
    pub customers: Vec<Membership>,
}

/// A customer of a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Membership {
    /// The customer.
    pub id: CustomerId,
    /// Its name for people.
    pub name: Option<String>,
}

impl Me {
    /// Reads a reply of `GET /me`.
    #[must_use]
    pub fn read(reply: &Value) -> Self {
        // An administrator may be listed there only.
        let members = memberships(&reply["customers"]);
        let customers =
            if members.is_empty() { memberships(&reply["admin_of_customers"]) } else { members };
        Self {
            username: wire::text(reply, "username"),
            iam_domain: wire::text(reply, "iam_domain").filter(|domain| !domain.is_empty()),
            customers,
        }
    }

    /// The one customer; several, or none, are an error.
    fn only_customer(&self) -> Result<&CustomerId, Error> {
        match self.customers.as_slice() {
            [only] => Ok(&only.id),
            [] => Err(Error::new("choose a customer", "", Kind::NoCustomer)
                .with_message("the token's user belongs to no customer")),
            several => {
                let names: Vec<_> = several.iter().map(|one| one.id.as_str()).collect();
                let why = format!("the token's user belongs to several: {}", names.join(", "));
                Err(Error::new("choose a", "customer", Kind::Setting).with_message(why))
            }
        }
    }
}

fn memberships(list: &Value) -> Vec<Membership> {
    let rows = wire::rows(list, "customers").unwrap_or_default();
    let mut found: Vec<Membership> = Vec::new();
    for row in rows {
        let id = wire::text(row, "customer_id").and_then(|id| id.parse::<CustomerId>().ok());
        if let Some(id) = id.filter(|id| found.iter().all(|one| one.id != *id)) {
            found.push(Membership { id, name: wire::text(row, "name") });
        }
    }
    found
}

impl Client {
    /// Who the token is.
    pub async fn me(&self) -> Result<Me, Error> {
        let reply = self.send(Call::read("ask who the token belongs to", &["me"])).await?;
        if !reply.json.is_object() {
            return Err(reply.garbled("it is no object"));
        }
        let me = Me::read(&reply.json);
        self.learn_iam(me.iam_domain.as_deref().unwrap_or_default());
        Ok(me)
    }

    /// The configured customer, or else the only one of the token's user.
    ///
    /// # Errors
    /// [`Kind::Setting`] if there are several (the message lists them), [`Kind::NoCustomer`]
    /// if there is none.
    pub async fn customer(&self) -> Result<Customer, Error> {
        let id = match self.configured_customer() {
            Some(id) => id.clone(),
            None => self.me().await?.only_customer()?.clone(),
        };
        Ok(Customer::new(self.clone(), id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::{Class, Fault};
    use serde_json::json;

    #[test]
    fn one_customer_is_taken_and_others_are_errors() {
        let one = json!({"customer_id": "acme_1", "name": "Acme", "extra": 1});
        let two = json!({"customer_id": "beta_1", "name": null});
        for (reply, outcome) in [
            (json!({"customers": [one]}), Ok("acme_1")),
            (json!({"customers": [one, one, null, {}]}), Ok("acme_1")),
            (json!({"customers": null, "admin_of_customers": [two]}), Ok("beta_1")),
            (json!({"customers": [one], "admin_of_customers": [two]}), Ok("acme_1")),
            (json!({"customers": [one, two]}), Err(Class::Usage)),
            (json!({"customers": []}), Err(Class::Auth)),
            (json!({}), Err(Class::Auth)),
        ] {
            let me = Me::read(&reply);
            let chosen = me.only_customer();
            let chosen = chosen.as_ref().map(|id| id.as_str()).map_err(Fault::class);
            assert_eq!(chosen, outcome, "{reply}");
        }
        let error = Me::read(&json!({"customers": [one, two]})).only_customer().unwrap_err();
        let said = "cannot choose a customer: the token's user belongs to several: acme_1, beta_1";
        assert_eq!(error.to_string(), said);
        assert!(error.hints()[0].contains("--customer"));
    }
}
