//! How an agent is (000 §8.2).

/// How an agent is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Status {
    /// It is connected and takes messages.
    Online,
    /// It is not connected.
    Offline,
    /// It works on something and takes nothing else.
    Busy,
    /// It is connected and has nothing to do.
    Idle,
    /// It failed, and takes nothing.
    Error,
}

impl Status {
    const ALL: [Self; 5] = [
        Self::Online,
        Self::Offline,
        Self::Busy,
        Self::Idle,
        Self::Error,
    ];

    /// The status that `word` stands for. `active` is what the registry of 000 §8.1 calls an agent that is there.
    pub(super) fn from_word(word: &str) -> Option<Self> {
        if word.eq_ignore_ascii_case("active") {
            return Some(Self::Online);
        }
        Self::ALL.into_iter().find(|status| status.as_str() == word)
    }

    /// The word of the wire.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Online => "online",
            Self::Offline => "offline",
            Self::Busy => "busy",
            Self::Idle => "idle",
            Self::Error => "error",
        }
    }

    /// It hears what is said to it, though it may not take work.
    pub(super) fn listens(self) -> bool {
        matches!(self, Self::Online | Self::Idle | Self::Busy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h_30_active_is_online_and_every_word_is_read_back() {
        assert_eq!(Status::from_word("Active"), Some(Status::Online));
        for status in Status::ALL {
            assert_eq!(Status::from_word(status.as_str()), Some(status));
        }
        assert_eq!(Status::from_word("asleep"), None);
    }
}
