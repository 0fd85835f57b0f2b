//! The text for models: its length, and the pages of long artifacts.

use std::sync::Arc;

use base::log::Silent;
use openclaw_remote_agent::plugin::{CallInput, Plugin};
use serde_json::{Value, json};
use testkit::conformance::{Peers, peers::Recorded};

use crate::contract::{generated, in_process::check_result, text};

/// The agent, and a plugin that has it as its target.
struct Desk {
    peers: Peers,
    plugin: Arc<Plugin>,
}

impl Desk {
    /// Returns an agent whose task has these artifacts, and a plugin with these limits.
    async fn with(artifacts: &Value, limits: &Value) -> Self {
        let card = json!({
            "protocolVersion": "0.3.0", "name": "Desk", "description": "Sorts tickets.", "version": "1.0.0",
            "url": "{{origin}}/a2a/jsonrpc", "preferredTransport": "JSONRPC", "capabilities": {"streaming": true},
            "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
            "skills": [{"id": "sort", "name": "Sorting", "description": "Reads a ticket and says what to do with it.", "tags": ["helpdesk"]}],
        });
        let task = json!({"kind": "task", "id": "task-7", "contextId": "context-7", "status": {"state": "completed"},
            "artifacts": artifacts, "history": [{"kind": "message", "role": "agent", "messageId": "m", "parts": []}]});
        let asks = json!({"kind": "task", "id": "task-7", "contextId": "context-7", "status": {"state": "input-required",
            "message": {"kind": "message", "role": "agent", "messageId": "q", "parts": [{"kind": "text", "text": "Which of the two tickets do you mean?"}]}}});
        let answers = json!([{"result": task}, {"result": asks}, {"error": {"code": -32001, "message": "Task not found"}}]);
        let script = json!({"peers": {"desk": {"card": card, "rpc": {"message/send": answers, "tasks/get": {"result": task}}}}});
        let peers = Peers::start(&script).await.unwrap();
        let target = json!({"alias": "desk", "baseUrl": peers.origin("desk"), "description": "First line of support"});
        let config = json!({"enabled": true, "targets": [target], "limits": limits});
        let plugin = Plugin::new(&config.to_string(), Arc::new(Silent)).unwrap();
        Self {
            peers,
            plugin: Arc::new(plugin),
        }
    }

    /// Returns the envelope of a request, as text.
    async fn call(&self, request: &Value) -> String {
        let job = CallInput {
            request: request.to_string(),
            ..CallInput::default()
        };
        let envelope = self.plugin.start(job).await;
        check_result(&serde_json::from_str(&envelope).unwrap());
        envelope
    }

    async fn send(&self) -> String {
        let parts = json!([{"kind": "text", "text": "Sort out the tickets."}]);
        let request = json!({"action": "send", "target_alias": "desk", "parts": parts});
        self.call(&request).await
    }

    /// Returns a page of an artifact of the task, or its error.
    async fn page(&self, artifact_id: &str, offset: usize) -> Value {
        let request = json!({"action": "status", "target_alias": "desk", "task_id": "task-7", "artifact_id": artifact_id, "offset": offset});
        serde_json::from_str(&self.call(&request).await).unwrap()
    }
}

fn artifact(id: &str, text: &str) -> Value {
    json!({"artifactId": id, "name": format!("{id}.txt"), "parts": [{"kind": "text", "text": text}]})
}

/// Ten artifacts of 2 KiB each.
fn ten() -> Value {
    let text = "A line of sixty-four characters, which is repeated to the end..\n".repeat(32);
    assert_eq!(text.len(), 2048);
    let artifacts = (1..=10).map(|i| artifact(&format!("report-{i}"), &text));
    artifacts.collect()
}

/// The text above the table that `contract::tokens` writes.
const TOKENS: &str = r#"
## Tokens

The table counts five everyday delegations in tokens of `o200k_base`, with an agent that answers as the official SDKs do. The reference is
`openclaw-a2a-outbound`: its results are envelopes as compact JSON, with the fields of its recorded answers. Its definition has 7,533 characters; the
table counts `toolSchema: full` instead, which is as long. `UPDATE=1 cargo real --test suite contract::tokens` writes the table.

