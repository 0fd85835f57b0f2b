//! An artifact as one text, and its pages: the text that models read, and that `offset` counts in.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::Value;

use a2a::Artifact;

use super::error::{Reason, ToolError};

/// How many artifacts of a task an error lists.
const MAX_LISTED_ARTIFACTS: usize = 100;

pub(super) enum Piece<'a> {
    /// A text part.
    Text(Cow<'a, str>),
    /// Any other part, as JSON.
    Json(Cow<'a, str>),
}

impl<'a> Piece<'a> {
    fn for_part(part: &'a Value) -> Self {
        let is_text = part["kind"].as_str().is_none_or(|kind| kind == "text");
        match part["text"].as_str().filter(|_| is_text) {
            Some(text) => Self::Text(text.into()),
            None => Self::Json(part.to_string().into()),
        }
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
mod tests {
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
