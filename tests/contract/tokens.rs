//! The token costs of five everyday delegations, compared with the reference plugin's envelopes.
//!
//! `UPDATE=1 cargo real --test suite contract::tokens` writes the table.

use std::{
    collections::BTreeSet,
    fs,
    io::Write as _,
    process::{Command, Stdio},
    sync::Arc,
};

use base::log::Silent;
use openclaw_remote_agent::plugin::{CallInput, Plugin};
use serde_json::{Value, json};
use testkit::conformance::Peers;
use testkit::support::{node, root, text};

use crate::contract::generated;

const TOKENIZER: &str = "gpt-tokenizer@4.0.0";
const TASK: &str = "5f0c6a52-6f0e-4f43-9d51-7f5d2f0f9e11";
const CONTEXT: &str = "c1b7c0de-2f4a-4f0e-8a64-0b8f6f4f7a90";
const REPORT: &str = "INC-42 began at 09:12 UTC, when the primary database refused new connections. The pool of the order \
service had grown to 400 after the release of 09:05, twice what the database takes. Orders failed for 14 minutes; \
3,120 were affected and 2,988 of them were repeated by customers. The release was rolled back at 09:24, and the pool \
was empty again at 09:26. Next: bound the pool in configuration, alert at 80 percent of the connections, and replay \
the 132 orders that are still missing.";

/// The cost of one delegation.
struct Cost {
    name: &'static str,
    results: Vec<String>,
    envelopes: Vec<Value>,
}

/// Returns a message in the form of the official SDKs.
fn message(role: &str, id: &str, text: &str) -> Value {
    json!({"kind": "message", "role": role, "messageId": id, "taskId": TASK, "contextId": CONTEXT,
        "parts": [{"kind": "text", "text": text}]})
}

fn status(state: &str, says: Option<&str>) -> Value {
    let mut status = json!({"state": state, "timestamp": "2026-01-05T09:30:00.000000+00:00"});
    if let Some(says) = says {
        status["message"] = message("agent", "8c0e5d3e-8a43-4d7c-a1f5-0c0f7fd1f6a2", says);
    }
    status
}

fn task(state: &str, says: Option<&str>, artifacts: &Value) -> Value {
    let question = message(
        "user",
        "1f6d2d39-53b5-4a43-9a29-9a3f2a4f2a77",
        "Summarize incident INC-42 for the on-call engineer.",
    );
    let mut task = json!({"kind": "task", "id": TASK, "contextId": CONTEXT, "status": status(state, says), "history": [question]});
    if !artifacts.is_null() {
        task["artifacts"] = artifacts.clone();
    }
    task
}

fn report() -> Value {
    json!({"artifactId": "e2b1c1b5-9d0c-4d8e-8b60-1f2f6a3d5c4e", "name": "summary", "parts": [{"kind": "text", "text": REPORT}]})
}

fn update(state: &str, says: &str, last: bool) -> Value {
    json!({"result": {"kind": "status-update", "taskId": TASK, "contextId": CONTEXT, "status": status(state, Some(says)), "final": last}})
}

/// Runs the requests against an agent that answers with `replies`.
async fn cost(name: &'static str, rpc: Value, requests: &[Value]) -> Cost {
    let card = json!({
        "protocolVersion": "0.3.0", "name": "Support Agent", "description": "Looks into incidents.", "version": "1.0.0",
        "url": "{{origin}}/a2a/jsonrpc", "preferredTransport": "JSONRPC", "capabilities": {"streaming": true},
        "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
        "skills": [{"id": "incidents", "name": "Incidents", "description": "Summarizes incidents.", "tags": ["incident"]}],
    });
    let peers = Peers::start(&json!({"peers": {"support": {"card": card, "rpc": rpc}}}))
        .await
        .unwrap();
    let plugin = plugin(peers.origin("support"), "compact");
    let mut cost = Cost {
        name,
        results: Vec::new(),
        envelopes: Vec::new(),
    };
    for request in requests {
        let job = CallInput {
            request: request.to_string(),
            ..CallInput::default()
        };
        let envelope = plugin.start(job).await;
        let envelope = envelope.replace(peers.origin("support"), "https://support.example");
        let envelope = steady(&envelope, "rah_", "0a3ff8c2-4a6d-48cb-a57d-4ae6f3c589d0");
        let result = plugin.render(&envelope);
        cost.results
            .push(steady(&result, "CONTENT id=\"", "3c1f0e5a"));
        cost.envelopes
            .push(serde_json::from_str(&envelope).unwrap());
    }
    cost
}

