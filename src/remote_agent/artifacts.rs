//! The artifacts of one task, assembled from pieces and from snapshots, and the text of an artifact, in pages.
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
//!
//! Models read an artifact as one text, and `offset` counts in it ([`ArtifactPage`]).

use std::borrow::Cow;
use std::collections::HashMap;

use a2a::{Artifact, ArtifactPart, Task, text_part};
use base::json;
use base::redact::Secrets;
use serde::Serialize;
use serde_json::Value;

use super::error::{Reason, ToolError};
use super::extension_text::interface_text;
use crate::config::Limits;

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
    entries: Vec<ArtifactEntry>,
    /// The position of each id: one, unless the agent gave one id to several artifacts.
    by_id: HashMap<String, Vec<usize>>,
    bytes: usize,
    /// Whether the call may have missed pieces, of known artifacts or of others.
    gap: Gap,
    max_artifacts: usize,
    max_bytes: usize,
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
struct ArtifactEntry {
    artifact: Artifact,
    bytes: usize,
    /// The first part after the last gap; `None` if nothing is missing.
    since_gap: Option<usize>,
}

/// One artifact of a snapshot: its current position, and its replacement with its bytes.
type SnapshotChange = (Option<usize>, Option<(Artifact, usize)>);

impl Artifacts {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            entries: Vec::new(),
            by_id: HashMap::new(),
            bytes: 0,
            gap: Gap::None,
            max_artifacts: limits.artifacts,
            max_bytes: limits.response_bytes,
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Artifact> {
        self.entries.iter().map(|entry| &entry.artifact)
    }

    /// Returns their size, in bytes of JSON.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Removes and returns the artifacts.
    pub(super) fn take(&mut self) -> Vec<Artifact> {
        self.by_id.clear();
        self.bytes = 0;
        let entries = std::mem::take(&mut self.entries);
        entries.into_iter().map(|entry| entry.artifact).collect()
    }

    /// Redacts the texts of all artifacts as if they were one.
    pub(super) fn redact(&mut self, secrets: &Secrets) {
        let entries = self.entries.iter_mut();
        let mut texts: Vec<_> = entries
            .flat_map(|entry| entry.artifact.texts_mut())
            .collect();
        secrets.redact_joined(&mut texts);
    }

    /// Records that pieces may be missing from here on, as likely as `gap` says.
    pub(super) fn open_gap(&mut self, gap: Gap) {
        self.gap = gap;
        for entry in &mut self.entries {
            entry.since_gap = Some(entry.artifact.parts().len());
        }
    }

    /// Records that no piece is missing.
    pub(super) fn close_gap(&mut self) {
        if self.gap != Gap::None {
            self.gap = Gap::None;
            for entry in &mut self.entries {
                entry.since_gap = None;
            }
        }
    }

    pub(super) fn gap(&self) -> Gap {
        self.gap
    }

    /// Adds an artifact, or a piece of one, that came in `bytes` bytes of JSON.
    ///
    /// # Errors
    /// [`Reason::TooManyArtifacts`] or [`Reason::ArtifactsTooLarge`] beyond the limits; earlier artifacts stay.
    pub(super) fn add_piece(
        &mut self,
        piece: Artifact,
        append: bool,
        bytes: usize,
    ) -> Result<(), ToolError> {
        let at = match (piece.id(), append) {
            // A piece without an artifact id continues the newest artifact, or starts one.
            ("", true) => self.entries.len().checked_sub(1),
            ("", false) => None,
            (id, _) => self.by_id.get(id).and_then(|at| at.last()).copied(),
        };
        let replaced = at.filter(|_| !append).map_or(0, |i| self.entries[i].bytes);
        let freed = at.filter(|_| append).map_or(0, |i| {
            let values = self.entries[i].artifact.replaced_values(&piece);
            values.map(json::memory).sum()
        });
        let bytes = bytes.max(value_memory(&piece).saturating_sub(freed) / MAX_VALUE_RATIO);
        let all = self.bytes + bytes - replaced;
        self.check_bytes(all)?;
        match at {
            Some(i) if append => {
                self.entries[i].artifact.append(piece);
                self.entries[i].bytes += bytes;
            }
            Some(i) => self.entries[i] = ArtifactEntry::new(piece, bytes),
            None if self.entries.len() == self.max_artifacts => return Err(self.too_many()),
            None => {
                let piece = piece.numbered(self.entries.len());
                let places = self.by_id.entry(piece.id().to_owned());
                places.or_default().push(self.entries.len());
                let since_gap = (append && self.gap != Gap::None).then_some(0);
                self.entries.push(ArtifactEntry {
                    since_gap,
                    ..ArtifactEntry::new(piece, bytes)
                });
            }
        }
        let i = at.unwrap_or(self.entries.len() - 1);
        if append && self.entries[i].since_gap.is_some() {
            self.gap = Gap::Open;
        }
        self.bytes = all;
        Ok(())
    }

