//! Turns envelopes of the tool into results of MCP.

use std::sync::{Arc, LazyLock};

use openclaw_remote_agent::http_api::{ApiError, failed_state};
use openclaw_remote_agent::remote_agent::Reason;
use rmcp::model::{CallToolResult, ContentBlock, JsonObject, MetaObject};
use serde_json::{Value, json};

use crate::files::{FileStore, take_files};
use crate::tool::Tool;

/// The key of a result's `_meta` with the tool's envelope.
pub(crate) const ENVELOPE_KEY: &str = "dev.remote-agent/envelope";

const RESULT_SCHEMA: &str = include_str!("../../../schema/result.schema.json");

/// Returns the result of a call. The text is the one that a model reads in OpenClaw: text of agents is fenced. Many hosts
/// show a model the structured content instead of the text, so the envelope is in `_meta` unless `structured` is set. The
/// text names the files, and the content has links to those in `store`.
pub(crate) fn result(
    tool: &Tool,
    envelope: &str,
    structured: bool,
    store: Option<&FileStore>,
) -> CallToolResult {
    let mut content = Vec::new();
    // A parsed answer may weigh many times its text, so there is one at a time.
    if envelope.contains("\"bytes\"") {
        let mut shown: Value = serde_json::from_str(envelope).unwrap_or_default();
        content = take_files(&mut shown, store);
        content.insert(0, ContentBlock::text(tool.render(&shown.to_string())));
    } else {
        content.push(ContentBlock::text(tool.render(envelope)));
    }
    let value: Value = serde_json::from_str(envelope).unwrap_or_default();
    let error = ApiError::of_envelope(&value);
    let mut result = if error.is_some() || (is_followed(&value) && failed_state(&value).is_some()) {
        CallToolResult::error(content)
    } else {
        CallToolResult::success(content)
    };
    if structured {
        result.structured_content = Some(match error {
            None => value,
            Some(error) => {
                let mut error = json!(error);
                // Some hosts show a model only this message. The hint for an invalid request repeats it.
                if Reason::in_error(&value["error"]) != Some(Reason::InvalidRequest)
                    && let (Some(Value::String(message)), Some(hint)) = (
                        error.pointer_mut("/error/message"),
                        value["error"]["details"]["hint"].as_str(),
                    )
                {
                    *message = format!("{message} {hint}");
                }
                error
            }
        });
    } else {
        let mut meta = MetaObject::new();
        meta.insert(ENVELOPE_KEY.to_owned(), value);
        result.meta = Some(meta);
    }
    result
}

/// Returns the result of a call that did not reach the tool.
pub(crate) fn failure(message: &str, structured: bool) -> CallToolResult {
    let mut result = CallToolResult::error(vec![ContentBlock::text(message)]);
    if structured {
        result.structured_content = Some(json!(ApiError::unavailable(message)));
    }
    result
}

/// Returns whether the action follows its task. To read the status of a failed task is no failure.
fn is_followed(envelope: &Value) -> bool {
    envelope["action"] != "status" && envelope["action"] != "cancel"
}

/// Returns the schema of structured content: the result schema without updates, with the envelope of errors.
pub(crate) fn output_schema() -> Arc<JsonObject> {
    static SCHEMA: LazyLock<Arc<JsonObject>> = LazyLock::new(derive_output_schema);
    Arc::clone(&SCHEMA)
}

fn derive_output_schema() -> Arc<JsonObject> {
    let schema: Value = serde_json::from_str(RESULT_SCHEMA).unwrap_or_default();
    let text = schema.to_string().replace("#/definitions/", "#/$defs/");
    let Ok(Value::Object(mut schema)) = serde_json::from_str(&text) else {
        return Arc::default();
    };
    schema.remove("$schema");
    // Clients of MCP before 2026-07-28 require this at the root.
    schema.insert("type".to_owned(), "object".into());
    if let Some(mut definitions) = schema.remove("definitions") {
        definitions["failure"] = error_schema();
        schema.insert("$defs".to_owned(), definitions);
    }
    if let Some(Value::Array(variants)) = schema.get_mut("oneOf") {
        variants.retain(|variant| variant["$ref"] != "#/$defs/update");
    }
    Arc::new(schema)
}

fn error_schema() -> Value {
    json!({
        "type": "object",
        "required": ["isError", "error"],
        "additionalProperties": false,
        "properties": {
            "isError": { "const": true },
            "error": {
                "type": "object",
                "required": ["code", "message"],
                "additionalProperties": false,
                "properties": {
                    "code": { "type": "string" },
                    "message": { "type": "string" },
                    "path": { "type": "string" },
                },
            },
        },
    })
}
