//! Parts of messages and artifacts as text.

use std::borrow::Cow;

use serde_json::value::RawValue;

use crate::remote_agent::artifact_text::{Piece, joined};

use super::view::{Raw, Text};

/// The text of an artifact with these parts, in which a page's offset counts.
pub(super) fn text<'a>(parts: &[&'a RawValue]) -> Cow<'a, str> {
    joined(parts.iter().map(|part| piece(part.get())))
}

/// The files and data of messages, which the summary's texts leave out. Nobody else shows them to a model.
#[derive(Default)]
pub(super) struct Unspoken<'a> {
    /// Of the message about the task's state.
    pub(super) status: Cow<'a, str>,
    /// Of a message that is the answer.
    pub(super) answer: Cow<'a, str>,
}

impl<'a> Unspoken<'a> {
    /// What is in `raw` of an answer or of a followed stream. What has another shape has no such parts.
    pub(super) fn of(raw: Option<&'a RawValue>) -> Self {
        let read = raw.and_then(|raw| serde_json::from_str::<Raw<'a>>(raw.get()).ok());
        let mut said = read.unwrap_or_default();
        if let Some(last) = said.final_event.take() {
            said = *last;
        }
        let status = said.status.message.map(|message| message.parts);
        Self {
            status: others(&status.unwrap_or_default()),
            answer: others(&said.parts),
        }
    }
}

/// The parts that are no text.
fn others<'a>(parts: &[&'a RawValue]) -> Cow<'a, str> {
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