    /// Applies a snapshot by the rule above. Returns whether it added anything.
    ///
    /// # Errors
    /// [`Reason::TooManyArtifacts`] or [`Reason::ArtifactsTooLarge`] beyond the limits; earlier artifacts stay.
    pub(super) fn apply_snapshot(
        &mut self,
        task: &Task,
        source: Source,
    ) -> Result<bool, ToolError> {
        let mut occurrences: HashMap<String, usize> = HashMap::new();
        let mut replaced_count = 0;
        let mut bytes = self.bytes;
        let mut changes: Vec<SnapshotChange> = Vec::new();
        for shown in task.artifacts() {
            let at = self.by_id.get(shown.id()).and_then(|all| {
                let occurrence = occurrences.entry(shown.id().to_owned()).or_default();
                *occurrence += 1;
                all.get(*occurrence - 1).copied()
            });
            replaced_count += usize::from(at.is_some());
            let current = at.map(|at| &self.entries[at]);
            let shown = match current {
                Some(entry) => entry.without_repeats(shown, source),
                None => shown,
            };
            if current.is_some_and(|entry| !entry.is_replaced_by(&shown, source)) {
                changes.push((at, None));
                continue;
            }
            let added_bytes = counted_bytes(&shown);
            bytes = bytes + added_bytes - current.map_or(0, |entry| entry.bytes);
            changes.push((at, Some((shown, added_bytes))));
            if self.entries.len() - replaced_count + changes.len() > self.max_artifacts {
                return Err(self.too_many());
            }
        }
        if changes.is_empty() {
            if self.entries.is_empty() {
                self.gap = Gap::None;
            }
            return Ok(false);
        }
        self.check_bytes(bytes)?;
        self.bytes = bytes;
        let changed = changes.iter().any(|(_, new)| new.is_some());
        if keeps_order(&changes, self.entries.len()) {
            self.replace_in_place(changes);
        } else {
            self.reorder(changes);
        }
        self.close_gap();
        Ok(changed)
    }

    fn replace_in_place(&mut self, changes: Vec<SnapshotChange>) {
        for (at, new) in changes {
            let Some((artifact, bytes)) = new else {
                continue;
            };
            let new = ArtifactEntry::new(artifact, bytes);
            if let Some(at) = at {
                self.entries[at] = new;
            } else {
                let places = self.by_id.entry(new.artifact.id().to_owned());
                places.or_default().push(self.entries.len());
                self.entries.push(new);
            }
        }
    }

    fn reorder(&mut self, changes: Vec<SnapshotChange>) {
        let mut old: Vec<_> = std::mem::take(&mut self.entries)
            .into_iter()
            .map(Some)
            .collect();
        let shown = changes.into_iter().filter_map(|(at, new)| {
            let previous = at.and_then(|at| old[at].take());
            new.map(|(artifact, bytes)| ArtifactEntry::new(artifact, bytes))
                .or(previous)
        });
        self.entries = shown.collect();
        self.entries.extend(old.into_iter().flatten());
        self.by_id.clear();
        for (at, entry) in self.entries.iter().enumerate() {
            let places = self.by_id.entry(entry.artifact.id().to_owned());
            places.or_default().push(at);
        }
    }

