//! The text of an agent: read from parts of messages and artifacts, divided into sections within a limit of characters,
//! and fenced.
//!
//! A character is a Unicode scalar value. The fence has the markers of OpenClaw 2026.9.6, without its line `Source:`, which
//! would always say the same.

use std::borrow::Cow;

use base::text::first_chars;
use serde_json::value::RawValue;
use uuid::Uuid;

use super::sanitize::sanitize;
use super::view::{Raw, Text};
use crate::remote_agent::artifacts::{Piece, joined};
use crate::remote_agent::extension_text::notes;

/// How many characters the note about omitted sections takes at most.
const OMISSION_NOTE_CHARS: usize = 40;

/// Text of an agent, under a label.
pub(super) struct Section<'a> {
    /// The label; sanitized, on one line.
    label: String,
    /// The id for fetching the rest of a cut text; sanitized, on one line.
    id: Option<String>,
    /// Omits the heading if it is the only section and whole.
    plain: bool,
    text: Cow<'a, str>,
    /// The position of the text in the whole, and the length of the whole, in characters.
    from: usize,
    total: usize,
}

impl<'a> Section<'a> {
    /// Creates a section with a whole text.
    pub(super) fn new(label: impl Into<String>, text: impl Into<Cow<'a, str>>) -> Self {
        let text = text.into();
        Self {
            label: label.into(),
            id: None,
            plain: true,
            from: 0,
            total: length(&text),
            text,
        }
    }

    /// Creates a section with a part of a text of `total` characters, which begins at `from`.
    pub(super) fn part(label: impl Into<String>, text: &'a str, from: usize, total: usize) -> Self {
        Self {
            label: label.into(),
            id: None,
            plain: true,
            text: text.into(),
            from,
            total,
        }
    }

    /// Sets the id for fetching the rest of its text.
    pub(super) fn with_id(mut self, id: String) -> Self {
        self.id = Some(id);
        self
    }

    /// Always writes the heading.
    pub(super) fn titled(mut self) -> Self {
        self.plain = false;
        self
    }

    /// Returns the heading for `shown` characters of text.
    fn heading(&self, shown: usize) -> String {
        let Self {
            label, from, total, ..
        } = self;
        if *from == 0 && shown == *total {
            return format!("[{label}]");
        }
        let id = self.id.as_ref().map(|id| format!(" {id}"));
        let to = from.saturating_add(shown);
        format!(
            "[{label}{}: characters {from} to {to} of {total}]",
            id.unwrap_or_default()
        )
    }

    /// Returns the length of the heading and two line ends, at most.
    fn overhead(&self) -> usize {
        length(&self.heading(self.total)).max(length(&self.heading(0))) + self.digits() + 2
    }

    /// The heading is measured with few digits and written with at most these more.
    fn digits(&self) -> usize {
        self.total.to_string().len()
    }

    fn needed(&self) -> usize {
        length(&self.text)
    }

    fn write(&self, room: usize, alone: bool, out: &mut String) {
        let shown = first_chars(&self.text, room);
        let whole = self.from == 0 && length(shown) == self.total;
        if !(alone && whole && self.plain) || shown.is_empty() {
            line(out, &self.heading(length(shown)));
        }
        if !shown.is_empty() {
            line(out, &sanitize(shown));
        }
    }
}

/// The sections in the order of reading.
#[derive(Default)]
pub(super) struct Sections<'a> {
    /// First, each with all the remaining room.
    first: Vec<Section<'a>>,
    /// One line each, if there is room; sanitized.
    notes: Vec<String>,
    /// They share the rest.
    shared: Vec<Section<'a>>,
}

/// A body, and whether it is complete.
pub(super) struct Body {
    pub(super) text: String,
    /// Whether a text was cut or a section omitted.
    pub(super) cut: bool,
}

impl<'a> Sections<'a> {
    /// Adds a section that must be read.
    pub(super) fn push_urgent(&mut self, section: Section<'a>) {
        self.first.push(section);
    }

    /// Adds a line such as an id.
    pub(super) fn note(&mut self, note: String) {
        self.notes.push(note);
    }

    /// Adds a section that shares the remaining room.
    pub(super) fn push_shared(&mut self, section: Section<'a>) {
        self.shared.push(section);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.first.is_empty() && self.notes.is_empty() && self.shared.is_empty()
    }

