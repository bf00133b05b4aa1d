//! One list of VMs a cloudspace serves all its machines (contract, 10.4, 40).
//!
//! A list is good for whoever asked before it was begun, and for whoever is content with an older
//! one. Whoever comes while one is on its way waits for it, and takes the next one if he needs
//! something newer; between two there is a while, so that several come together for the next.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::tenant::Tenant;
use crate::clock::Clock;
use crate::id::CloudspaceId;
use crate::vco::{self, Vm};

/// How long after a list the next one may begin.
const APART: Duration = Duration::from_secs(1);

/// A list, when it was asked for, and when it came.
type Listed = Option<(Duration, Duration, Arc<Vec<Vm>>)>;

/// The lists of all cloudspaces.
pub struct Survey {
    clock: Arc<dyn Clock>,
    places: Mutex<HashMap<Place, Arc<tokio::sync::Mutex<Listed>>>>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Place {
    tenant: u64,
    cloudspace: CloudspaceId,
}

impl Survey {
    /// Nothing listed yet.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, places: Mutex::default() }
    }

    /// The VMs of a cloudspace, from a list that is at most this old.
    ///
    /// # Errors
    /// The list failed: nothing is known then, least of all that something is gone.
    pub async fn vms(
        &self,
        tenant: &Tenant,
        cloudspace: &CloudspaceId,
        age: Duration,
    ) -> Result<Arc<Vec<Vm>>, vco::Error> {
        let oldest = self.clock.elapsed().saturating_sub(age);
        let place = self.place(tenant, cloudspace);
        let mut listed = place.lock().await;
        if let Some((begun, came, vms)) = &*listed {
            if *begun >= oldest {
                return Ok(Arc::clone(vms));
            }
            let rest = (*came + APART).saturating_sub(self.clock.elapsed());
            self.clock.sleep(rest).await;
        }
        let begun = self.clock.elapsed();
        let vms = Arc::new(tenant.customer.vms(cloudspace).await?);
        *listed = Some((begun, self.clock.elapsed(), Arc::clone(&vms)));
        Ok(vms)
    }

    /// Forgets the lists of a cloudspace that is gone.
    pub fn forget(&self, cloudspace: &CloudspaceId) {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        places.retain(|place, _| place.cloudspace != *cloudspace);
    }

    fn place(&self, tenant: &Tenant, cloudspace: &CloudspaceId) -> Arc<tokio::sync::Mutex<Listed>> {
        let place = Place { tenant: tenant.number, cloudspace: cloudspace.clone() };
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(places.entry(place).or_default())
    }
}
