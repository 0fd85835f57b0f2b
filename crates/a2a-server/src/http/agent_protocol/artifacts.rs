//! Artifacts of a step: the parts that the agent created, and the files of the client.

use std::sync::Arc;

use a2a::v1_0::{Part, PartContent, Role, Task};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use serde_json::{Value, json};

use super::drafts::{Upload, base_name, safe_relative_path};

/// The metadata key of a part for the id of the uploaded file.
pub(super) const ARTIFACT_ID: &str = "openclaw-remote-agent/artifact";

/// The metadata key of a part for the path that the client gave the file.
pub(super) const RELATIVE_PATH: &str = "openclaw-remote-agent/relative-path";

/// An artifact of a step, or an uploaded file.
pub(super) struct ArtifactFile<'a> {
    pub(super) id: Arc<str>,
    by_agent: bool,
    file_name: String,
    relative_path: Option<String>,
    content: Content<'a>,
}

enum Content<'a> {
    Upload(Bytes),
    Part(&'a Part),
    /// Consecutive text parts.
    Texts(&'a [Part]),
}

impl ArtifactFile<'_> {
    pub(super) fn json(&self) -> Value {
        json!({
            "artifact_id": &*self.id,
            "agent_created": self.by_agent,
            "file_name": self.file_name,
            "relative_path": self.relative_path,
        })
    }
}

impl From<Upload> for ArtifactFile<'_> {
    fn from(upload: Upload) -> Self {
        Self {
            id: upload.id,
            by_agent: false,
            file_name: upload.file_name,
            relative_path: upload.relative_path,
            content: Content::Upload(upload.bytes),
        }
    }
}

/// Returns a download, so that a browser does not render the content as a page of this server.
impl IntoResponse for ArtifactFile<'_> {
    fn into_response(self) -> Response {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ' ');
        let name: String = self
            .file_name
            .chars()
            .map(|c| if plain(c) { c } else { '_' })
            .collect();
        let headers = [
            (CONTENT_TYPE, "application/octet-stream".to_owned()),
            (
                CONTENT_DISPOSITION,
                format!("attachment; filename=\"{name}\""),
            ),
        ];
        let bytes = match self.content {
            Content::Upload(bytes) => bytes,
            Content::Texts(texts) => {
                let texts = texts.iter().filter_map(Part::as_text);
                texts.collect::<String>().into()
            }
            Content::Part(part) => match &part.content {
                PartContent::Text(text) => text.clone().into(),
                PartContent::Raw(bytes) => bytes.clone().into(),
                PartContent::Url(url) => url.clone().into(),
                PartContent::Data(data) => data.to_string().into(),
            },
        };
        (headers, bytes).into_response()
    }
}

/// Returns the artifacts of a step: first the client's files, then those of the agent. Each part is an artifact.
pub(super) fn from_step(step: &Task) -> Vec<ArtifactFile<'_>> {
    let messages = step.history.iter().flatten();
    let messages = messages.filter(|message| message.role == Role::User);
    let files = messages
        .flat_map(|message| &message.parts)
        .filter(|part| !matches!(part.content, PartContent::Text(_) | PartContent::Data(_)));
    let files = files.enumerate().map(|(number, part)| {
        // An id with a dot would refer to a step.
        let given_id = text(part, ARTIFACT_ID).filter(|id| !id.contains('.'));
        let id = given_id.unwrap_or_else(|| format!("{}.file.{number}", step.id));
        artifact_file(part, id, false, None)
    });
    files.chain(agent_artifacts(step)).collect()
}

/// Returns the step in the id of an artifact; `None` for the id of an upload.
pub(super) fn parse_step_id(artifact: &str) -> Option<&str> {
    let (rest, _) = artifact.rsplit_once('.')?;
    rest.rsplit_once('.').map(|(step, _)| step)
}

/// Returns the artifacts that the agent created in a step. Consecutive texts form one artifact, because a streamed text
/// arrives in several parts.
pub(super) fn agent_artifacts(step: &Task) -> Vec<ArtifactFile<'_>> {
    let artifacts = step.artifacts.iter().flatten().enumerate();
    let artifacts = artifacts.flat_map(|(index, artifact)| {
        let is_text = |part: &Part| part.as_text().is_some() && part.filename.is_none();
        let runs = artifact
            .parts
            .chunk_by(move |a, b| is_text(a) && is_text(b));
        runs.enumerate().filter_map(move |(number, run)| {
            let (first, rest) = run.split_first()?;
            let id = format!("{}.{index}.{number}", step.id);
            let name = artifact.name.as_ref().unwrap_or(&artifact.artifact_id);
            let mut file = artifact_file(first, id, true, Some(name.as_str()));
            if !rest.is_empty() {
                file.content = Content::Texts(run);
            }
            Some(file)
        })
    });
    artifacts.collect()
}

fn artifact_file<'a>(
    part: &'a Part,
    id: String,
    by_agent: bool,
    name: Option<&str>,
) -> ArtifactFile<'a> {
    let extension = match &part.content {
        PartContent::Text(_) => "txt",
        PartContent::Raw(_) => "bin",
        PartContent::Url(_) => "url",
        PartContent::Data(_) => "json",
    };
    let made_up = || format!("{}.{extension}", name.unwrap_or("file"));
    ArtifactFile {
        id: id.into(),
        by_agent,
        file_name: base_name(&part.filename.clone().unwrap_or_else(made_up)),
        relative_path: text(part, RELATIVE_PATH).and_then(|path| safe_relative_path(&path)),
        content: Content::Part(part),
    }
}

fn text(part: &Part, key: &str) -> Option<String> {
    part.metadata
        .as_ref()?
        .get(key)?
        .as_str()
        .map(str::to_owned)
}
