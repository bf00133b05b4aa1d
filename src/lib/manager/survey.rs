//! One list serves all who ask for it at about the same time (contract, 10.4, 40).
//!
//! A list is good for whoever asked before it was begun, and for whoever is content with an older
//! one. Whoever comes while one is on its way waits for it, and takes the next one if he needs
//! something newer; between two there is a while, so that several come together for the next. A
//! list that failed has failed for all who waited for it: each trying it anew would take each his
//! time, one after the other.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::tenant::Tenant;
use crate::clock::Clock;
use crate::id::{CloudspaceId, Location};
use crate::vco::{self, Image, Vm};

/// How long after a list the next one may begin.
const APART: Duration = Duration::from_secs(1);

/// A list, or why there is none, and from when to when it was asked for.
struct Asked<T> {
    begun: Duration,
    came: Duration,
    answer: Result<Arc<Vec<T>>, vco::Error>,
}

/// A list of a place, for one asker at a time.
type Desk<T> = Arc<tokio::sync::Mutex<Option<Asked<T>>>>;

/// Lists of one sort, by places.
struct Lists<P, T> {
    clock: Arc<dyn Clock>,
    places: Mutex<HashMap<P, Desk<T>>>,
}

impl<P: Eq + Hash, T> Lists<P, T> {
    fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, places: Mutex::default() }
    }

    fn places(&self) -> MutexGuard<'_, HashMap<P, Desk<T>>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The list of a place that is at most this old, asked for if need be.
    async fn of<F>(
        &self,
        place: P,
        age: Duration,
        ask: impl FnOnce() -> F,
    ) -> Result<Arc<Vec<T>>, vco::Error>
    where
        F: Future<Output = Result<Vec<T>, vco::Error>>,
    {
        let came_in = self.clock.elapsed();
        let oldest = came_in.saturating_sub(age);
        let desk = Arc::clone(self.places().entry(place).or_default());
        let mut asked = desk.lock().await;
        if let Some(Asked { begun, came, answer }) = &*asked {
            let fits = if answer.is_ok() { *begun >= oldest } else { *came > came_in };
            if fits {
                return answer.clone();
            }
            let rest = (*came + APART).saturating_sub(self.clock.elapsed());
            self.clock.sleep(rest).await;
        }
        let begun = self.clock.elapsed();
        // Most passes find the list there: they do not carry a call's state around.
        let answer = Box::pin(ask()).await.map(Arc::new);
        *asked = Some(Asked { begun, came: self.clock.elapsed(), answer: answer.clone() });
        answer
    }
}

/// The lists that many need: those of the VMs of cloudspaces, and of the images of locations.
pub struct Survey {
    vms: Lists<(u64, CloudspaceId), Vm>,
    images: Lists<(u64, Location), Image>,
}

impl Survey {
    /// Nothing listed yet.
    #[must_use]
    pub fn new(clock: &Arc<dyn Clock>) -> Self {
        Self { vms: Lists::new(Arc::clone(clock)), images: Lists::new(Arc::clone(clock)) }
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
        let place = (tenant.number, cloudspace.clone());
        self.vms.of(place, age, || tenant.customer.vms(cloudspace)).await
    }

    /// The images of a location, from a list that is at most this old.
    ///
    /// # Errors
    /// The list failed.
    pub async fn images(
        &self,
        tenant: &Tenant,
        location: &Location,
        age: Duration,
    ) -> Result<Arc<Vec<Image>>, vco::Error> {
        let place = (tenant.number, location.clone());
        self.images.of(place, age, || tenant.customer.images(location)).await
    }

    /// Forgets the lists of a cloudspace that is gone.
    pub fn forget(&self, cloudspace: &CloudspaceId) {
        self.vms.places().retain(|(_, place), _| place != cloudspace);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use crate::clock::Stepped;
    use crate::vco::Kind;

    const NOW: Duration = Duration::ZERO;

    /// Calls that take a second each, and of which the first so many fail.
    struct Cloud {
        clock: Arc<Stepped>,
        asked: AtomicU32,
        failures: u32,
    }

    impl Cloud {
        fn new(failures: u32) -> (Self, Lists<u8, u32>) {
            let clock = Stepped::at(0.0);
            let lists = Lists::new(Arc::clone(&clock) as Arc<dyn Clock>);
            (Self { clock, asked: AtomicU32::new(0), failures }, lists)
        }

        async fn list(&self) -> Result<Vec<u32>, vco::Error> {
            let count = self.asked.fetch_add(1, Ordering::Relaxed) + 1;
            self.clock.sleep(Duration::from_secs(1)).await;
            let failed = || vco::Error::new("list", "", Kind::Timeout);
            if count <= self.failures { Err(failed()) } else { Ok(vec![count]) }
        }

        /// What three who ask at once get, and how often the cloud was asked by then.
        async fn three(&self, lists: &Lists<u8, u32>) -> (Vec<Option<u32>>, u32) {
            let one = || async { lists.of(1, NOW, || self.list()).await.ok().map(|list| list[0]) };
            let all = futures_util::future::join3(one(), one(), one());
            let goes_on = async {
                loop {
                    tokio::task::yield_now().await;
                    self.clock.advance(Duration::from_millis(100));
                }
            };
            let (a, b, c) = tokio::select! {
                all = all => all,
                () = goes_on => unreachable!("time never ends"),
            };
            (vec![a, b, c], self.asked.load(Ordering::Relaxed))
        }
    }

    #[tokio::test]
    async fn who_asks_at_once_shares_a_list() {
        let (cloud, lists) = Cloud::new(0);
        assert_eq!(cloud.three(&lists).await, (vec![Some(1); 3], 1));
        // It is too old for who comes later, and good enough for who says so.
        let minute = Duration::from_mins(1);
        assert_eq!(lists.of(1, minute, || cloud.list()).await.unwrap()[0], 1);
        assert_eq!(cloud.three(&lists).await, (vec![Some(2); 3], 2));
    }

    #[tokio::test]
    async fn a_failure_is_shared_and_not_kept() {
        let (cloud, lists) = Cloud::new(1);
        assert_eq!(cloud.three(&lists).await, (vec![None; 3], 1));
        assert_eq!(cloud.three(&lists).await, (vec![Some(2); 3], 2));
    }
}
