//! Content blocks of the Agent Client Protocol, and parts of A2A.

use a2a::text_part;
use base::text::{essence, first_chars, media_type};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use super::RpcError;
use crate::artifact_files::safe_name;

/// Returns the parts of a prompt. `modes` are the media types that the agent takes; empty if they are unknown.
///
/// # Errors
/// A block has another form, or a media type that the agent does not take.
pub(super) fn parts(blocks: &Value, modes: &[String]) -> Result<Vec<Value>, RpcError> {
    let blocks = blocks
        .as_array()
        .ok_or_else(|| invalid("`prompt` must be an array of content blocks"))?;
    let mut parts = Vec::new();
    for block in blocks {
        parts.extend(part(block, modes)?);
    }
    if parts.is_empty() {
        return Err(invalid("`prompt` has no content"));
    }
    Ok(parts)
}

/// Returns whether a prompt has blocks that may become files.
pub(super) fn has_files(blocks: &Value) -> bool {
    let mut blocks = blocks.as_array().into_iter().flatten();
    blocks.any(|block| block["type"] != "text")
}

fn part(block: &Value, modes: &[String]) -> Result<Option<Value>, RpcError> {
    let kind = block["type"].as_str().unwrap_or_default();
    match kind {
        "text" => {
            let text = block["text"]
                .as_str()
                .ok_or_else(|| invalid("a text block has no `text`"))?;
            Ok((!text.is_empty()).then(|| text_part(text)))
        }
        "image" | "audio" => {
            let data = block["data"]
                .as_str()
                .ok_or_else(|| invalid(format!("a block of type `{kind}` has no `data`")))?;
            let mime_type = block["mimeType"].as_str();
            file_part(data, mime_type, block["uri"].as_str(), modes).map(Some)
        }
        "resource" => {
            let resource = &block["resource"];
            let uri = resource["uri"].as_str().unwrap_or_default();
            let mime_type = resource["mimeType"].as_str();
            if let Some(blob) = resource["blob"].as_str() {
                return file_part(blob, mime_type, Some(uri), modes).map(Some);
            }
            let text = resource["text"]
                .as_str()
                .ok_or_else(|| invalid("a resource has neither `text` nor `blob`"))?;
            let is_file = mime_type.is_some_and(|mime_type| takes(modes, mime_type));
            if is_file && !modes.is_empty() && !text.is_empty() {
                return file_part(&STANDARD.encode(text), mime_type, Some(uri), modes).map(Some);
            }
            // Every agent reads text.
            Ok(Some(text_part(format!("{uri}:\n{text}"))))
        }
        "resource_link" => {
            let uri = block["uri"]
                .as_str()
                .ok_or_else(|| invalid("a resource link has no `uri`"))?;
            let mime_type = block["mimeType"].as_str();
            let is_web = uri.starts_with("https://") || uri.starts_with("http://");
            let is_file = mime_type.is_some_and(|mime_type| takes(modes, mime_type));
            if is_web && is_file && !modes.is_empty() {
                let part = json!({"kind": "file", "uri": uri, "mime_type": mime_type});
                return Ok(Some(part));
            }
            // The content of a file on this machine is the client's to embed.
            Ok(Some(text_part(uri)))
        }
        _ => {
            let kind = first_chars(kind, 50);
            Err(invalid(format!("unknown type `{kind}` of a content block")))
        }
    }
}

/// Returns a file part.
///
/// # Errors
/// The agent does not take its media type.
fn file_part(
    bytes: &str,
    mime_type: Option<&str>,
    uri: Option<&str>,
    modes: &[String],
) -> Result<Value, RpcError> {
    if let Some(mime_type) = mime_type.filter(|mime_type| !takes(modes, mime_type)) {
        let mime_type = first_chars(mime_type, 100);
        return Err(invalid(format!(
            "the agent takes no `{mime_type}`, only {}; nothing was sent. Send the content as text",
            modes.join(", ")
        )));
    }
    let mut part = json!({"kind": "file", "bytes": bytes});
    if let Some(mime_type) = mime_type {
        part["mime_type"] = mime_type.into();
    }
    let name = uri.and_then(|uri| uri.rsplit('/').next());
    if let Some(name) = name.filter(|name| !name.is_empty()) {
        part["name"] = name.into();
    }
    Ok(part)
}

/// Returns whether an agent with these `modes` takes the media type. A mode may be a range such as `image/*`.
fn takes(modes: &[String], mime_type: &str) -> bool {
    let essence = essence(mime_type);
    let kind = essence.split('/').next().unwrap_or_default();
    modes.is_empty()
        || modes.iter().any(|mode| {
            mode.eq_ignore_ascii_case(essence)
                || mode == "*/*"
                || mode.strip_suffix("/*").is_some_and(|of| of == kind)
        })
}

fn invalid(message: impl Into<String>) -> RpcError {
    RpcError::new(RpcError::INVALID_PARAMS, message)
}

/// Returns the content block of a file of the agent.
pub(super) fn file_block(file: &Value) -> Value {
    let bytes = &file["bytes"];
    let mime_type = file["mimeType"].as_str().and_then(media_type);
    let kind = mime_type.and_then(|mime_type| mime_type.split('/').next());
    if let Some(kind @ ("image" | "audio")) = kind {
        return json!({"type": kind, "data": bytes, "mimeType": mime_type});
    }
    // An editor may show the name outside of the agent's words, or save a file under it.
    let name = safe_name(file["name"].as_str().unwrap_or_default());
    let name = name.as_deref().unwrap_or("file");
    let mut resource = json!({"uri": format!("artifact:{name}"), "blob": bytes});
    if let Some(mime_type) = mime_type {
        resource["mimeType"] = mime_type.into();
    }
    json!({"type": "resource", "resource": resource})
}
