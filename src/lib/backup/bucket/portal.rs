//! The portal's calls, with certainty: what a lost reply leaves open is looked up.

use std::sync::Arc;
use std::time::Duration;

use super::plan::RULE;
use super::request::{Portal, Request};
use crate::backup::Error;
use crate::clock::Clock;
use crate::id::ObjectspaceId;
use crate::vco::{Access, BucketKey, Customer, NewBucket, NewObjectspace, Objectspace};

/// How long a new objectspace may take.
const DEPLOYS: Duration = Duration::from_mins(15);

/// Between two looks.
const LOOK_AGAIN: Duration = Duration::from_secs(3);

/// The objectspace meant by a name or an id.
///
/// # Errors
/// [`Error::Declined`] where several have that name, or one lies in the recycle bin.
pub async fn find(customer: &Customer, portal: &Portal) -> Result<Option<Objectspace>, Error> {
    let doing = || Error::doing(format!("cannot look for the objectspace {}", portal.objectspace));
    let all = customer.objectspaces(&portal.location).await.map_err(doing())?;
    if let Some(found) = only(all, portal)? {
        return Ok(Some(found));
    }
    let binned = customer.deleted_objectspaces(&portal.location).await.map_err(doing())?;
    match binned.into_iter().find(|one| is_meant(one, portal)) {
        None => Ok(None),
        Some(found) => Err(Error::declined(
            format!(
                "the objectspace {} ({}) lies in the recycle bin",
                portal.objectspace, found.id
            ),
            "restore it on the portal, or choose another name with --objectspace",
        )),
    }
}

fn is_meant(one: &Objectspace, portal: &Portal) -> bool {
    one.id.as_str() == portal.objectspace || one.name.as_deref() == Some(&*portal.objectspace)
}

fn only(all: Vec<Objectspace>, portal: &Portal) -> Result<Option<Objectspace>, Error> {
    let mut found: Vec<_> = all.into_iter().filter(|one| is_meant(one, portal)).collect();
    if let Some(at) = found.iter().position(|one| one.id.as_str() == portal.objectspace) {
        return Ok(Some(found.swap_remove(at)));
    }
    if found.len() > 1 {
        let ids: Vec<&str> = found.iter().map(|one| one.id.as_str()).collect();
        return Err(Error::declined(
            format!("several objectspaces are called {}: {}", portal.objectspace, ids.join(", ")),
            "say which one by its id with --objectspace",
        ));
    }
    Ok(found.pop())
}

/// Makes the objectspace and waits until it is there.
pub async fn create(
    customer: &Customer,
    portal: &Portal,
    clock: &Arc<dyn Clock>,
) -> Result<Objectspace, Error> {
    let new = NewObjectspace {
        name: portal.objectspace.clone(),
        location: portal.location.clone(),
        publish: portal.publish.clone(),
    };
    let look = async || {
        let all = customer.objectspaces(&portal.location).await?;
        Ok(all.into_iter().find(|one| is_meant(one, portal)).map(|one| one.id))
    };
    let made = customer.create_surely(async || customer.create_objectspace(&new).await, look);
    let id = made.await.map_err(Error::doing("cannot make the objectspace"))?;
    deployed(customer, &id, clock).await
}

async fn deployed(
    customer: &Customer,
    id: &ObjectspaceId,
    clock: &Arc<dyn Clock>,
) -> Result<Objectspace, Error> {
    let start = clock.elapsed();
    loop {
        let doing = Error::doing(format!("cannot look at the objectspace {id}"));
        let found = customer.objectspace(id).await.map_err(doing)?;
        let status = found.as_ref().and_then(|one| one.status.clone());
        match (found, status.as_deref().map(str::to_ascii_uppercase).as_deref()) {
            (Some(found), None | Some("DEPLOYED" | "RUNNING" | "ENABLED")) => return Ok(found),
            (Some(_), Some("ERROR" | "DELETED" | "DESTROYED")) => {
                let status = status.unwrap_or_default();
                return Err(Error::failed(
                    format!("the objectspace {id} is {status}"),
                    "look at it on the portal; delete it and run this again",
                ));
            }
            _ if clock.elapsed().saturating_sub(start) > DEPLOYS => {
                let status = status.unwrap_or_else(|| "unknown".to_owned());
                return Err(Error::failed(
                    format!("the objectspace {id} is still {status}"),
                    "run this again later: it goes on where it was",
                ));
            }
            _ => clock.sleep(LOOK_AGAIN).await,
        }
    }
}

