//! A customer: everything else hangs on one.

use std::fmt;

use super::call::{Call, Method, Reply};
use super::client::Client;
use super::error::Error;
use crate::id::{CustomerId, Location};

/// A customer of the portal, as the token sees it.
#[derive(Clone)]
pub struct Customer {
    client: Client,
    id: CustomerId,
}

impl fmt::Debug for Customer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Customer").field(&self.id).finish()
    }
}

impl Customer {
    pub(super) fn new(client: Client, id: CustomerId) -> Self {
        Self { client, id }
    }

    /// The customer's id.
    #[must_use]
    pub fn id(&self) -> &CustomerId {
        &self.id
    }

    /// The portal it belongs to.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    pub(super) async fn send(&self, call: Call<'_>) -> Result<Reply, Error> {
        self.client.send(call).await
    }

    /// A call that reads below `/customers/{customer_id}`.
    pub(super) fn read<'a>(&self, operation: &'static str, path: &[&str]) -> Call<'a> {
        Call::read(operation, &self.below(path))
    }

    /// A call that reads below `/customers/{customer_id}/locations/{location}`.
    pub(super) fn read_at<'a>(
        &self,
        at: &Location,
        operation: &'static str,
        path: &[&str],
    ) -> Call<'a> {
        let path = [&["locations", at.as_str()], path].concat();
        self.read(operation, &path).at(at).about(format!("location {at}"))
    }

    /// A call that changes something there; the operation's target is the location.
    pub(super) fn change_at<'a>(
        &self,
        method: Method,
        at: &Location,
        operation: &'static str,
        path: &[&str],
    ) -> Call<'a> {
        let path = [&["locations", at.as_str()], path].concat();
        let call = Call::change(method, operation, &self.below(&path));
        call.at(at).about(format!("location {at}"))
    }

    pub(super) fn below<'p>(&'p self, path: &[&'p str]) -> Vec<&'p str> {
        [&["customers", self.id.as_str()], path].concat()
    }
}
