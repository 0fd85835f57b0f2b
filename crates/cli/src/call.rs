//! `remote-agent call`: reads a tool request as JSON and prints the result as JSON. With `--jsonl`, it reads one operation per line
//! and writes response lines.
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

use std::{collections::HashMap, path::Path, sync::Arc, time::Duration};

use base::json::{self, Limits};
use gateway_bridge::client::Script;
use openclaw_remote_agent_interface::{CallOptions, updates_to};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    config::ConfigArgs,
    exit::{Exit, Failure},
    gateway::embedded::{Embedded, scripted, with_gateway},
    instance::{self, Instance, Library},
    local::EMBEDDED,
    output::{LineWriter, closed_failure, standard_input},
    text,
};

const EXAMPLES: &str = "\
Examples:
  remote-agent call --config agents.json '{\"action\": \"list_targets\"}'
  remote-agent call --jsonl < operations.jsonl
  remote-agent call --gateway embedded --gateway-agent alpha=approve \\
    '{\"action\": \"list_targets\"}'

Operations of --jsonl, one a line:
  {\"id\": 1, \"op\": \"init\", \"config\": {...}}
  {\"id\": 2, \"op\": \"tool_definition\"}
  {\"id\": 3, \"op\": \"execute\", \"request\": {...}, \"caller\": {...},
   \"abort_after_ms\": 1000}
  {\"id\": 4, \"op\": \"parse_config\", \"config\": {...}}
  {\"id\": 5, \"op\": \"abort\", \"call\": 3}
With \"content\": true, the answer to an `execute` also has \"content\": the text for a model.
The command answers an `abort` at once; a running call with that id is cancelled and has a result.
Each `init` closes the previous instance, ends its calls, and creates a new instance; after a failed `init` there is none.

Answers, one a line; they carry the id of their operation and may interleave:
  {\"id\": 1, \"ok\": true}
  {\"id\": 2, \"tool_definition\": {...}}
  {\"id\": 3, \"update\": {...}}
      any number of them, then {\"id\": 3, \"result\": {...}}
  {\"id\": 4, \"parsed\": {...}}
  {\"id\": 1, \"init_error\": {\"code\", \"message\", \"path\"}}
      to `init` and `parse_config`, if the configuration is invalid
  {\"id\": 5, \"ok\": true}
  {\"id\": 6, \"error\": {\"code\", \"message\"}}
      the line is not an operation; the command reads the next line

The exit code is that of the envelope, and ignores the state of its task; with --jsonl it is 0.";

/// Call the tool with a JSON request and print its envelope
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The request, or - to read it from standard input
    #[arg(required_unless_present = "jsonl")]
    request: Option<String>,

    /// Read operations as JSON Lines from standard input and answer in JSON Lines
    #[arg(long, conflicts_with_all = ["request", "caller", "config", "openclaw"])]
    jsonl: bool,

    /// The caller: {"agent_id", "user", "session_key", "chain": {"hop", "chain"}, "state_dir", "traceparent"}
    #[arg(long, value_name = "JSON")]
    caller: Option<String>,

    /// Run a gateway of a2a-v1 in this process until the command ends, for each configuration without a gateway; standard error shows its address
    #[arg(long, value_name = "WHICH", value_parser = [EMBEDDED])]
    gateway: Option<String>,

    /// Add a scripted agent to `--gateway embedded` (alpha=approve, beta=reject, charlie=abstain, delta=silent, 'coder=reply:I read
    /// {text}'); may be given several times
    #[arg(long, value_name = "NAME=HOW", requires = "gateway", value_parser = scripted)]
    gateway_agent: Vec<Script>,

    #[command(flatten)]
    config: ConfigArgs,
}

/// Runs the subcommand.
///
/// # Errors
/// The library, the configuration or standard input cannot be used.
pub async fn run(args: Args, verbose: bool) -> Result<Exit, Failure> {
    let library = Library::open(verbose)?;
    let gateway = match args.gateway {
        Some(_) => Some(Embedded::with(&args.gateway_agent).await?),
        None => None,
    };
    let gateway = gateway.as_ref().map(Embedded::url);
    if args.jsonl {
        return run_jsonl(&library, gateway).await;
    }
    if let Some(caller) = &args.caller {
        instance::check_caller(caller).map_err(Failure::usage)?;
    }
    let request = match args.request.as_deref() {
        Some("-") | None => standard_input("the request").await?,
        Some(file) if !file.contains('{') && Path::new(file).is_file() => {
            let file = text::shell(file);
            return Err(Failure::usage(format!(
                "the request is JSON and not a file name; send the file with `remote-agent call - < {file}`"
            )));
        }
        Some(request) => request.to_owned(),
    };
    let config = args.config.read()?;
    let config = gateway.map_or_else(|| config.clone(), |url| with_gateway(&config, url));
    let instance = library.interactive_instance(&config, args.config.file().as_deref())?;
    let options = CallOptions {
        caller: args.caller,
        ..CallOptions::default()
    };
    let envelope = instance.call(&request, options).await;
    instance.unset_variables().warn_if_unresolved(&envelope);
    let exit = match serde_json::from_str(&envelope) {
        Ok(Ending { ok: true, .. }) => Exit::Ok,
        Ok(Ending {
            error: Some(error), ..
        }) => Exit::from_error(&error),
        _ => Exit::Failed,
    };
    LineWriter::default().write(envelope);
    Ok(exit)
}

/// The fields of an envelope that decide the exit code. The others may be large.
#[derive(Deserialize)]
struct Ending {
    ok: bool,
    error: Option<Value>,
}

/// Handles the operations on standard input until it ends, and waits for the running calls. A configuration without a
/// gateway gets the one at `gateway`.
///
/// # Errors
/// Standard input cannot be read, or standard output is closed.
async fn run_jsonl(library: &Library, gateway: Option<&str>) -> Result<Exit, Failure> {
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
        true => Err(closed_failure()),
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
            instance::check_caller(caller).map_err(LineError::line)?;
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
        let options = CallOptions {
            caller: caller.map(str::to_owned),
            updates: Some(updates_to(on_update)),
            person: None,
        };
        let running = instance.start(request, options);
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
