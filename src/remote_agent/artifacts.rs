//! The artifacts of one task, assembled from pieces and from snapshots.
//!
//! **The rule.** A stream sends an artifact in pieces, in order and each once, so one connection leaves no gap. Between
//! two connections the call may miss pieces. That is a gap, and only a snapshot, the task as a whole, fills it.
//!
//! - A snapshot in a stream has a position among the pieces: it holds all pieces before it and none after it. It
//!   replaces the artifacts that it shows.
//! - A requested snapshot has no position. It may hold pieces that the stream has yet to send, and some agents
//!   store each piece twice while two callers listen. So it replaces an artifact only where that has a gap, and only
//!   where the snapshot ends with the pieces received since the gap, even if it repeats each of them: a consistent task
//!   does.
//! - No snapshot removes an artifact. An artifact that it does not show stays, behind those that it shows.

use std::collections::HashMap;
use std::io;

use serde::Serialize;

use crate::config::Limits;
use a2a::{Artifact, Task};
use common::redact::Secrets;

use super::error::{Reason, ToolError};

/// The source of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// A stream sent it, at its position among the pieces; or it is the only answer to a call.
    Streamed,
    /// The call requested it during or after a stream.
    Polled,
}

/// The artifacts of one task, in the order of their first piece, or of the last snapshot.
#[derive(Debug)]
pub(super) struct Artifacts {
    held: Vec<HeldArtifact>,
    /// The position of each id: one, unless the agent gave one id to several artifacts.
    by_id: HashMap<String, Vec<usize>>,
    bytes: usize,
    /// Whether the call may have missed pieces, of known artifacts or of others.
    gap: Gap,
    most: usize,
    most_bytes: usize,
}

/// How likely it is that pieces are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gap {
    None,
    /// Only between a snapshot and the subscription right after it. A piece that continues another one shows that some
    /// are missing.
    Unlikely,
    Open,
}

#[derive(Debug)]
struct HeldArtifact {
    artifact: Artifact,
    bytes: usize,
    /// The first part after the last gap; `None` where nothing is missing.
    since_gap: Option<usize>,
}

/// One artifact of a snapshot: its current position, and its replacement with its bytes.
type SnapshotChange = (Option<usize>, Option<(Artifact, usize)>);

impl Artifacts {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            held: Vec::new(),
            by_id: HashMap::new(),
            bytes: 0,
            gap: Gap::None,
            most: limits.artifacts,
            most_bytes: limits.response_bytes,
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Artifact> {
        self.held.iter().map(|held| &held.artifact)
    }

    /// Returns their size, in bytes of JSON.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Removes and returns the artifacts.
    pub(super) fn take(&mut self) -> Vec<Artifact> {
        self.by_id.clear();
        self.bytes = 0;
        let held = std::mem::take(&mut self.held);
        held.into_iter().map(|held| held.artifact).collect()
    }

    /// Redacts the texts of all artifacts as if they were one.
    pub(super) fn redact(&mut self, secrets: &Secrets) {
        let held = self.held.iter_mut();
        let mut texts: Vec<_> = held.flat_map(|held| held.artifact.texts_mut()).collect();
        secrets.redact_joined(&mut texts);
    }

    /// Records that pieces may be missing from here on, as likely as `gap` says.
    pub(super) fn open_gap(&mut self, gap: Gap) {
        self.gap = gap;
        for held in &mut self.held {
            held.since_gap = Some(held.artifact.parts().len());
        }
    }

    pub(super) fn gap(&self) -> Gap {
        self.gap
    }

    /// Adds an artifact, or a piece of one, that came in `bytes` bytes of JSON.
    ///
    /// # Errors
    /// [`Reason::TooManyArtifacts`] or [`Reason::ArtifactsTooLarge`] beyond the limits; earlier artifacts stay.
    pub(super) fn piece(
        &mut self,
        piece: Artifact,
        append: bool,
        bytes: usize,
    ) -> Result<(), ToolError> {
        let at = match (piece.id(), append) {
            // A piece without an artifact id continues the newest artifact, or starts one.
            ("", true) => self.held.len().checked_sub(1),
            ("", false) => None,
            (id, _) => self.by_id.get(id).and_then(|at| at.last()).copied(),
        };
        let replaced = at.filter(|_| !append).map_or(0, |i| self.held[i].bytes);
        let all = self.bytes + bytes - replaced;
        self.check(all)?;
        match at {
            Some(i) if append => {
                self.held[i].artifact.append(piece);
                self.held[i].bytes += bytes;
            }
            Some(i) => self.held[i] = HeldArtifact::whole(piece, bytes),
            None if self.held.len() == self.most => return Err(self.too_many()),
            None => {
                let piece = piece.numbered(self.held.len());
                let places = self.by_id.entry(piece.id().to_owned());
                places.or_default().push(self.held.len());
                let since_gap = (append && self.gap != Gap::None).then_some(0);
                self.held.push(HeldArtifact {
                    since_gap,
                    ..HeldArtifact::whole(piece, bytes)
                });
            }
        }
        let i = at.unwrap_or(self.held.len() - 1);
        if append && self.held[i].since_gap.is_some() {
            self.gap = Gap::Open;
        }
        self.bytes = all;
        Ok(())
    }

