//! Close codes of WebSocket (RFC 6455 §7.4.1).
//!
//! A table of its own: 1001 to 1004 are errors of the protocol as well, and mean other things there. 4001 is one gateway's word for a wrong
//! credential, and a session that does not exist in the registry. A number is read as what the place it stands in says it is.

macro_rules! codes {
    ($($(#[doc = $meaning:literal])+ $code:ident = $number:literal;)+) => {
        /// Why a connection is closed. Its number is no error of the registry, though some look alike.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum CloseCode {
            $($(#[doc = $meaning])+ $code,)+
        }

        impl CloseCode {
            /// Every code, by number.
            pub const ALL: &'static [Self] = &[$(Self::$code),+];

            /// Returns its number.
            pub fn number(self) -> u16 {
                match self { $(Self::$code => $number,)+ }
            }

            /// Returns its meaning, as a sentence.
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$code => concat!($($meaning),+),)+ }.trim_ascii()
            }
        }
    };
}

codes! {
    /// All is said.
    Normal = 1000;
    /// The other side goes away: it is shut down, or left.
    GoingAway = 1001;
    /// The other side does not keep to the rules of WebSockets.
    ProtocolError = 1002;
    /// The other side does not take such data.
    Unsupported = 1003;
    /// No code was given. Never sent.
    NoCode = 1005;
    /// The connection broke without a word. Never sent.
    Abnormal = 1006;
    /// A text was not UTF-8.
    NotUtf8 = 1007;
    /// The other side does not allow what was done.
    Policy = 1008;
    /// A frame was too large.
    TooLarge = 1009;
    /// An extension is missing.
    ExtensionMissing = 1010;
    /// The other side failed.
    Internal = 1011;
    /// The other side starts anew.
    Restart = 1012;
    /// The other side is overloaded.
    TryLater = 1013;
    /// A gateway behind the other side answers badly.
    BadGateway = 1014;
    /// TLS failed. Never sent.
    Tls = 1015;
    /// The JavaScript gateway does not take the credential. Its own; no gateway of `a2a-v1` sends it.
    Unauthorized = 4001;
}

impl CloseCode {
    /// The close codes that a gateway of `a2a-v1` sends.
    pub const OF_GATEWAY: [Self; 5] = [
        Self::Normal,
        Self::GoingAway,
        Self::Policy,
        Self::TooLarge,
        Self::Internal,
    ];

    /// Returns the code of this number.
    pub fn from_number(number: u16) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|code| code.number() == number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorCode;

    #[test]
    fn h_06_shared_close_and_error_codes_differ_in_meaning() {
        let both: Vec<u16> = CloseCode::ALL
            .iter()
            .map(|code| code.number())
            .filter(|number| ErrorCode::from_number((*number).into()).is_some())
            .collect();
        assert_eq!(both, [1001, 1002, 1003, 4001]);
        for number in both {
            let closed = CloseCode::from_number(number).map(CloseCode::meaning);
            let failed = ErrorCode::from_number(number.into()).map(ErrorCode::meaning);
            assert_ne!(closed, failed, "{number}");
        }
    }

    #[test]
    fn h_06_gateway_uses_five_close_codes() {
        let numbers = CloseCode::OF_GATEWAY.map(CloseCode::number);
        assert_eq!(numbers, [1000, 1001, 1008, 1009, 1011]);
    }

    #[test]
    fn unlisted_number_is_no_code() {
        for number in [0, 999, 1004, 1016, 3000, 4000, 4002] {
            assert_eq!(CloseCode::from_number(number), None, "{number}");
        }
    }
}