    /// Returns the body, in at most `room` characters.
    pub(super) fn body(&self, room: usize) -> Body {
        let mut text = String::new();
        let mut remaining = room;
        let mut cut = false;
        let alone = self.first.len() + self.shared.len() == 1;
        for section in &self.first {
            let Some(text_room) = remaining.checked_sub(section.overhead()) else {
                cut = true;
                continue;
            };
            let shown = section.needed().min(text_room);
            cut |= shown < section.needed();
            section.write(shown, alone, &mut text);
            remaining -= section.overhead() + shown;
        }
        for note in &self.notes {
            let chars = length(note) + 1;
            if chars <= remaining {
                line(&mut text, note);
                remaining -= chars;
            }
        }
        cut |= self.write_shared(remaining, &mut text);
        Body { text, cut }
    }

    /// Writes the shared sections, and returns whether any was cut. Headings take at most half of the room, unless the
    /// first one needs more, so that a long list leaves room for text.
    fn write_shared(&self, room: usize, text: &mut String) -> bool {
        let alone = self.first.len() + self.shared.len() == 1;
        let mut remaining = room.saturating_sub(OMISSION_NOTE_CHARS);
        let mut headings = 0;
        let mut count = 0;
        for section in &self.shared {
            headings += section.overhead();
            if headings > remaining || (count > 0 && headings > room / 2) {
                headings -= section.overhead();
                break;
            }
            count += 1;
        }
        remaining -= headings;
        let (listed, others) = self.shared.split_at(count);
        let needed: Vec<usize> = listed.iter().map(Section::needed).collect();
        let mut cut = !others.is_empty();
        for (section, share) in listed.iter().zip(share_out(&needed, remaining)) {
            section.write(share, alone, text);
            cut |= share < section.needed();
        }
        if !others.is_empty() && room >= OMISSION_NOTE_CHARS {
            line(text, &format!("[and {} more]", others.len()));
        }
        cut
    }
}

fn line(out: &mut String, line: &str) {
    if !out.is_empty() {
        out.push('\n');
    }
    out.push_str(line);
}

pub(super) fn length(text: &str) -> usize {
    text.chars().count()
}

/// Returns the text in at most `count` characters; an ellipsis marks a cut.
pub(super) fn shortened(text: &str, count: usize) -> String {
    let cut = first_chars(text, count);
    if cut.len() == text.len() {
        return text.to_owned();
    }
    format!("{}…", first_chars(cut, count.saturating_sub(1)))
}

/// Divides `room` among `needed`: equal shares, except that a smaller want leaves the rest to the others.
fn share_out(needed: &[usize], room: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..needed.len()).collect();
    order.sort_by_key(|&i| needed[i]);
    let mut share_out = vec![0; needed.len()];
    let mut remaining = room;
    for (done, &i) in order.iter().enumerate() {
        share_out[i] = needed[i].min(remaining / (order.len() - done));
        remaining -= share_out[i];
    }
    share_out
}

/// Returns the text of an artifact with these parts, which a page's offset counts in.
pub(super) fn artifact_text<'a>(parts: &[&'a RawValue]) -> Cow<'a, str> {
    joined(parts.iter().map(|part| piece(part.get())))
}

/// The files and data of messages, which the summary's texts lack. Only this text shows them to a model.
#[derive(Default)]
pub(super) struct MessageParts<'a> {
    /// A part of the task's status message.
    pub(super) status: Cow<'a, str>,
    /// A part of a message that is the answer.
    pub(super) answer: Cow<'a, str>,
    /// What known extensions add to both.
    pub(super) notes: String,
}

