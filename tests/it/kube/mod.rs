//! Kubernetes and Cluster API as tests meet them: they start, answer, and do what a provider's
//! tests count on.

mod forwarding;
mod leash;
mod managers;
mod plane;

use std::time::Duration;

/// Looks again for half a minute.
async fn eventually(holds: impl AsyncFn() -> bool) -> bool {
    for _ in 0..600 {
        if holds().await {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    false
}
