//! The room `etcd` against real members of every line, and against one that lies.

mod calls;
mod figures;
mod restore;
mod secure;
mod snapshot;

use std::sync::Arc;

use capvco::clock::{Clock, System};
use capvco::etcd::{Access, Client, Error};

/// A client without TLS, on real time.
async fn client(endpoint: &str) -> Result<Client, Error> {
    let clock: Arc<dyn Clock> = System::shared();
    Client::connect(&Access::to(&[endpoint]), endpoint, clock).await
}

/// An error with its causes, as a user reads it.
fn told(error: &Error) -> String {
    capvco::fault::chain(error)
}
