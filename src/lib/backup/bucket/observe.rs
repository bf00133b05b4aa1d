//! What is there already.

use std::path::Path;
use std::sync::Arc;

use super::plan::Seen;
use super::portal;
use super::request::{Place, Portal, Request};
use crate::backup::Error;
use crate::clock::Clock;
use crate::id::Location;
use crate::near::near_first;
use crate::s3::{Bucket, Config};
use crate::vco::{Client, Customer, Objectspace};

/// What was seen, and the way to it.
pub struct Observed {
    pub seen: Seen,
    /// The customer, on the portal.
    pub customer: Option<Customer>,
    /// The objectspace, if it is there.
    pub space: Option<Objectspace>,
}

/// Looks, and changes nothing.
pub async fn observe(request: &Request, clock: &Arc<dyn Clock>) -> Result<Observed, Error> {
    match &request.place {
        Place::Plain => plain(request, clock).await,
        Place::Portal(portal) => on_portal(request, portal, clock).await,
    }
}

async fn plain(request: &Request, clock: &Arc<dyn Clock>) -> Result<Observed, Error> {
    let bucket = request.target.open(clock.clone()).await?;
    let doing = || Error::doing(format!("cannot look for the bucket {}", bucket.name()));
    let there = bucket.exists().await.map_err(doing())?;
    let lock = if there { Some(bucket.lock_config().await.map_err(doing())?) } else { None };
    let seen = Seen { bucket: there, lock, ..Seen::default() };
    Ok(Observed { seen, customer: None, space: None })
}

async fn on_portal(
    request: &Request,
    portal: &Portal,
    clock: &Arc<dyn Clock>,
) -> Result<Observed, Error> {
    let client = Client::new(portal.cloud.clone(), clock.clone())
        .map_err(Error::doing("cannot use the portal"))?;
    let customer = client.customer().await.map_err(Error::doing("cannot use the portal"))?;
    known(&customer, &portal.location).await?;
    let space = portal::find(&customer, portal).await?;
    let mut seen = Seen::default();
    for file in [&portal.write_key_file, &portal.read_key_file] {
        if Path::exists(file) {
            seen.files.push(file.clone());
        }
    }
    if let Some(space) = &space {
        seen.objectspace = Some(space.id.to_string());
        look_inside(request, &customer, space, &mut seen, clock).await?;
    }
    Ok(Observed { seen, customer: Some(customer), space })
}

/// The portal lets one ask for things in a place that is none, and says then that it is in trouble.
async fn known(customer: &Customer, at: &Location) -> Result<(), Error> {
    let doing = Error::doing("cannot look at the customer's locations");
    let all = customer.locations().await.map_err(doing)?;
    if all.contains(at) {
        return Ok(());
    }
    let names: Vec<&str> = all.iter().map(Location::as_str).collect();
    Err(Error::not_found(
        format!("location {at} is none of this customer's"),
        &format!("there are: {}", near_first(at.as_str(), &names).join(", ")),
    ))
}

async fn look_inside(
    request: &Request,
    customer: &Customer,
    space: &Objectspace,
    seen: &mut Seen,
    clock: &Arc<dyn Clock>,
) -> Result<(), Error> {
    let (id, name) = (&space.id, &*request.target.s3.bucket);
    let doing = || Error::doing(format!("cannot look at the bucket {name}"));
    if customer.bucket(id, name).await.map_err(doing())?.is_none() {
        return Ok(());
    }
    seen.bucket = true;
    let keys = customer.bucket_keys(id, name).await.map_err(doing())?;
    seen.keys = keys.into_iter().map(|key| (key.name, key.access)).collect();
    // Where rules cannot be listed, one is added again.
    let rules = customer.lifecycle_rules(id, name).await.unwrap_or_default();
    seen.rules = rules.into_iter().filter_map(|rule| rule.id).collect();
    if let Some(bucket) = root(request, customer, space, clock).await? {
        seen.lock = bucket.lock_config().await.ok();
    }
    Ok(())
}

/// The bucket by S3 with the objectspace's root keys, which only the portal's administrators
/// have; `None` where nothing says how S3 is reached.
pub async fn root(
    request: &Request,
    customer: &Customer,
    space: &Objectspace,
    clock: &Arc<dyn Clock>,
) -> Result<Option<Bucket>, Error> {
    let endpoint = request.target.s3.endpoint.clone().or_else(|| portal::endpoint(space));
    let Some(endpoint) = endpoint else { return Ok(None) };
    let doing = Error::doing(format!("cannot use the objectspace {}", space.id));
    let keys = customer.root_keys(&space.id).await.map_err(doing)?;
    let config = Config {
        endpoint: Some(endpoint),
        keys: Some((keys.access_key, keys.secret)),
        ..request.target.s3.clone()
    };
    let doing = Error::doing(format!("cannot use the bucket {}", config.bucket));
    Bucket::open(config, clock.clone()).await.map(Some).map_err(doing)
}
