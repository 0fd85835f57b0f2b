//! The cuts.

use std::sync::Arc;

use crate::cuts::recording::Recording;

/// One connection that is cut.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cut {
    /// Its place in the list of recordings.
    pub(crate) recording: usize,
    pub(crate) what: CutPoint,
    /// How many bytes of the response are sent.
    pub(crate) offset: usize,
    pub(crate) how: How,
    pub(crate) then: Then,
}

/// The response that is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CutPoint {
    /// A stream in chunks: an end without the last chunk is an end before its time.
    Stream,
    /// A stream that ends when its connection does: an end at any byte looks like the end of the body.
    Unframed,
    /// A subscription to a task that was begun before.
    Watched,
    /// The one answer to a message.
    Reply,
}

/// How a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// Closed in order.
    Fin,
    /// Reset.
    Rst,
    /// Not at all: nothing more comes.
    Stall,
}

/// The behavior of the peer after a cut. Its task continues in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Then {
    /// A subscription begins with the task in its current state.
    Snapshot,
    /// A subscription begins with the next event; some may have been missed.
    Bare,
    /// Subscribing is refused; each look at the task shows more of it.
    Polled,
    /// The task has finished; the peer answers a subscription as the recorded server does then.
    Finished,
    /// The first subscription is cut as well.
    CutAgain,
    /// As `Bare`, and the peer tells in its answers about the task each piece twice that it has said since: the official Python
    /// server of 0.3 adds a piece to its task once for each listener.
    Doubled,
    /// The peer knows nothing of the task any more.
    Gone,
}

/// Every way to go on.
pub(crate) const EVERY_THEN: [Then; 7] = [
    Then::Snapshot,
    Then::Bare,
    Then::Polled,
    Then::Finished,
    Then::CutAgain,
    Then::Doubled,
    Then::Gone,
];

/// The behaviors that each cut is combined with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ways {
    All,
    /// One at each byte.
    InTurn,
}

/// Returns every cut at each `stride`-th byte.
pub(crate) fn every_cut(recordings: &[Arc<Recording>], stride: usize, ways: Ways) -> Vec<Cut> {
    let mut cuts = Vec::new();
    for (recording, recorded) in recordings.iter().enumerate() {
        // The turns begin elsewhere for each, so that a byte sees several ways.
        for (what, first) in [
            (CutPoint::Stream, 0),
            (CutPoint::Unframed, 2),
            (CutPoint::Watched, 4),
            (CutPoint::Reply, 0),
        ] {
            for (turn, offset) in (0..recorded.bytes(what).len()).step_by(stride).enumerate() {
                let then = match (what, ways) {
                    // There is no way to go on.
                    (CutPoint::Reply, _) => &EVERY_THEN[..1],
                    (_, Ways::All) => &EVERY_THEN[..],
                    (_, Ways::InTurn) => &EVERY_THEN[(first + turn) % EVERY_THEN.len()..][..1],
                };
                cuts.extend(then.iter().map(|then| Cut {
                    recording,
                    what,
                    offset,
                    how: how(offset, *then),
                    then: *then,
                }));
            }
        }
    }
    cuts
}

/// Ends and resets in turn, and now and then nothing, so that each goes with each way to go on.
fn how(offset: usize, then: Then) -> How {
    let turn = offset / EVERY_THEN.len();
    match (turn + turn / EVERY_THEN.len()) % 16 {
        // The test cannot know what a closed stream had received.
        15 if then != Then::Doubled => How::Stall,
        even if even % 2 == 0 => How::Fin,
        _ => How::Rst,
    }
}

impl Cut {
    pub(crate) fn name(&self, recordings: &[Arc<Recording>]) -> String {
        format!(
            "{} {:?} at byte {} ({:?}, then {:?})",
            recordings[self.recording].name, self.what, self.offset, self.how, self.then
        )
    }
}