/// Returns the text with `fixed` after each `start`, in place of the same number of random characters.
fn steady(text: &str, start: &str, fixed: &str) -> String {
    let mut pieces = text.split(start);
    let mut out = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        out += start;
        out += fixed;
        out += &piece[fixed.len()..];
    }
    out
}

fn plugin(origin: &str, tool_schema: &str) -> Arc<Plugin> {
    let target =
        json!({"alias": "support", "baseUrl": origin, "description": "Primary support lane"});
    let config = json!({"enabled": true, "targets": [target], "toolSchema": tool_schema});
    Arc::new(Plugin::new(&config.to_string(), Arc::new(Silent)).unwrap())
}

fn send(text: &str) -> Value {
    json!({"action": "send", "target_alias": "support", "parts": [{"kind": "text", "text": text}]})
}

async fn delegations() -> Vec<Cost> {
    let done = task("completed", None, &json!([report()]));
    let working = task("working", Some("Reading the logs."), &Value::Null);
    let events = json!([
        {"result": working},
        update("working", "Found 3 related alerts.", false),
        update("working", "Writing the summary.", false),
        {"result": {"kind": "artifact-update", "taskId": TASK, "contextId": CONTEXT, "artifact": report()}},
        {"result": {"kind": "status-update", "taskId": TASK, "contextId": CONTEXT, "status": status("completed", None), "final": true}},
    ]);
    let by_id = json!({"action": "watch", "target_alias": "support", "task_id": TASK});
    let asks = task(
        "input-required",
        Some("Which of the two incidents of Monday do you mean, INC-42 or INC-43?"),
        &Value::Null,
    );
    let mut answer = send("INC-42.");
    answer["task_id"] = json!(TASK);
    let file = json!({"artifactId": "0d5b8a0e-6c3a-4a53-9b0e-3b6a2c3f6f10", "name": "timeline.csv", "parts": [
        {"kind": "file", "file": {"name": "timeline.csv", "mimeType": "text/csv", "uri": "https://support.example/files/timeline.csv"}}]});
    vec![
        cost(
            "a question",
            json!({"message/send": [{"result": done}]}),
            &[send("Summarize incident INC-42.")],
        )
        .await,
        cost(
            "a long task, watched",
            json!({"message/send": [{"result": working}], "tasks/resubscribe": [{"sse": events}]}),
            &[send("Summarize incident INC-42."), by_id],
        )
        .await,
        cost(
            "a question back",
            json!({"message/send": [{"result": asks}, {"result": done}]}),
            &[send("Summarize Monday's incident."), answer],
        )
        .await,
        cost(
            "a file",
            json!({"message/send": [{"result": task("completed", None, &json!([file]))}]}),
            &[send("Send me the timeline of INC-42.")],
        )
        .await,
        cost(
            "a failure",
            json!({"message/send": [{"result": task("failed", Some("The incident store is offline until 18:00 UTC."), &Value::Null)}]}),
            &[send("Summarize incident INC-42.")],
        )
        .await,
    ]
}

/// Returns the field names in the reference's recorded answers, outside `raw`.
fn recorded_fields() -> BTreeSet<String> {
    fn collect(value: &Value, names: &mut BTreeSet<String>) {
        match value {
            Value::Object(fields) => {
                for (name, value) in fields.iter().filter(|(name, _)| *name != "raw") {
                    names.insert(name.clone());
                    collect(value, names);
                }
            }
            Value::Array(items) => items.iter().for_each(|item| collect(item, names)),
            _ => {}
        }
    }
    let mut names = BTreeSet::from(["raw".to_owned()]);
    for entry in fs::read_dir(root("fixtures/golden")).unwrap() {
        let path = entry.unwrap().path();
        if path
            .extension()
            .is_some_and(|extension| extension == "json")
        {
            let case: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
            collect(&case["expected"], &mut names);
        }
    }
    names
}

