//! Parts of messages and artifacts as text.

use std::borrow::Cow;

use serde_json::value::RawValue;

use crate::remote_agent::artifacts::{Piece, joined};

use super::view::{Raw, Text};

/// Returns the text of an artifact with these parts, which a page's offset counts in.
pub(super) fn text<'a>(parts: &[&'a RawValue]) -> Cow<'a, str> {
    joined(parts.iter().map(|part| piece(part.get())))
}

/// The files and data of messages, which the summary's texts lack. Only this text shows them to a model.
#[derive(Default)]
pub(super) struct MessageParts<'a> {
    /// A part of the task's status message.
    pub(super) status: Cow<'a, str>,
    /// A part of a message that is the answer.
    pub(super) answer: Cow<'a, str>,
}

impl<'a> MessageParts<'a> {
    /// Reads them from `raw` of an answer or of a stream. Other shapes have none.
    pub(super) fn from_raw(raw: Option<&'a RawValue>) -> Self {
        let read = raw.and_then(|raw| serde_json::from_str::<Raw<'a>>(raw.get()).ok());
        let mut sections = read.unwrap_or_default();
        if let Some(last) = sections.final_event.take() {
            sections = *last;
        }
        let status = sections.status.message.map(|message| message.parts);
        Self {
            status: files_and_data(&status.unwrap_or_default()),
            answer: files_and_data(&sections.parts),
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
        None => Piece::Json(part.into()),
    }
}
