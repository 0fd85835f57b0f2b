//! The fence around external text: the markers of OpenClaw 2026.9.6, without its line `Source:`, which would always say the
//! same.

use uuid::Uuid;

/// A fence whose id a peer cannot predict.
pub(super) struct Fence {
    id: String,
}

impl Fence {
    /// The length of the markers and their line ends, in characters.
    pub(super) const MARKER_CHARS: usize = 98;

    /// Creates a fence with an id of 32 bits, derived from `uuid`. The renderer removes forged markers with any id.
    pub(super) fn new(uuid: Uuid) -> Self {
        // Each half of a UUID has fixed bits; the combination has none.
        let (high, low) = uuid.as_u64_pair();
        Self {
            id: format!("{:08x}", (high ^ low) >> 32),
        }
    }

    /// Returns `body` between the markers. The caller has sanitized it; it has no line end at its end.
    pub(super) fn wrap(&self, body: &str) -> String {
        let id = &self.id;
        format!(
            "<<<EXTERNAL_UNTRUSTED_CONTENT id=\"{id}\">>>\n{body}\n<<<END_EXTERNAL_UNTRUSTED_CONTENT id=\"{id}\">>>"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn has_the_markers_of_openclaw_and_the_stated_length() {
        let fence = Fence::new(Uuid::from_u64_pair(
            0x0123_4567_89ab_4def,
            0x8000_0000_0000_0001,
        ));
        let fenced = fence.wrap("text");
        assert_eq!(
            fenced,
            "<<<EXTERNAL_UNTRUSTED_CONTENT id=\"81234567\">>>\ntext\n<<<END_EXTERNAL_UNTRUSTED_CONTENT id=\"81234567\">>>"
        );
        assert_eq!(fenced.chars().count(), Fence::MARKER_CHARS + 4);
    }
}
