//! What an image's `status` means for us.
//!
//! The states are those of the back-end (vco-api.md 3.2: G8D, G8S); which one a failed import
//! ends in is unknown (13.3 no. 3), so the usual words for failure are all known here, and a
//! word that is not known keeps us waiting, in sight of the user.

/// Where an image stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// `CREATED`: a VM can be made from it.
    Usable,
    /// On its way, or in a state we do not know.
    Coming,
    /// It will not become usable by itself.
    Broken,
    /// In the recycle bin, its name still taken.
    Binned,
    /// As good as gone.
    Gone,
}

impl State {
    /// Reads the cloud's word; none at all counts as unknown.
    #[must_use]
    pub fn of(status: Option<&str>) -> Self {
        let word = status.unwrap_or_default().to_ascii_uppercase();
        match word.as_str() {
            "CREATED" => Self::Usable,
            "DELETED" => Self::Binned,
            "DELETING" | "DESTROYING" | "DESTROYED" => Self::Gone,
            "DISABLED" | "DISABLING" | "KILLED" | "REJECTED" => Self::Broken,
            word if word.contains("ERROR") || word.contains("FAIL") => Self::Broken,
            _ => Self::Coming,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_have_meanings() {
        use State::{Binned, Broken, Coming, Gone, Usable};
        for (word, state) in [
            ("CREATED", Usable),
            ("created", Usable),
            ("CREATING", Coming),
            ("VIRTUAL", Coming),
            ("CONVERTING", Coming),
            ("", Coming),
            ("ERROR", Broken),
            ("CREATE_FAILED", Broken),
            ("DISABLED", Broken),
            ("DELETED", Binned),
            ("DELETING", Gone),
            ("DESTROYED", Gone),
        ] {
            assert_eq!(State::of(Some(word)), state, "{word}");
        }
        assert_eq!(State::of(None), Coming);
    }
}