    /// Applies a snapshot by the rule above. Returns whether it added anything.
    ///
    /// # Errors
    /// [`Reason::TooManyArtifacts`] or [`Reason::ArtifactsTooLarge`] beyond the limits; earlier artifacts stay.
    pub(super) fn show(&mut self, task: &Task, source: Source) -> Result<bool, ToolError> {
        let mut times: HashMap<String, usize> = HashMap::new();
        let mut known = 0;
        let mut bytes = self.bytes;
        let mut steps: Vec<SnapshotChange> = Vec::new();
        for shown in task.artifacts() {
            let at = self.by_id.get(shown.id()).and_then(|all| {
                let time = times.entry(shown.id().to_owned()).or_default();
                *time += 1;
                all.get(*time - 1).copied()
            });
            known += usize::from(at.is_some());
            let held = at.map(|at| &self.held[at]);
            let shown = match held {
                Some(held) => held.once_each(shown, source),
                None => shown,
            };
            if held.is_some_and(|held| !held.yields_to(&shown, source)) {
                steps.push((at, None));
                continue;
            }
            let weight = weight(&shown);
            bytes = bytes + weight - held.map_or(0, |held| held.bytes);
            steps.push((at, Some((shown, weight))));
            if self.held.len() - known + steps.len() > self.most {
                return Err(self.too_many());
            }
        }
        if steps.is_empty() {
            if self.held.is_empty() {
                self.gap = Gap::None;
            }
            return Ok(false);
        }
        self.check(bytes)?;
        self.bytes = bytes;
        let news = steps.iter().any(|(_, new)| new.is_some());
        if in_place(&steps, self.held.len()) {
            self.replace(steps);
        } else {
            self.arrange(steps);
        }
        if self.gap != Gap::None {
            self.gap = Gap::None;
            self.held.iter_mut().for_each(|held| held.since_gap = None);
        }
        Ok(news)
    }

    fn replace(&mut self, steps: Vec<SnapshotChange>) {
        for (at, new) in steps {
            let Some((artifact, bytes)) = new else {
                continue;
            };
            let new = HeldArtifact::whole(artifact, bytes);
            if let Some(at) = at {
                self.held[at] = new;
            } else {
                let places = self.by_id.entry(new.artifact.id().to_owned());
                places.or_default().push(self.held.len());
                self.held.push(new);
            }
        }
    }

    fn arrange(&mut self, steps: Vec<SnapshotChange>) {
        let mut old: Vec<_> = std::mem::take(&mut self.held)
            .into_iter()
            .map(Some)
            .collect();
        let shown = steps.into_iter().filter_map(|(at, new)| {
            let had = at.and_then(|at| old[at].take());
            new.map(|(artifact, bytes)| HeldArtifact::whole(artifact, bytes))
                .or(had)
        });
        self.held = shown.collect();
        self.held.extend(old.into_iter().flatten());
        self.by_id.clear();
        for (at, held) in self.held.iter().enumerate() {
            let places = self.by_id.entry(held.artifact.id().to_owned());
            places.or_default().push(at);
        }
    }

    fn check(&self, bytes: usize) -> Result<(), ToolError> {
        if bytes <= self.most_bytes {
            return Ok(());
        }
        let message = format!(
            "the artifacts are larger than {} bytes together",
            self.most_bytes
        );
        Err(ToolError::new(Reason::ArtifactsTooLarge, message))
    }

    fn too_many(&self) -> ToolError {
        let message = format!("the task has more than {} artifacts", self.most);
        ToolError::new(Reason::TooManyArtifacts, message)
    }
}

impl HeldArtifact {
    fn whole(artifact: Artifact, bytes: usize) -> Self {
        Self {
            artifact,
            bytes,
            since_gap: None,
        }
    }

    /// Removes the copies that an agent stored because several callers listened.
    fn once_each(&self, shown: Artifact, source: Source) -> Artifact {
        match (source, self.since_gap) {
            (Source::Polled, Some(from)) => shown.once_each(&self.artifact, from),
            _ => shown,
        }
    }

    /// Returns whether the snapshot's version replaces the current one.
    fn yields_to(&self, shown: &Artifact, source: Source) -> bool {
        let believed = match (source, self.since_gap) {
            (Source::Streamed, _) => true,
            (Source::Polled, None) => false,
            (Source::Polled, Some(from)) => shown.ends_with(&self.artifact, from),
        };
        believed && self.artifact != *shown
    }
}

/// Returns whether the shown artifacts are already at the front in this order, with new ones behind all others.
fn in_place(steps: &[SnapshotChange], held: usize) -> bool {
    let mut steps = steps.iter().enumerate();
    steps.all(|(i, (at, _))| at.map_or(i >= held, |at| at == i))
}

/// Returns the length of `value` as JSON, in bytes.
pub(super) fn weight(value: &impl Serialize) -> usize {
    struct ByteCounter(usize);
    impl io::Write for ByteCounter {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut count = ByteCounter(0);
    // Counting cannot fail, and the value came as JSON.
    let _ = serde_json::to_writer(&mut count, value);
    count.0
}

#[cfg(test)]
mod tests;
