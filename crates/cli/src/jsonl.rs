//! `remote-agent call --jsonl`: reads one operation per line and writes response lines.
//!
//! | operation | response |
//! |---|---|
//! | `{"id", "op": "init", "config"}` | `{"id", "ok": true}` or `{"id", "init_error": {"code", "message", "path"}}` |
//! | `{"id", "op": "parse_config", "config"}` | `{"id", "parsed"}` or `{"id", "init_error"}` |
//! | `{"id", "op": "tool_definition"}` | `{"id", "tool_definition"}` |
//! | `{"id", "op": "execute", "request", "caller"?, "abort_after_ms"?, "content"?}` | any number of `{"id", "update"}`, then `{"id", "result", "content"?}` |
//! | `{"id", "op": "abort", "call"}` | `{"id", "ok": true}`; cancels the call with the id `call`, which still gets a result |
//!
//! Calls run concurrently, so their response lines may interleave. `init` closes the previous instance. The response to an
//! invalid line is `{"id", "error": {"code", "message"}}`; the command then reads the next line.

use std::{collections::HashMap, sync::Arc, time::Duration};

use base::json::{self, Limits};
use parking_lot::Mutex;
use serde_json::{json, value::RawValue};
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    caller,
    exit::{Exit, Failure},
    gateway::embedded::with_gateway,
    instance::{Instance, Library},
    output::{LineWriter, write_failure},
};

/// Handles the operations on standard input until it ends, and waits for the running calls. A configuration without a
/// gateway gets the one at `gateway`.
///
/// # Errors
/// Standard input cannot be read, or standard output is closed.
pub async fn run(library: &Library, gateway: Option<&str>) -> Result<Exit, Failure> {
    let mut session = Session {
        library,
        gateway,
        instance: None,
        calls: TaskTracker::new(),
        cancel_tokens: Arc::default(),
        lines: Arc::new(LineWriter::default()),
    };
    let lines = Arc::clone(&session.lines);
    tokio::select! {
        read = session.handle_lines(tokio::io::stdin()) => read?,
        () = lines.closed().cancelled() => {}
    }
    match lines.closed().is_cancelled() {
        true => Err(write_failure().unwrap_or_else(|| Failure::new("standard output is closed"))),
        false => Ok(Exit::Ok),
    }
}

struct Session<'a> {
    library: &'a Library,
    gateway: Option<&'a str>,
    instance: Option<Instance>,
    calls: TaskTracker,
    /// The cancellation tokens of the running calls, by operation id.
    cancel_tokens: Arc<Mutex<HashMap<String, CancellationToken>>>,
    lines: Arc<LineWriter>,
}

/// The fields of one line, each as raw JSON.
type RawFields = HashMap<String, Box<RawValue>>;

/// The error of an invalid line.
struct LineError {
    code: &'static str,
    message: String,
}