    fn check_bytes(&self, bytes: usize) -> Result<(), ToolError> {
        if bytes <= self.max_bytes {
            return Ok(());
        }
        let message = format!(
            "the artifacts are larger than {} bytes together",
            self.max_bytes
        );
        Err(ToolError::new(Reason::ArtifactsTooLarge, message))
    }

    fn too_many(&self) -> ToolError {
        let message = format!("the task has more than {} artifacts", self.max_artifacts);
        ToolError::new(Reason::TooManyArtifacts, message)
    }
}

impl ArtifactEntry {
    fn new(artifact: Artifact, bytes: usize) -> Self {
        Self {
            artifact,
            bytes,
            since_gap: None,
        }
    }

    /// Removes the copies that an agent stored because several callers listened.
    fn without_repeats(&self, shown: Artifact, source: Source) -> Artifact {
        match (source, self.since_gap) {
            (Source::Polled, Some(from)) => shown.without_repeats(&self.artifact, from),
            _ => shown,
        }
    }

    /// Returns whether the snapshot's version replaces the current one.
    fn is_replaced_by(&self, shown: &Artifact, source: Source) -> bool {
        let trusted = match (source, self.since_gap) {
            (Source::Streamed, _) => true,
            (Source::Polled, None) => false,
            (Source::Polled, Some(from)) => shown.ends_with(&self.artifact, from),
        };
        trusted && self.artifact != *shown
    }
}

/// Returns whether the shown artifacts are already at the front in this order, with new ones behind all others.
fn keeps_order(changes: &[SnapshotChange], len: usize) -> bool {
    let mut changes = changes.iter().enumerate();
    changes.all(|(i, (at, _))| at.map_or(i >= len, |at| at == i))
}

/// The memory that the values of artifacts may take, as a multiple of the limit on their length: that of an answer in one piece,
/// because a result and its host have the values several times.
const MAX_VALUE_RATIO: usize = 2;

/// Returns the bytes that an artifact counts against the limit, like a piece of the same values.
fn counted_bytes(artifact: &Artifact) -> usize {
    let values = value_memory(artifact);
    let text_bytes = json::memory(&text_part(""));
    let texts = artifact.parts().iter().map(|part| match part {
        ArtifactPart::Text(text) => text_bytes + text.len(),
        ArtifactPart::Other(_) => 0,
    });
    let memory = values + texts.sum::<usize>();
    json::counted_bytes(json::encoded_bytes(artifact), memory).max(values / MAX_VALUE_RATIO)
}

/// Returns the estimated memory of the values that an artifact keeps beside its texts, in bytes.
fn value_memory(artifact: &Artifact) -> usize {
    let parts = artifact.parts().iter().filter_map(|part| match part {
        ArtifactPart::Text(_) => None,
        ArtifactPart::Other(part) => Some(json::memory(part)),
    });
    parts.chain(artifact.values().map(json::memory)).sum()
}

/// How many artifacts of a task an error lists.
const MAX_LISTED_ARTIFACTS: usize = 100;