impl<'a> MessageParts<'a> {
    /// Reads them from `raw` of an answer or of a stream. Other shapes have none.
    pub(super) fn from_raw(raw: Option<&'a RawValue>) -> Self {
        let read = raw.and_then(|raw| serde_json::from_str::<Raw<'a>>(raw.get()).ok());
        let mut sections = read.unwrap_or_default();
        if let Some(last) = sections.final_event.take() {
            sections = *last;
        }
        let status = sections.status.message.unwrap_or_default();
        let metadata = [status.metadata, sections.metadata];
        let notes = metadata.into_iter().flatten().map(|all| notes(all.get()));
        Self {
            status: files_and_data(&status.parts),
            answer: files_and_data(&sections.parts),
            notes: notes
                .filter(|notes| !notes.is_empty())
                .collect::<Vec<_>>()
                .join("\n"),
        }
    }
}

/// Returns the parts that are not text.
fn files_and_data<'a>(parts: &[&'a RawValue]) -> Cow<'a, str> {
    let pieces = parts.iter().map(|part| piece(part.get()));
    joined(pieces.filter(|piece| matches!(piece, Piece::Json(_))))
}

fn piece(part: &str) -> Piece<'_> {
    #[derive(serde::Deserialize)]
    struct View<'a> {
        #[serde(borrow)]
        kind: Option<Text<'a>>,
        #[serde(borrow)]
        text: Option<Text<'a>>,
    }
    let read: Option<View<'_>> = serde_json::from_str(part).ok();
    let text = read
        .filter(|view| view.kind.as_deref().is_none_or(|kind| kind == "text"))
        .and_then(|view| view.text);
    match text {
        Some(text) => Piece::Text(text.into_inner()),
        None => Piece::json(part.into()),
    }
}

/// A fence whose id a peer cannot predict.
#[derive(Clone)]
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
    use proptest::prelude::*;

    use super::*;

    fn sections(first: &[String], shared: &[String]) -> Sections<'static> {
        let mut all = Sections::default();
        for text in first {
            all.push_urgent(Section::new("question", text.clone()));
        }
        all.note("task_id \"t\"".to_owned());
        for (i, text) in shared.iter().enumerate() {
            all.push_shared(Section::new(format!("artifact \"{i}\""), text.clone()));
        }
        all
    }

    #[test]
    fn short_sections_are_whole_and_labelled() {
        let body = sections(&["Which?".into()], &["one".into(), String::new()]).body(1000);
        assert!(!body.cut);
        assert_eq!(
            body.text,
            "[question]\nWhich?\ntask_id \"t\"\n[artifact \"0\"]\none\n[artifact \"1\"]"
        );
    }

    #[test]
    fn question_is_whole_and_long_texts_share() {
        let body = sections(&["?".repeat(50)], &["a".repeat(500), "b".repeat(500)]).body(500);
        assert!(body.cut);
        assert!(body.text.contains(&"?".repeat(50)));
        for (letter, label) in [('a', "artifact \"0\""), ('b', "artifact \"1\"")] {
            let shown = body.text.lines().find(|line| line.starts_with(letter));
            let shown = shown.map_or(0, str::len);
            assert!(shown > 50, "{}", body.text);
            let heading = format!("[{label}: characters 0 to {shown} of 500]");
            assert!(body.text.contains(&heading), "{}", body.text);
        }
    }

    #[test]
    fn omitted_sections_are_counted() {
        let texts: Vec<String> = (0..100).map(|i| format!("text {i}")).collect();
        let body = sections(&[], &texts).body(600);
        let listed = body.text.matches("[artifact").count();
        assert!(
            listed > 3 && body.text.ends_with(&format!("[and {} more]", 100 - listed)),
            "{}",
            body.text
        );
    }

    proptest! {
        #[test]
        fn body_never_exceeds_its_room(first in proptest::collection::vec(any::<String>(), 0..3), shared in proptest::collection::vec(".{0,200}", 0..30), room in 0usize..1500) {
            let body = sections(&first, &shared).body(room);
            prop_assert!(length(&body.text) <= room, "{} of {}", length(&body.text), room);
        }
    }
}

#[cfg(test)]
mod text_tests {
    use super::*;

    #[test]
    fn unused_share_goes_to_the_others() {
        assert_eq!(share_out(&[100, 1, 100], 21), [10, 1, 10]);
        assert_eq!(share_out(&[3, 4], 100), [3, 4]);
        assert_eq!(share_out(&[], 100), Vec::<usize>::new());
    }

    #[test]
    fn text_is_cut_between_characters() {
        assert_eq!(shortened("日本語", 2), "日…");
        assert_eq!(shortened("日本語", 3), "日本語");
    }
}

#[cfg(test)]
mod fence_tests {
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
