//! Removes an image for good, as patiently as the cloud makes necessary.

use super::Here;
use crate::id::ImageId;
use crate::publish::state::State;
use crate::vco;

/// How often a removal that is not allowed yet is tried again.
const AGAIN: u32 = 5;

impl Here<'_> {
    /// Removes the image; one that is not there is removed.
    ///
    /// Before an image is CREATED a removal is answered 403 (vco-api.md 3.2, G8S): while it is on
    /// its way there we wait with it, otherwise a few more tries are made.
    pub(super) async fn remove(&self, id: ImageId) -> Result<(), vco::Error> {
        let mut tries = 0;
        loop {
            let error = match self.job.customer.delete_image(self.at, id).await {
                Ok(()) => return Ok(()),
                Err(error) if error.status() == Some(403) => error,
                Err(error) => return Err(error),
            };
            match self.job.customer.image(self.at, id).await {
                Ok(None) => return Ok(()),
                Ok(Some(image)) if State::of(image.status.as_deref()) == State::Coming => {}
                _ if tries >= AGAIN => return Err(error),
                _ => tries += 1,
            }
            self.pause().await;
        }
    }
}
