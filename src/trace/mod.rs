//! The W3C trace context of a call, and its spans.
//!
//! Every call has a trace id: the caller's, where its host passes a valid `traceparent`, else a random one. Every
//! request to a peer's interface carries a `traceparent` with that id and one span id for the whole call, so the peer's
//! spans are children of the call. Requests for cards carry none: one card serves many calls.

mod spans;

pub use spans::Spans;

use uuid::Uuid;

/// The request header (W3C Trace Context §3.2).
pub const HEADER: &str = "traceparent";

/// The companion header, which the plugin does not send (W3C Trace Context §3.3).
pub const STATE_HEADER: &str = "tracestate";

/// The sampled flag (W3C Trace Context §3.2.2.5.1).
const SAMPLED: u8 = 1;

/// The trace context of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trace {
    id: u128,
    span: u64,
    flags: u8,
}

impl Trace {
    /// Continues the trace of `traceparent`, or starts a new one where that is missing or invalid. Ids come from
    /// `fresh`. The sampled flag is the caller's.
    pub fn new(traceparent: Option<&str>, fresh: impl Fn() -> Uuid) -> Self {
        let (id, flags) = traceparent
            .and_then(read)
            .unwrap_or_else(|| (fresh().as_u128().max(1), SAMPLED));
        // Fixed bits of a random UUID: four in the first half, two in the second.
        let span = fresh().as_u64_pair().1.max(1);
        Self { id, span, flags }
    }

    /// Returns the trace id: 32 lower-case hexadecimal digits.
    pub fn id(&self) -> String {
        Uuid::from_u128(self.id).simple().to_string()
    }

    /// Returns the header's value for requests of this call.
    pub fn traceparent(&self) -> String {
        // Formatting a UUID is several times as fast as formatting a number.
        let id = Uuid::from_u128(self.id).simple();
        format!("00-{id}-{:016x}-{:02x}", self.span, self.flags)
    }
}

/// Returns the trace id and the sampled flag of a valid `traceparent` (W3C Trace Context §3.2.2 and, for later
/// versions, §4.3).
fn read(header: &str) -> Option<(u128, u8)> {
    let field = |from: usize, to: usize| header.get(from..to).filter(|text| is_hex(text));
    let ends = [2, 35, 52].map(|at| header.as_bytes().get(at) == Some(&b'-'));
    let more = header.as_bytes().get(55).copied();
    let version = field(0, 2)?;
    if ends.contains(&false) || version == "ff" || (version == "00" && more.is_some()) {
        return None;
    }
    if more.is_some_and(|byte| byte != b'-') {
        return None;
    }
    let id = u128::from_str_radix(field(3, 35)?, 16).ok()?;
    let parent = u64::from_str_radix(field(36, 52)?, 16).ok()?;
    let flags = u8::from_str_radix(field(53, 55)?, 16).ok()?;
    (id != 0 && parent != 0).then_some((id, flags & SAMPLED))
}

fn is_hex(text: &str) -> bool {
    text.bytes()
        .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACEPARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn call_continues_trace_of_caller() {
        let trace = Trace::new(Some(TRACEPARENT), Uuid::new_v4);
        assert_eq!(trace.id(), "0af7651916cd43dd8448eb211c80319c");
        let sent = trace.traceparent();
        assert_ne!(sent[36..52], TRACEPARENT[36..52]);
        assert_eq!(read(&sent), read(TRACEPARENT));
    }

    #[test]
    fn call_without_trace_starts_a_sampled_one() {
        let [one, other] = [0, 1].map(|_| Trace::new(None, Uuid::new_v4));
        assert_ne!(one.id(), other.id());
        let sent = one.traceparent();
        assert!(sent.ends_with("-01"), "{sent}");
        assert!(read(&sent).is_some(), "{sent}");
    }

    #[test]
    fn sampled_flag_follows_the_host() {
        let unsampled = TRACEPARENT.replace("-01", "-02");
        let sent = Trace::new(Some(&unsampled), Uuid::new_v4).traceparent();
        assert!(sent.ends_with("-00"), "{sent}");
    }

    #[test]
    fn ids_are_never_zero() {
        let sent = Trace::new(None, Uuid::nil).traceparent();
        assert!(read(&sent).is_some(), "{sent}");
    }

    #[test]
    fn invalid_traceparent_is_ignored() {
        let later = format!("01{}", &TRACEPARENT[2..]);
        assert!(read(&later).is_some());
        assert!(read(&format!("{later}-more")).is_some());
        let invalid = [
            String::new(),
            TRACEPARENT.to_uppercase(),
            format!("{TRACEPARENT}-more"),
            format!("{later}more"),
            format!("ff{}", &TRACEPARENT[2..]),
            TRACEPARENT.replace('-', "_"),
            TRACEPARENT[..54].to_owned(),
            TRACEPARENT.replace("0af7651916cd43dd8448eb211c80319c", &"0".repeat(32)),
            TRACEPARENT.replace("b7ad6b7169203331", &"0".repeat(16)),
            TRACEPARENT.replace("0af7", "+af7"),
            TRACEPARENT.replace("0af7", "0äf"),
        ];
        for text in invalid {
            assert_eq!(read(&text), None, "{text}");
        }
    }
}
