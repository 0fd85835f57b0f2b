//! The fence around what a stranger wrote, in the form that OpenClaw 2026.9.6 gives to content from outside: its own
//! code knows these markers, and models have met them.

use uuid::Uuid;

/// A fence with an id of its own, which nobody outside can know beforehand.
pub(super) struct Fence {
    id: String,
}

impl Fence {
    /// How many characters a fence takes beside what it holds.
    pub(super) const CHARS: usize = 135;

    /// The fence whose id is made of `uuid`: 64 bits, as OpenClaw's.
    pub(super) fn new(uuid: Uuid) -> Self {
        // Each half has bits that are the same in every UUID; together they have none.
        let (high, low) = uuid.as_u64_pair();
        Self {
            id: format!("{:016x}", high ^ low),
        }
    }

    /// `body` inside the fence. It must be harmless already, and take no line end with it.
    pub(super) fn around(&self, body: &str) -> String {
        let id = &self.id;
        format!(
            "<<<EXTERNAL_UNTRUSTED_CONTENT id=\"{id}\">>>\nSource: External\n---\n{body}\n<<<END_EXTERNAL_UNTRUSTED_CONTENT id=\"{id}\">>>"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_is_as_openclaw_makes_it_and_as_long_as_it_says() {
        let fence = Fence::new(Uuid::from_u64_pair(
            0x0123_4567_89ab_4def,
            0x8000_0000_0000_0001,
        ));
        let fenced = fence.around("text");
        assert_eq!(
            fenced,
            "<<<EXTERNAL_UNTRUSTED_CONTENT id=\"8123456789ab4dee\">>>\nSource: External\n---\ntext\n<<<END_EXTERNAL_UNTRUSTED_CONTENT id=\"8123456789ab4dee\">>>"
        );
        assert_eq!(fenced.chars().count(), Fence::CHARS + 4);
    }
}