"#;

/// The section about forgeries.
const REPLACEMENTS: &str = r#"
## Replaced and omitted text

The envelope contains the text of an agent unchanged, except for credentials. In the text for a model the library makes these changes:

| an agent writes | a model reads |
|---|---|
| a marker of the fence, with or without its brackets | `[[MARKER_SANITIZED]]` or `[[END_MARKER_SANITIZED]]` |
| a control token of a model: `<\|im_start\|>`, `<｜User｜>`, `<bos>`, `[TOOL_CALLS]` | the same in round brackets: `(\|im_start\|)` |
| control characters except tabs and line ends, and terminal sequences | removed |
| invisible characters (Unicode's `Default_Ignorable_Code_Point`) | removed |

The library finds a marker or token in upper and lower case, in letters of other scripts and styles (Unicode's `confusables.txt`, compatibility forms,
small capitals), with accents and other marks, and with invisible characters in it. It also finds a marker with punctuation and spaces between its
letters, and with digits instead of letters. It does not change the letters of other text.

Tokens are all words between `<|` and `|>`, with one of the two bars or both, ASCII or full-width, and the tokens without bars of Llama, Gemma, Mistral,
Qwen, DeepSeek, GLM, Command R and Seed. The library finds tokens in square brackets only in capital letters.

The library removes the characters that join emoji or select their style: 👩‍👧 becomes 👩👧, and ❤️ becomes ❤. It also removes the characters that
separate letters in Persian and in the scripts of India. Such words stay readable, and no text can hide in them. `details` has the unchanged text.
"#;

#[tokio::test]
async fn documented_figures_match_the_code() {
    let desk = Desk::with(&ten(), &json!({})).await;
    let small = Desk::with(&ten(), &json!({"modelTextChars": 1000})).await;
    let one = Desk::with(
        &json!([artifact("report", "Ticket 7 is a duplicate of 3.")]),
        &json!({}),
    )
    .await;
    let listed = json!({"action": "list_targets"});
    let ten_sent = desk.send().await;
    let rows = [
        (
            "a task with ten artifacts of 2 KiB, the default cap",
            &desk,
            ten_sent.clone(),
        ),
        (
            "the same task, the smallest cap",
            &small,
            small.send().await,
        ),
        (
            "a page of one of these artifacts",
            &desk,
            desk.page("report-1", 0).await.to_string(),
        ),
        ("a task with one short artifact", &one, one.send().await),
        ("a question", &one, one.send().await),
        ("an error of the agent", &one, one.send().await),
        ("a list of one target", &one, one.call(&listed).await),
    ];
    let mut page = "# Text for models\n\nUse this page to see which text of a result a model reads, and how long it is. `content` is the text for a model, \
        `details` the envelope for programs. The table has their lengths in characters:\n\n\
        | result | a model reads | the envelope has |\n|---|---|---|\n"
        .to_owned();
    for (what, desk, envelope) in &rows {
        let reads = desk.plugin.render(envelope).chars().count();
        // The port differs between runs, and may be shorter.
        let envelope = envelope.replace(desk.peers.origin("desk"), "http://127.0.0.1:40000");
        let has = envelope.chars().count();
        page += &format!("| {what} | {reads} | {has} |\n");
    }
    let example = one.plugin.render(&rows[4].2);
    page += &format!(
        "\nThe question is this text:\n\n```text\n{}\n```\n",
        anonymous(&example)
    );
    page += TOKENS;
    let now = text("docs/reference/model-text.md");
    let table = now.split("<!-- generated: tokens -->").nth(1);
    let table = table.and_then(|rest| rest.split("<!-- end: tokens -->").next());
    page += &format!(
        "<!-- generated: tokens -->{}<!-- end: tokens -->\n",
        table.unwrap_or("\n\n")
    );
    page += REPLACEMENTS;
    generated::file("docs/reference/model-text.md", &page);
    assert!(desk.plugin.render(&ten_sent).chars().count() <= 12_000);
}

/// Returns the text with fixed values in place of random parts.
fn anonymous(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let line = match (line.split_once("rah_"), line.split_once(" id=\"")) {
            (Some((before, _)), _) => format!("{before}rah_0a3ff8c2-4a6d-48cb-a57d-4ae6f3c589d0"),
            (_, Some((marker, _))) => format!("{marker} id=\"3c1f0e5a\">>>"),
            _ => line.to_owned(),
        };
        out += &line;
        out.push('\n');
    }
    out.trim_end().to_owned()
}

