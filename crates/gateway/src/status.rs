//! The status of an agent (Heretek A2A §8.2).

/// The status of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Status {
    /// Connected; accepts messages.
    Online,
    /// Not connected.
    Offline,
    /// Connected; accepts no messages because it is working.
    Busy,
    /// Connected without work; accepts messages.
    Idle,
    /// Failed; accepts no messages.
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

    /// Parses a status. `active` (Heretek A2A §8.1) means online.
    pub(super) fn from_word(word: &str) -> Option<Self> {
        if word.eq_ignore_ascii_case("active") {
            return Some(Self::Online);
        }
        Self::ALL.into_iter().find(|status| status.as_str() == word)
    }

    /// Returns the word of the wire.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Online => "online",
            Self::Offline => "offline",
            Self::Busy => "busy",
            Self::Idle => "idle",
            Self::Error => "error",
        }
    }

    /// Returns whether the agent gets notifications, though it may not accept messages.
    pub(super) fn is_reachable(self) -> bool {
        matches!(self, Self::Online | Self::Idle | Self::Busy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h_30_parses_every_status_and_active_as_online() {
        assert_eq!(Status::from_word("Active"), Some(Status::Online));
        for status in Status::ALL {
            assert_eq!(Status::from_word(status.as_str()), Some(status));
        }
        assert_eq!(Status::from_word("asleep"), None);
    }
}
