#![allow(clippy::unwrap_used)]

use gateway_bridge::delegation::Delegation;

use super::*;
use crate::backend::{Proposal, Utterance};

fn turn(text: &str) -> Turn {
    Turn {
        agent: "coder".into(),
        from: "steward".into(),
        thread: "sess-1".into(),
        text: text.into(),
        history: Vec::new(),
        proposal: None,
        delegation: None,
    }
}

async fn run(command: &str, turn: &Turn) -> Result<String, BackendError> {
    let backend = CommandBackend::new(command);
    backend
        .answer(turn, &|_| {}, &CancellationToken::new())
        .await
}

#[tokio::test]
async fn command_reads_one_json_object() {
    let mut turn = turn("Fix it.");
    turn.history.push(Utterance {
        from: "coder".into(),
        text: "Ready.".into(),
    });
    turn.delegation = Some(Delegation {
        hop: 2,
        chain: Some("c".into()),
    });
    let shown = run("sed 's/^/read /'", &turn).await.unwrap();
    let read: Value = serde_json::from_str(shown.strip_prefix("read ").unwrap()).unwrap();
    let expected = json!({"type": "message", "agent": "coder", "from": "steward", "thread": "sess-1", "text": "Fix it.",
        "history": [{"from": "coder", "text": "Ready."}], "delegation": {"hop": 2, "chain": "c"}});
    assert_eq!(read, expected);
}

#[tokio::test]
async fn peer_text_is_not_a_command() {
    let text = "$(touch /tmp/x); `id` --help\n-rf '\"";
    let shown = run("sed 's/^/read /'; echo \"$#\"", &turn(text))
        .await
        .unwrap();
    let (line, arguments) = shown.rsplit_once('\n').unwrap();
    let read: Value = serde_json::from_str(line.strip_prefix("read ").unwrap()).unwrap();
    assert_eq!(read["text"], text);
    assert_eq!(arguments, "0");
}

#[tokio::test]
async fn json_lines_are_joined() {
    let lines = r#"echo '{"type":"status","text":"thinking"}'; echo; echo '{"type":"message","text":"one"}'; echo '{"type":"message","text":"two"}'"#;
    assert_eq!(run(lines, &turn("")).await.unwrap(), "one\ntwo");
    let error = run(r#"echo '{"type":"error","text":"no model"}'"#, &turn("")).await;
    assert_eq!(error.unwrap_err().message, "no model");
    let text = run(r#"echo '{"answer": 42}'"#, &turn("")).await.unwrap();
    assert_eq!(text, r#"{"answer": 42}"#, "JSON without a type is text");
}

#[tokio::test]
async fn vote_is_the_whole_output() {
    let mut turn = turn("Vote.");
    turn.proposal = Some(Proposal {
        id: "p-1".into(),
        text: "Ship it".into(),
        reasoning: None,
    });
    let vote = r#"{"vote":"approve"}"#;
    assert_eq!(run(&format!("echo '{vote}'"), &turn).await.unwrap(), vote);
    let read = run("cat", &turn).await.unwrap();
    let read: Value = serde_json::from_str(&read).unwrap();
    assert_eq!(
        [&read["type"], &read["proposalId"], &read["proposal"]],
        ["proposal", "p-1", "Ship it"]
    );
}

#[tokio::test]
async fn command_that_dies_after_half_an_answer_fails() {
    let error = run("echo half; echo trouble >&2; kill -9 $$", &turn(""))
        .await
        .unwrap_err();
    assert!(error.message.contains("signal: 9"), "{error}");
    assert_eq!(error.detail.as_deref(), Some("trouble"));
    assert!(!error.message.contains("trouble"), "a peer reads no stderr");
}

#[tokio::test]
async fn status_lines_are_progress_and_no_answer() {
    let reports = std::sync::Mutex::new(Vec::new());
    let on_report = |text: &str| reports.lock().unwrap().push(text.to_owned());
    let command = r#"echo '{"type":"status","text":"reading"}'; printf '{"type":"status",'; echo '"text":"writing"}'; echo '{"type":"message","text":"done"}'"#;
    let (backend, turn) = (CommandBackend::new(command), turn(""));
    let cancel = CancellationToken::new();
    let answer = backend.answer(&turn, &on_report, &cancel).await;
    assert_eq!(answer.unwrap(), "done");
    assert_eq!(*reports.lock().unwrap(), ["reading", "writing"]);
}

#[tokio::test]
async fn first_message_starts_a_delegation_chain() {
    let shown = async |turn: &Turn| {
        run("echo \"$REMOTE_AGENT_DELEGATION\"", turn)
            .await
            .unwrap()
    };
    assert_eq!(shown(&turn("")).await, r#"{"hop":0}"#);
    let chain = json!({"hop": 2, "chain": "c"});
    let deeper = Turn {
        delegation: Delegation::read(&chain),
        ..turn("")
    };
    assert_eq!(shown(&deeper).await, r#"{"chain":"c","hop":2}"#);
}

#[tokio::test]
async fn silent_command_fails() {
    let error = run("true", &turn("")).await.unwrap_err();
    assert!(error.message.contains("no answer"), "{error}");
}

#[tokio::test]
async fn flooding_command_is_stopped() {
    let error = run("yes", &turn("")).await.unwrap_err();
    assert!(error.message.contains("more than"), "{error}");
}

#[tokio::test]
async fn cancellation_kills_the_process_group() {
    let folder = tempfile::tempdir().unwrap();
    let pid_file = folder.path().join("pid");
    let backend = CommandBackend::new(format!(
        "sleep 600 & echo $! > {0}.new; mv {0}.new {0}; wait",
        pid_file.display()
    ));
    let cancel = CancellationToken::new();
    let stop = cancel.clone();
    let running = tokio::spawn(async move { backend.answer(&turn(""), &|_| {}, &stop).await });
    let pid = loop {
        match std::fs::read_to_string(&pid_file) {
            Ok(pid) => break pid.trim().to_owned(),
            Err(_) => tokio::task::yield_now().await,
        }
    };
    cancel.cancel();
    assert!(running.await.unwrap().is_err());
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat
        .rsplit(") ")
        .next()
        .and_then(|rest| rest.chars().next());
    assert!(state.is_none_or(|state| state == 'Z'), "{stat}");
}

#[tokio::test]
async fn command_gets_no_removed_variable() {
    let backend = CommandBackend::new("echo \"[$PATH]\"").without_variables(["PATH".to_owned()]);
    // The shell may set its own `PATH`, which differs from that of this process.
    let shown = backend
        .answer(&turn(""), &|_| {}, &CancellationToken::new())
        .await
        .unwrap();
    assert_ne!(shown, format!("[{}]", std::env::var("PATH").unwrap()));
}