/// Returns the envelope in the form of the reference: without the fields that this tool adds. `raw` is the answer of
/// the agent.
fn as_reference(envelope: &Value, fields: &BTreeSet<String>) -> Value {
    match envelope {
        Value::Object(map) => map
            .iter()
            .filter(|(name, _)| fields.contains(*name))
            .map(|(name, value)| match name.as_str() {
                "raw" => (name.clone(), value.clone()),
                _ => (name.clone(), as_reference(value, fields)),
            })
            .collect(),
        Value::Array(items) => items
            .iter()
            .map(|item| as_reference(item, fields))
            .collect(),
        other => other.clone(),
    }
}

/// Returns the number of tokens of each text.
fn tokens(texts: &[String]) -> Vec<usize> {
    let installed = node::install("tokens", &[TOKENIZER]);
    let module = installed.package("gpt-tokenizer/esm/encoding/o200k_base.js");
    let script = format!(
        "import {{ countTokens }} from {};\n\
         let input = ''; for await (const chunk of process.stdin) input += chunk;\n\
         console.log(JSON.stringify(JSON.parse(input).map((text) => countTokens(text))));",
        json!(module)
    );
    let mut child = Command::new(installed.node())
        .args(["--input-type=module", "--eval", &script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let input = json!(texts).to_string();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Returns the definition in the form for a provider.
fn definition(tool_schema: &str) -> String {
    let mut tool: Value =
        serde_json::from_str(&plugin("https://support.example", tool_schema).definition()).unwrap();
    tool.as_object_mut().unwrap().remove("label");
    tool.to_string()
}

#[tokio::test]
async fn delegations_cost_a_quarter_of_the_envelopes() {
    let fields = recorded_fields();
    let costs = delegations().await;
    let mut texts = Vec::new();
    for cost in &costs {
        texts.push(cost.results.join(""));
        let envelopes = cost.envelopes.iter();
        texts.push(
            envelopes
                .map(|envelope| as_reference(envelope, &fields).to_string())
                .collect(),
        );
    }
    let (compact, full) = (definition("compact"), definition("full"));
    let skill = text("openclaw/skills/remote-agent/SKILL.md");
    texts.push(format!("{compact}{skill}"));
    texts.push(full.clone());
    let counted = tokens(&texts);
    let mut rows: Vec<(&str, usize, usize)> = costs
        .iter()
        .zip(counted.chunks(2))
        .map(|(cost, pair)| (cost.name, pair[0], pair[1]))
        .collect();
    let sum = rows
        .iter()
        .fold((0, 0), |sum, row| (sum.0 + row.1, sum.1 + row.2));
    rows.push(("all five", sum.0, sum.1));
    let mut table =
        "| results of | this tool | the reference | share |\n|---|---|---|---|\n".to_owned();
    let mut line = |what: &str, tool_tokens: usize, envelope_tokens: usize| {
        let share = tool_tokens * 100 / envelope_tokens;
        table += &format!("| {what} | {tool_tokens} | {envelope_tokens} | {share} % |\n");
    };
    for (what, tool_tokens, envelope_tokens) in rows {
        line(what, tool_tokens, envelope_tokens);
    }
    let [.., paid, whole] = counted[..] else {
        unreachable!("the definitions are counted last")
    };
    line("the definition and the skill", paid, whole);
    println!("{table}\n{}", texts.join("\n----\n"));
    generated::part("docs/reference/model-text.md", "tokens", &table);
    assert!(sum.0 * 4 <= sum.1, "{sum:?}");
    assert!(paid * 2 <= whole, "{paid} of {whole}");
}
