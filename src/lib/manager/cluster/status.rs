//! What a cluster's status says. Pure.

use k8s_openapi::jiff::Timestamp;

use crate::api::VCOCluster;
use crate::api::cluster::{FailureDomain, NetworkStatus, VCOClusterStatus};
use crate::api::condition::{NOT_PAUSED, PAUSED, Said};
use crate::api::shared::Initialization;
use crate::manager::machine::keep;

/// Whether machines may be made. Once so, it stays so.
#[must_use]
pub fn provisioned(cluster: &VCOCluster) -> bool {
    let status = cluster.status.as_ref();
    status.and_then(|status| status.initialization.as_ref()?.provisioned) == Some(true)
}

/// The status after a pass. What nothing is said of stays as it was.
///
/// The failure domain is the location, and is never taken away: machines whose domain is not
/// listed would be the first to go (contract, 5.2).
#[must_use]
pub fn status(
    cluster: &VCOCluster,
    mut said: Vec<Said>,
    seen: Option<(NetworkStatus, bool)>,
    now: Timestamp,
) -> VCOClusterStatus {
    let mut status = cluster.status.clone().unwrap_or_default();
    if let Some((network, provisioned)) = seen {
        status.network = Some(network).filter(|network| *network != NetworkStatus::default());
        if provisioned {
            status.initialization = Some(Initialization { provisioned: Some(true) });
            status.failure_domains = Some(vec![FailureDomain {
                name: cluster.spec.location.clone(),
                control_plane: Some(true),
                attributes: None,
            }]);
        }
    }
    let before = status.conditions.take().unwrap_or_default();
    if !said.iter().any(|said| said.kind == PAUSED) {
        said.push(Said::not(PAUSED, NOT_PAUSED, ""));
    }
    status.conditions = Some(keep(&before, said, cluster.metadata.generation, now));
    status
}
