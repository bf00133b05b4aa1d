//! Creating with certainty: after a lost reply look, then decide.
//!
//! The cloud knows no idempotency keys (vco-api.md 12.7), and some creates answer nothing that
//! names what was made. What can be recognised afterwards, by a name or a mark that only we
//! give, can be created with certainty all the same.

use std::time::Duration;

use super::customer::Customer;
use super::error::{Error, Kind};
use crate::fault::{Class, Fault as _};

/// How often a create is sent again after it had no known outcome and left no trace.
const AGAIN: u32 = 2;

/// How often we look for what should be there; lists may lag behind.
const LOOKS: u32 = 3;

/// Between two looks.
const PAUSE: Duration = Duration::from_secs(2);

impl Customer {
    /// Creates something that can be recognised, once.
    ///
    /// `create` sends the call and returns what its reply names, if anything; `look` finds what
    /// is ours, if it is there. A create whose outcome is unknown is sent again only where
    /// nothing was found, at most twice. A conflict after such a create may be with ourselves:
    /// then, too, we look.
    ///
    /// # Errors
    /// The create's own error; the look's; [`Garbled`](Kind::Garbled) if the create succeeded,
    /// named nothing, and nothing appears.
    pub async fn create_surely<T>(
        &self,
        create: impl AsyncFn() -> Result<Option<T>, Error>,
        look: impl AsyncFn() -> Result<Option<T>, Error>,
    ) -> Result<T, Error> {
        let mut unknown = 0;
        loop {
            let error = match create().await {
                Ok(Some(made)) => return Ok(made),
                Ok(None) => {
                    let why = "the create call succeeded, but nothing came of it";
                    let unseen = || Error::new("find what was created", "", Kind::Garbled);
                    let found = self.find(&look).await?;
                    return found.ok_or_else(|| unseen().with_message(why));
                }
                Err(error) => error,
            };
            let ours = unknown > 0 && error.class() == Class::Conflict;
            if !error.outcome_unknown() && !ours {
                return Err(error);
            }
            if let Some(found) = self.find(&look).await? {
                return Ok(found);
            }
            unknown += 1;
            if ours || unknown > AGAIN {
                return Err(error);
            }
        }
    }

    async fn find<T>(
        &self,
        look: &impl AsyncFn() -> Result<Option<T>, Error>,
    ) -> Result<Option<T>, Error> {
        for again in (0..LOOKS).rev() {
            if let Some(found) = look().await? {
                return Ok(Some(found));
            }
            if again > 0 {
                self.client().clock().sleep(PAUSE).await;
            }
        }
        Ok(None)
    }
}