pub(super) enum Piece<'a> {
    /// A text part.
    Text(Cow<'a, str>),
    /// Any other part, as JSON, or as the text of an interface that it describes.
    Json(Cow<'a, str>),
}

impl<'a> Piece<'a> {
    fn for_part(part: &'a ArtifactPart) -> Self {
        let part = match part {
            ArtifactPart::Text(text) => return Self::Text(text.into()),
            ArtifactPart::Other(part) => part,
        };
        let is_text = part["kind"].as_str().is_none_or(|kind| kind == "text");
        match part["text"].as_str().filter(|_| is_text) {
            Some(text) => Self::Text(text.into()),
            None => Self::json(part.to_string().into()),
        }
    }

    /// Returns the piece for a part that is not text.
    pub(super) fn json(part: Cow<'a, str>) -> Self {
        Self::Json(interface_text(&part).map_or(part, Cow::from))
    }
}

/// Joins the text of an artifact: its text parts without a separator, because a stream sends them in pieces, and its
/// files and data as JSON, each on its own line.
pub(super) fn joined<'a>(mut pieces: impl Iterator<Item = Piece<'a>>) -> Cow<'a, str> {
    let Some(first) = pieces.next() else {
        return Cow::Borrowed("");
    };
    let (mut all, mut ended) = match first {
        Piece::Text(text) => (text, false),
        Piece::Json(json) => (json, true),
    };
    for piece in pieces {
        let (text, json) = match piece {
            Piece::Text(text) => (text, false),
            Piece::Json(json) => (json, true),
        };
        let all = all.to_mut();
        if (ended || json) && !all.is_empty() && !all.ends_with('\n') {
            all.push('\n');
        }
        all.push_str(&text);
        ended = json;
    }
    all
}

/// `summary.artifact_page`: a page of an artifact's text. All numbers count Unicode scalar values.
#[derive(Debug, Serialize)]
pub(super) struct ArtifactPage<'a> {
    artifact_id: &'a str,
    offset: usize,
    /// The offset of the next page; `None` at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_offset: Option<usize>,
    total: usize,
    text: String,
    /// The next artifact, so that a model can read a long list one by one.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_artifact_id: Option<&'a str>,
}

impl<'a> ArtifactPage<'a> {
    /// Returns at most `chars` characters of the artifact `id`, from `offset`.
    ///
    /// # Errors
    /// [`Reason::UnknownArtifact`], with the known ids.
    pub(super) fn new(
        artifacts: &[&'a Artifact],
        id: &str,
        offset: u64,
        chars: usize,
    ) -> Result<Self, ToolError> {
        let Some(at) = artifacts.iter().position(|artifact| artifact.id() == id) else {
            return Err(unknown_artifact(artifacts, id));
        };
        let text = joined(artifacts[at].parts().iter().map(Piece::for_part));
        let total = text.chars().count();
        let offset = usize::try_from(offset).unwrap_or(usize::MAX);
        let text: String = text.chars().skip(offset).take(chars).collect();
        let next_offset = offset
            .checked_add(text.chars().count())
            .filter(|end| *end < total);
        Ok(Self {
            artifact_id: artifacts[at].id(),
            offset,
            next_offset,
            total,
            text,
            next_artifact_id: artifacts.get(at + 1).map(|next| next.id()),
        })
    }
}

/// Removes everything but ids and state from a task: the `raw` of a page, which is requested to read little.
pub(super) fn ids_and_state(mut task: Value) -> Value {
    if let Some(task) = task.as_object_mut() {
        task.retain(|key, _| matches!(key.as_str(), "kind" | "id" | "contextId" | "status"));
    }
    if let Some(status) = task.get_mut("status").and_then(Value::as_object_mut) {
        status.retain(|key, _| matches!(key.as_str(), "state" | "timestamp"));
    }
    task
}

fn unknown_artifact(artifacts: &[&Artifact], id: &str) -> ToolError {
    let message = match artifacts.len() {
        0 => "the task has no artifacts".to_owned(),
        1 => "the task has one artifact, and its id differs".to_owned(),
        count => format!("the task has {count} artifacts, and none of them has this id"),
    };
    let known = artifacts
        .iter()
        .take(MAX_LISTED_ARTIFACTS)
        .map(|artifact| artifact.id());
    let error = ToolError::local(Reason::UnknownArtifact, message)
        .with("artifact_id", id)
        .with("known_artifact_ids", known.collect::<Vec<_>>());
    match artifacts.len().saturating_sub(MAX_LISTED_ARTIFACTS) {
        0 => error,
        more => error.with("more_artifacts", more),
    }
}

#[cfg(test)]
mod artifact_text_tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;
    use serde_json::json;

    use a2a::Event;

    use super::*;

