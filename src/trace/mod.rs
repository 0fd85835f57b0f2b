//! Where a call stands in a distributed trace, and the spans that are told of it.
//!
//! Every call has a trace id: the caller's, where its host hands over a valid `traceparent`, else a random one. Every
//! request to a peer's interface carries `traceparent` with that id and with one span id for the whole call, so that what
//! the peer records hangs below the call. Requests for cards carry none: a card is fetched once for many calls.

mod spans;

pub use spans::Spans;

use uuid::Uuid;

/// The header that carries it (W3C Trace Context §3.2).
pub const HEADER: &str = "traceparent";

/// The header that goes with it and is not written here (W3C Trace Context §3.3).
pub const STATE_HEADER: &str = "tracestate";

/// The one flag there is: the caller may have recorded the trace (W3C Trace Context §3.2.2.5.1).
const SAMPLED: u8 = 1;

/// Where one call stands in a distributed trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trace {
    id: u128,
    span: u64,
    flags: u8,
}

impl Trace {
    /// The call in the trace that `traceparent` names, or in one of its own where that is missing or not valid. Ids come
    /// from `fresh`. A host that does not sample its trace is followed in that.
    pub fn new(traceparent: Option<&str>, fresh: impl Fn() -> Uuid) -> Self {
        let (id, flags) = traceparent
            .and_then(read)
            .unwrap_or_else(|| (fresh().as_u128().max(1), SAMPLED));
        // The first half of a random UUID has four bits that are always the same, the second half two.
        let span = fresh().as_u64_pair().1.max(1);
        Self { id, span, flags }
    }

    /// The trace's id: 32 lower-case hexadecimal digits.
    pub fn id(&self) -> String {
        Uuid::from_u128(self.id).simple().to_string()
    }

    /// The header's value for requests of this call.
    pub fn traceparent(&self) -> String {
        // A UUID's digits are written several times as fast as a number's.
        let id = Uuid::from_u128(self.id).simple();
        format!("00-{id}-{:016x}-{:02x}", self.span, self.flags)
    }
}

/// The trace id and the sampled flag of a valid `traceparent` (W3C Trace Context §3.2.2 and, for later versions, §4.3).
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

    const GIVEN: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_call_stays_in_the_trace_it_is_given_under_a_span_of_its_own() {
        let trace = Trace::new(Some(GIVEN), Uuid::new_v4);
        assert_eq!(trace.id(), "0af7651916cd43dd8448eb211c80319c");
        let sent = trace.traceparent();
        assert_ne!(sent[36..52], GIVEN[36..52]);
        assert_eq!(read(&sent), read(GIVEN));
    }

    #[test]
    fn a_call_without_a_trace_begins_a_sampled_one() {
        let [one, other] = [0, 1].map(|_| Trace::new(None, Uuid::new_v4));
        assert_ne!(one.id(), other.id());
        let sent = one.traceparent();
        assert!(sent.ends_with("-01"), "{sent}");
        assert!(read(&sent).is_some(), "{sent}");
    }

    #[test]
    fn a_host_that_does_not_sample_is_followed_in_that() {
        let given = GIVEN.replace("-01", "-02");
        let sent = Trace::new(Some(&given), Uuid::new_v4).traceparent();
        assert!(sent.ends_with("-00"), "{sent}");
    }

    #[test]
    fn ids_are_never_zero() {
        let sent = Trace::new(None, Uuid::nil).traceparent();
        assert!(read(&sent).is_some(), "{sent}");
    }

    #[test]
    fn what_is_no_traceparent_counts_as_none() {
        let later = format!("01{}", &GIVEN[2..]);
        assert!(read(&later).is_some());
        assert!(read(&format!("{later}-more")).is_some());
        let wrong = [
            String::new(),
            GIVEN.to_uppercase(),
            format!("{GIVEN}-more"),
            format!("{later}more"),
            format!("ff{}", &GIVEN[2..]),
            GIVEN.replace('-', "_"),
            GIVEN[..54].to_owned(),
            GIVEN.replace("0af7651916cd43dd8448eb211c80319c", &"0".repeat(32)),
            GIVEN.replace("b7ad6b7169203331", &"0".repeat(16)),
            GIVEN.replace("0af7", "+af7"),
            GIVEN.replace("0af7", "0äf"),
        ];
        for text in wrong {
            assert_eq!(read(&text), None, "{text}");
        }
    }
}
