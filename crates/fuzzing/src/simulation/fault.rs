//! The faults of an exchange.

use super::random::Random;

/// A fault of one exchange. Positions are bytes of the body, or events of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    Unreachable,
    LostRequest,
    LostAnswer,
    /// The request arrives after the client has given up.
    LateRequest,
    DuplicateRequest,
    Delay,
    Silence,
    Status(u16),
    Cut(usize),
    End(usize),
    Stall(usize),
    Corrupt(usize),
    DuplicateEvent(usize),
    ReorderEvents(usize),
    CutRequest(usize),
    CorruptRequest(usize),
}

impl Fault {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Unreachable => "unreachable",
            Self::LostRequest => "lost request",
            Self::LostAnswer => "lost answer",
            Self::LateRequest => "late request",
            Self::DuplicateRequest => "duplicated request",
            Self::Delay => "delay",
            Self::Silence => "no answer",
            Self::Status(_) => "status",
            Self::Cut(_) => "cut",
            Self::End(_) => "early end",
            Self::Stall(_) => "stall",
            Self::Corrupt(_) => "corruption",
            Self::DuplicateEvent(_) => "duplicated event",
            Self::ReorderEvents(_) => "reordered events",
            Self::CutRequest(_) => "cut request",
            Self::CorruptRequest(_) => "corrupted request",
        }
    }

    /// Returns whether the fault changes the content of a response.
    pub(super) fn alters(self) -> bool {
        matches!(
            self,
            Self::Corrupt(_)
                | Self::DuplicateEvent(_)
                | Self::ReorderEvents(_)
                | Self::CorruptRequest(_)
        )
    }

    pub(super) fn any(random: &mut Random) -> Self {
        // Half of the positions are in the first bytes, because plain responses are short.
        let limit = random.pick(&[60, 600, 6000]);
        let at = random.index(limit);
        match random.below(16) {
            0 => Self::Unreachable,
            1 => Self::LostRequest,
            2 => Self::LostAnswer,
            3 => Self::DuplicateRequest,
            4 | 5 => Self::Delay,
            6 => Self::Silence,
            7 => Self::Status(random.pick(&[307, 401, 404, 429, 500, 502, 503])),
            8 => Self::Cut(at),
            9 => Self::End(at),
            10 => Self::Stall(at),
            11 => Self::Corrupt(at),
            12 => Self::DuplicateEvent(at % 8),
            13 => Self::ReorderEvents(at % 8),
            14 => Self::CutRequest(at),
            _ => Self::CorruptRequest(at),
        }
    }
}