impl Session<'_> {
    async fn handle_lines(&mut self, input: impl AsyncRead + Unpin) -> Result<(), Failure> {
        let mut input = BufReader::new(input);
        let mut line = Vec::new();
        loop {
            line.clear();
            let read = input.read_until(b'\n', &mut line).await;
            let read =
                read.map_err(|error| Failure::new(format!("cannot read standard input: {error}")))?;
            if read == 0 {
                break;
            }
            if !line.trim_ascii().is_empty() {
                self.handle_line(&line);
            }
        }
        self.calls.close();
        self.calls.wait().await;
        Ok(())
    }

    fn handle_line(&mut self, line: &[u8]) {
        let fields: RawFields = match json::from_slice(line, Limits::NONE) {
            Ok(fields) => fields,
            Err(error) => {
                let message = format!("the line is not a JSON object: {error}");
                return self.write_error(
                    "null",
                    &LineError {
                        code: "BAD_LINE",
                        message,
                    },
                );
            }
        };
        let id = fields.get("id").map_or("null", |id| id.get()).to_owned();
        if let Err(error) = self.handle_operation(&id, &fields) {
            self.write_error(&id, &error);
        }
    }

    fn handle_operation(&mut self, id: &str, fields: &RawFields) -> Result<(), LineError> {
        if !id.starts_with(|first: char| matches!(first, '"' | '-' | '0'..='9')) {
            return Err(LineError::line(
                "`id` must be a string or a number".to_owned(),
            ));
        }
        let op: String = fields
            .get("op")
            .and_then(|op| serde_json::from_str(op.get()).ok())
            .ok_or_else(|| LineError::line("`op` must be a string".to_owned()))?;
        let known: &[&str] = match op.as_str() {
            "init" | "parse_config" => &["config"],
            "execute" => &["request", "caller", "abort_after_ms", "content"],
            "abort" => &["call"],
            "tool_definition" => &[],
            _ => {
                let message = format!(
                    "unknown operation `{op}`; the operations are `init`, `parse_config`, `tool_definition`, `execute` and `abort`"
                );
                return Err(LineError {
                    code: "UNKNOWN_OP",
                    message,
                });
            }
        };
        let common = ["id", "op"];
        let unknown = fields
            .keys()
            .map(String::as_str)
            .filter(|name| !common.contains(name) && !known.contains(name))
            .min();
        if let Some(name) = unknown {
            return Err(LineError::line(format!("`{op}` has no field `{name}`")));
        }
        match op.as_str() {
            "init" => self.init(id, required(fields, &op, "config")?),
            "parse_config" => {
                let parsed = self.library.parse_config(required(fields, &op, "config")?);
                self.reply(id, parsed.map(|parsed| ("parsed", parsed)));
            }
            "abort" => {
                if let Some(stop) = self
                    .cancel_tokens
                    .lock()
                    .get(required(fields, &op, "call")?)
                {
                    stop.cancel();
                }
                self.reply(id, Ok(("ok", "true".to_owned())));
            }
            "tool_definition" => {
                let definition = self.instance()?.definition();
                self.reply(id, Ok(("tool_definition", definition)));
            }
            _ => self.execute(id, fields)?,
        }
        Ok(())
    }

    fn init(&mut self, id: &str, config: &str) {
        // Close the old instance first, even if the new one cannot be created. Its calls end, each with its own result line.
        self.instance = None;
        let created = match self.gateway {
            Some(url) => self.library.instance(&with_gateway(config, url)),
            None => self.library.instance(config),
        };
        let reply = created.map(|instance| {
            self.instance = Some(instance);
            ("ok", "true".to_owned())
        });
        self.reply(id, reply);
    }

    fn execute(&mut self, id: &str, fields: &RawFields) -> Result<(), LineError> {
        let request = required(fields, "execute", "request")?;
        let caller = optional(fields, "caller");
        if let Some(caller) = caller {
            caller::check(caller).map_err(LineError::line)?;
        }
        let abort_after = match optional(fields, "abort_after_ms") {
            Some(text) => Some(
                serde_json::from_str(text)
                    .map(Duration::from_millis)
                    .map_err(|_| {
                        LineError::line(
                            "`abort_after_ms` must be a whole number of milliseconds".to_owned(),
                        )
                    })?,
            ),
            None => None,
        };
        let content: bool = match optional(fields, "content") {
            Some(text) => serde_json::from_str(text)
                .map_err(|_| LineError::line("`content` must be true or false".to_owned()))?,
            None => false,
        };
        let on_update = {
            let (lines, id) = (Arc::clone(&self.lines), id.to_owned());
            move |update: &str| lines.write(line(&id, "update", update))
        };
        let instance = self.instance()?;
        let missing = instance.unset_variables().clone();
        let running = instance.execute(request, caller, Some(on_update));
        let renderer = content.then(|| instance.renderer());
        let (lines, cancel_tokens, id) = (
            Arc::clone(&self.lines),
            Arc::clone(&self.cancel_tokens),
            id.to_owned(),
        );
        let aborted = CancellationToken::new();
        cancel_tokens.lock().insert(id.clone(), aborted.clone());
        self.calls.spawn(async move {
            let stop = async {
                match abort_after {
                    Some(after) => drop(tokio::time::timeout(after, aborted.cancelled()).await),
                    None => aborted.cancelled().await,
                }
                true
            };
            let envelope = running.run_until(stop).await;
            cancel_tokens.lock().remove(&id);
            missing.warn_if_unresolved(&envelope);
            let Some(renderer) = renderer else {
                return lines.write(line(&id, "result", &envelope));
            };
            let content = json!(renderer.render(&envelope));
            lines.write(format!(
                r#"{{"id":{id},"result":{envelope},"content":{content}}}"#
            ));
        });
        Ok(())
    }

    fn instance(&self) -> Result<&Instance, LineError> {
        self.instance.as_ref().ok_or_else(|| LineError {
            code: "NOT_INITIALIZED",
            message: "there is no instance; send a working `init` first".to_owned(),
        })
    }

    fn reply(&self, id: &str, outcome: Result<(&str, String), String>) {
        self.lines.write(match outcome {
            Ok((field, value)) => line(id, field, &value),
            Err(error) => line(id, "init_error", &error),
        });
    }

    fn write_error(&self, id: &str, error: &LineError) {
        let json = json!({"code": error.code, "message": error.message});
        self.lines.write(line(id, "error", &json.to_string()));
    }
}

impl LineError {
    fn line(message: String) -> Self {
        Self {
            code: "BAD_LINE",
            message,
        }
    }
}

fn line(id: &str, field: &str, value: &str) -> String {
    format!(r#"{{"id":{id},"{field}":{value}}}"#)
}

fn optional<'a>(fields: &'a RawFields, name: &str) -> Option<&'a str> {
    fields
        .get(name)
        .map(|value| value.get())
        .filter(|text| *text != "null")
}

fn required<'a>(fields: &'a RawFields, op: &str, name: &str) -> Result<&'a str, LineError> {
    let value = fields.get(name).map(|value| value.get());
    value.ok_or_else(|| LineError::line(format!("`{op}` needs `{name}`")))
}