    fn artifact(id: &str, parts: Value) -> Artifact {
        let task = json!({"kind": "task", "id": "t", "status": {"state": "working"},
            "artifacts": [{"artifactId": id, "parts": parts}]});
        match Event::read(task).unwrap() {
            Event::Task(task) => task.artifacts().next().unwrap(),
            other => unreachable!("{other:?}"),
        }
    }

    fn page<'a>(
        artifacts: &'a [Artifact],
        id: &str,
        offset: u64,
        chars: usize,
    ) -> Result<ArtifactPage<'a>, ToolError> {
        ArtifactPage::new(&artifacts.iter().collect::<Vec<_>>(), id, offset, chars)
    }

    #[test]
    fn joins_texts_and_puts_other_parts_on_lines() {
        let parts = json!([{"kind": "text", "text": "on"}, {"kind": "text", "text": "e"}, {"kind": "data", "data": {"k": 1}},
            {"kind": "file", "file": {"uri": "u"}}, {"text": "two\n"}, {"kind": "data", "data": {}}]);
        let artifact = artifact("a", parts);
        assert_eq!(
            joined(artifact.parts().iter().map(Piece::for_part)),
            "one\n{\"data\":{\"k\":1},\"kind\":\"data\"}\n{\"file\":{\"uri\":\"u\"},\"kind\":\"file\"}\ntwo\n{\"data\":{},\"kind\":\"data\"}"
        );
    }

    #[test]
    fn artifact_counts_by_the_memory_of_its_json() {
        let parts: Vec<Value> = (0..20)
            .map(|i| json!({"kind": "text", "text": "x".repeat(i)}))
            .collect();
        let memory = parts.iter().map(json::memory).sum();
        let artifact = artifact("a", json!(parts));
        let bytes = json::counted_bytes(json::encoded_bytes(&artifact), memory);
        assert_eq!(counted_bytes(&artifact), bytes);
    }

    #[test]
    fn unknown_artifact_error_lists_known_ids() {
        let all = [artifact("a", json!([])), artifact("b", json!([]))];
        let error = page(&all, "c", 0, 10).unwrap_err();
        assert_eq!(error.reason, Reason::UnknownArtifact);
        assert_eq!(error.details["known_artifact_ids"], json!(["a", "b"]));
        let many: Vec<_> = (0..MAX_LISTED_ARTIFACTS + 7)
            .map(|i| artifact(&i.to_string(), json!([])))
            .collect();
        let error = page(&many, "c", 0, 10).unwrap_err();
        assert_eq!(error.details["more_artifacts"], 7);
    }

    #[test]
    fn page_beyond_the_end_is_empty_and_last() {
        let all = [
            artifact("a", json!([{"kind": "text", "text": "abc"}])),
            artifact("b", json!([])),
        ];
        let page = page(&all, "a", u64::MAX, 10).unwrap();
        assert_eq!(
            (page.text.as_str(), page.next_offset, page.total),
            ("", None, 3)
        );
        assert_eq!(page.next_artifact_id, Some("b"));
    }

    proptest! {
        #[test]
        fn pages_add_up_to_the_whole_text(texts in proptest::collection::vec(any::<String>(), 0..4), data in any::<String>(), chars in 1usize..40) {
            let mut parts: Vec<Value> = texts.iter().map(|text| json!({"kind": "text", "text": text})).collect();
            parts.push(json!({"kind": "data", "data": {"k": data}}));
            let all = [artifact("a", json!(parts))];
            let whole = joined(all[0].parts().iter().map(Piece::for_part));
            let mut read = String::new();
            let mut offset = Some(0);
            while let Some(from) = offset {
                let page = page(&all, "a", from as u64, chars).unwrap();
                prop_assert!(page.text.chars().count() <= chars);
                prop_assert_eq!(page.total, whole.chars().count());
                read.push_str(&page.text);
                offset = page.next_offset;
            }
            prop_assert_eq!(read, whole.into_owned());
        }
    }
}

#[cfg(test)]
mod tests;