/// Makes the bucket, with locking.
pub async fn create_bucket(
    customer: &Customer,
    of: &ObjectspaceId,
    name: &str,
) -> Result<(), Error> {
    let new = NewBucket { limit: None, locking: true };
    let look = async || Ok(customer.bucket(of, name).await?.map(|_| ()));
    let made = customer
        .create_surely(async || customer.create_bucket(of, name, new).await.map(Some), look);
    made.await.map_err(Error::doing(format!("cannot make the bucket {name}")))
}

/// Adds the rule that ends unfinished uploads.
pub async fn add_rule(
    customer: &Customer,
    of: &ObjectspaceId,
    request: &Request,
) -> Result<(), Error> {
    let bucket = &request.target.s3.bucket;
    let (prefix, days) = (&request.target.prefix, u64::from(request.abort_after_days));
    let add = async || customer.add_abort_rule(of, bucket, RULE, prefix, days).await.map(Some);
    let look = async || {
        let rules = customer.lifecycle_rules(of, bucket).await?;
        Ok(rules.iter().any(|rule| rule.id.as_deref() == Some(RULE)).then_some(()))
    };
    let doing = Error::doing("cannot add the rule that ends unfinished uploads");
    customer.create_surely(add, look).await.map_err(doing)
}

/// The key of this name, made if there is none.
pub async fn key(
    customer: &Customer,
    of: &ObjectspaceId,
    bucket: &str,
    name: &str,
    access: Access,
) -> Result<(BucketKey, bool), Error> {
    let look = async || {
        let keys = customer.bucket_keys(of, bucket).await?;
        Ok(keys.into_iter().find(|key| key.name == name))
    };
    let doing = || Error::doing(format!("cannot make the key {name}"));
    if let Some(there) = look().await.map_err(doing())? {
        return Ok((there, false));
    }
    let create = async || customer.create_bucket_key(of, bucket, name, access).await;
    let made = customer.create_surely(create, look).await.map_err(doing())?;
    Ok((made, true))
}

/// Where S3 of an objectspace is, as far as the portal tells: its public name, or its address
/// inside the first cloudspace that it is linked to (plain HTTP; vco-api.md 10.1, WEB).
pub fn endpoint(space: &Objectspace) -> Option<String> {
    let domain = space.domain.as_ref().filter(|domain| !domain.is_empty());
    domain.map(|domain| format!("https://{domain}")).or_else(|| {
        let address = space.links.iter().find_map(|link| link.ip_address.as_ref())?;
        Some(format!("http://{address}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vco::Link;

    fn space(domain: Option<&str>, address: Option<&str>) -> Objectspace {
        let ip_address = address.map(str::to_owned);
        Objectspace {
            id: "7".parse().unwrap(),
            name: Some("backups".to_owned()),
            status: None,
            location: None,
            domain: domain.map(str::to_owned),
            created: None,
            links: vec![Link { ip_address, ..Link::default() }],
        }
    }

    #[test]
    fn the_public_name_goes_before_the_private_address() {
        for (domain, address, endpoint_) in [
            (Some("s3.example"), Some("192.168.1.2"), Some("https://s3.example")),
            (None, Some("192.168.1.2"), Some("http://192.168.1.2")),
            (Some(""), None, None),
        ] {
            assert_eq!(endpoint(&space(domain, address)).as_deref(), endpoint_);
        }
    }
}