#[tokio::test]
async fn consecutive_pages_are_the_whole_artifact() {
    let text: String = ('\u{1}'..='\u{3000}')
        .chain('\u{1f600}'..='\u{1f640}')
        .collect();
    let desk = Desk::with(
        &json!([artifact("a", &text), artifact("b", "")]),
        &json!({"modelTextChars": 3000}),
    )
    .await;
    let mut read = String::new();
    let mut offset = Some(0);
    while let Some(from) = offset {
        let envelope = desk.page("a", from).await;
        let page = &envelope["summary"]["artifact_page"];
        let shown = page["text"].as_str().unwrap();
        assert!(shown.chars().count() <= 3000);
        assert_eq!(page["total"], text.chars().count());
        let model = desk.plugin.render(&envelope.to_string());
        assert!(
            model.chars().count() <= 3000
                && model.contains(&format!("of {}]", text.chars().count())),
            "{model}"
        );
        read += shown;
        offset = page["next_offset"]
            .as_u64()
            .map(|next| usize::try_from(next).unwrap());
        assert_eq!(page["next_artifact_id"], "b");
    }
    assert_eq!(read, text);
}

#[tokio::test]
async fn page_envelope_has_only_the_page() {
    let desk = Desk::with(&ten(), &json!({"modelTextChars": 1000})).await;
    let envelope = desk.page("report-3", 2000).await;
    assert_eq!(envelope["ok"], true, "{envelope}");
    assert!(
        envelope["summary"]["artifacts"].is_null() && envelope["summary"]["message_text"].is_null()
    );
    assert_eq!(
        envelope["raw"],
        json!({"kind": "task", "id": "task-7", "contextId": "context-7", "status": {"state": "completed"}})
    );
    assert_eq!(
        envelope["summary"]["artifact_page"]["text"]
            .as_str()
            .map(str::len),
        Some(48)
    );
    desk.page("report-3", 0).await;
    let log = desk.peers.log("desk");
    let methods = log.iter().filter_map(Recorded::rpc_method);
    assert_eq!(methods.collect::<Vec<_>>(), ["tasks/get", "tasks/get"]);
}

#[tokio::test]
async fn unknown_artifact_is_refused_with_known_ids() {
    let desk = Desk::with(&ten(), &json!({})).await;
    let envelope = desk.page("report-11", 0).await;
    assert_eq!(
        envelope["error"]["reason"], "unknown_artifact",
        "{envelope}"
    );
    let model = desk.plugin.render(&envelope.to_string());
    assert!(model.contains("\"report-1\"\n\"report-2\"\n"), "{model}");
}

#[tokio::test]
async fn offset_requires_artifact_and_status() {
    let desk = Desk::with(&ten(), &json!({})).await;
    let invalid = [
        json!({"action": "status", "target_alias": "desk", "task_id": "t", "offset": 3}),
        json!({"action": "status", "target_alias": "desk", "task_id": "t", "artifact_id": "a", "history_length": 3}),
        json!({"action": "status", "target_alias": "desk", "task_id": "t", "artifact_id": "a", "offset": -1}),
        json!({"action": "watch", "target_alias": "desk", "task_id": "t", "artifact_id": "a"}),
        json!({"action": "send", "target_alias": "desk", "parts": [{"kind": "text", "text": "x"}], "artifact_id": "a", "offset": 0}),
    ];
    for request in invalid {
        let envelope: Value = serde_json::from_str(&desk.call(&request).await).unwrap();
        assert_eq!(envelope["error"]["reason"], "invalid_request", "{envelope}");
    }
    assert!(desk.peers.log("desk").is_empty());
}
