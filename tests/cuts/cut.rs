//! The cuts.

use std::sync::Arc;

use crate::cuts::recording::Recording;

/// A cut of one connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cut {
    /// Its place in the list of recordings.
    pub(crate) recording: usize,
    pub(crate) point: CutPoint,
    /// The number of sent bytes of the response.
    pub(crate) offset: usize,
    pub(crate) end_kind: EndKind,
    pub(crate) aftermath: Aftermath,
}

/// The response to cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CutPoint {
    /// A chunked stream. An end without the last chunk is incomplete.
    Stream,
    /// A stream that ends with its connection. An end at any byte looks complete.
    Unframed,
    /// A subscription to an earlier task.
    Watched,
    /// The single answer to a message.
    Reply,
}

/// The end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EndKind {
    /// A close.
    Fin,
    /// A reset.
    Rst,
    /// No end: the peer stays silent.
    Stall,
}

/// The behaviour of the peer after a cut. Its task always continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Aftermath {
    /// A subscription begins with the current task.
    Snapshot,
    /// A subscription begins with the next event; the client may have missed some.
    Bare,
    /// The peer refuses subscriptions; each poll shows more of the task.
    Polled,
    /// The task has finished; the peer answers a subscription like the recorded server.
    Finished,
    /// The first subscription is cut as well.
    SecondCut,
    /// Like `Bare`, and later pieces appear twice in the task: the official Python server of 0.3 adds a piece once for each
    /// subscriber.
    Doubled,
    /// The peer has lost the task.
    Lost,
}

/// Every behaviour.
pub(crate) const EVERY_AFTERMATH: [Aftermath; 7] = [
    Aftermath::Snapshot,
    Aftermath::Bare,
    Aftermath::Polled,
    Aftermath::Finished,
    Aftermath::SecondCut,
    Aftermath::Doubled,
    Aftermath::Lost,
];

/// The behaviours to combine with each cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Combinations {
    All,
    /// One behaviour at each byte, in turn.
    InTurn,
}

/// Returns every cut at each `stride`-th byte.
pub(crate) fn every_cut(
    recordings: &[Arc<Recording>],
    stride: usize,
    combinations: Combinations,
) -> Vec<Cut> {
    let mut cuts = Vec::new();
    for (recording, recorded) in recordings.iter().enumerate() {
        // The turns begin elsewhere for each, so that a byte sees several ways.
        for (point, first) in [
            (CutPoint::Stream, 0),
            (CutPoint::Unframed, 2),
            (CutPoint::Watched, 4),
            (CutPoint::Reply, 0),
        ] {
            for (turn, offset) in (0..recorded.bytes(point).len()).step_by(stride).enumerate() {
                let aftermath = match (point, combinations) {
                    // A cut reply has no continuation.
                    (CutPoint::Reply, _) => &EVERY_AFTERMATH[..1],
                    (_, Combinations::All) => &EVERY_AFTERMATH[..],
                    (_, Combinations::InTurn) => {
                        &EVERY_AFTERMATH[(first + turn) % EVERY_AFTERMATH.len()..][..1]
                    }
                };
                cuts.extend(aftermath.iter().map(|aftermath| Cut {
                    recording,
                    point,
                    offset,
                    end_kind: how(offset, *aftermath),
                    aftermath: *aftermath,
                }));
            }
        }
    }
    cuts
}

/// Returns closes and resets in turn, and sometimes silence, so that each occurs with each behaviour.
fn how(offset: usize, aftermath: Aftermath) -> EndKind {
    let turn = offset / EVERY_AFTERMATH.len();
    match (turn + turn / EVERY_AFTERMATH.len()) % 16 {
        // The test cannot determine which bytes a reset connection had received.
        15 if aftermath != Aftermath::Doubled => EndKind::Stall,
        even if even % 2 == 0 => EndKind::Fin,
        _ => EndKind::Rst,
    }
}

impl Cut {
    pub(crate) fn name(&self, recordings: &[Arc<Recording>]) -> String {
        format!(
            "{} {:?} at byte {} ({:?}, then {:?})",
            recordings[self.recording].name, self.point, self.offset, self.end_kind, self.aftermath
        )
    }
}
