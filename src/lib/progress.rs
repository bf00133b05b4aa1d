//! What a tool tells its user while it works.
//!
//! A tool knows only this trait; the door decides whether it becomes bars, lines, or nothing.

/// Where one item stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// One word or a few, such as `uploading` or the cloud's own `CREATING`.
    pub state: String,
    /// How much is done, in bytes; 0 where amounts make no sense.
    pub done: u64,
    /// How much there is, in bytes, where that is known.
    pub total: Option<u64>,
}

impl Step {
    /// A step without amounts.
    #[must_use]
    pub fn state(state: impl Into<String>) -> Self {
        Self { state: state.into(), done: 0, total: None }
    }

    /// A step with `done` of `total` bytes.
    #[must_use]
    pub fn bytes(state: impl Into<String>, done: u64, total: Option<u64>) -> Self {
        Self { state: state.into(), done, total }
    }
}

/// Receives a tool's progress. Calls are cheap, may come often and from several threads.
pub trait Progress: Send + Sync {
    /// Item `item` (a location, say) stands at `step` now. The first call introduces it.
    fn update(&self, item: &str, step: Step);

    /// Item `item` is finished; `outcome` is a short word such as `created` or `failed`.
    fn finish(&self, item: &str, outcome: &str);

    /// A line for the user that belongs to no item.
    fn say(&self, line: &str);

    /// A line for the user that should not be missed even when progress is switched off.
    fn warn(&self, line: &str);
}

/// Says nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Progress for Silent {
    fn update(&self, _item: &str, _step: Step) {}
    fn finish(&self, _item: &str, _outcome: &str) {}
    fn say(&self, _line: &str) {}
    fn warn(&self, _line: &str) {}
}
