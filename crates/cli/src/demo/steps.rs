//! The demo, step by step. Each step checks what it shows.

use std::time::Duration;

use serde_json::{Value, json};

use super::stage::{Scratch, Stage};
use crate::{exit::Failure, follow_up};

/// Short enough to wait for.
const HANDLE_TTL: Duration = Duration::from_millis(20);

/// The timeout of the watch that expires before its task ends.
const WAIT: Duration = Duration::from_millis(300);

const ANSWER: &str = "/summary/message_text";
const KIND: &str = "/summary/response_kind";
const STATE: &str = "/summary/continuation/task/status";
const HANDLE: &str = "/summary/continuation/task/task_handle";
const CONTINUATION: &str = "/summary/continuation";

/// Plays every step.
pub(super) async fn play(stage: &mut Stage) -> Result<(), Failure> {
    list_targets(stage).await?;
    message(stage).await?;
    newer_version(stage).await?;
    stream_over_json_rpc(stage).await?;
    stream_over_http_json(stage).await?;
    cut_stream(stage).await?;
    question_and_restart(stage).await?;
    let repair = watch(stage).await?;
    expired_wait(stage).await?;
    cancel(stage).await?;
    triad(stage).await?;
    expired_handle(stage, &repair).await?;
    refused(stage).await
}

fn send(to: &str, words: &str) -> Value {
    json!({"action": "send", "target_alias": to, "parts": [{"kind": "text", "text": words}]})
}

async fn list_targets(stage: &mut Stage) -> Result<(), Failure> {
    stage.step(
        "list_targets",
        "Which agents can take work? Their cards say.",
    );
    let seen = stage.call(&json!({"action": "list_targets"})).await?;
    for (i, (alias, name)) in [
        ("triage", "Incident Triage"),
        ("writer", "Report Writer"),
        ("archive", "Incident Archive"),
    ]
    .iter()
    .enumerate()
    {
        let target = format!("/summary/targets/{i}");
        seen.is(&format!("{target}/target_alias"), *alias)?
            .is(&format!("{target}/target_name"), *name)?
            .is(&format!("{target}/last_refresh_error"), Value::Null)?;
        let [url, transport] = ["target_url", "peer_card/preferred_transport"]
            .map(|field| seen.text(&format!("{target}/{field}")));
        stage
            .story
            .said(alias, &format!("{name}, over {transport} at {url}"));
    }
    Ok(())
}

async fn message(stage: &mut Stage) -> Result<(), Failure> {
    stage.step("send", "A question that is answered at once.");
    let words = "Is the shop down?";
    stage.story.sent("triage", words);
    let seen = stage.call(&send("triage", words)).await?;
    let answer = "Checkout fails since 09:12. Everything else is up.";
    seen.is(KIND, "message")?.is(ANSWER, answer)?;
    stage.story.said("triage", answer);
    let shown = "a message: no task began, so there is nothing to follow";
    stage.story.shown(shown);
    Ok(())
}

async fn newer_version(stage: &mut Stage) -> Result<(), Failure> {
    stage.step("send", "The same with an agent that speaks A2A 1.0.");
    let words = "Has this happened before?";
    stage.story.sent("archive", words);
    let seen = stage.call(&send("archive", words)).await?;
    let answer = "Twice this year: in March and in May.";
    seen.is(KIND, "message")?
        .is(ANSWER, answer)?
        .is("/summary/protocol_version", "1.0")?
        .is("/raw/kind", "message")?;
    stage.story.said("archive", answer);
    let shown = "its card says the version; the envelope has the same shape for both";
    stage.story.shown(shown);
    Ok(())
}

async fn stream_over_json_rpc(stage: &mut Stage) -> Result<(), Failure> {
    stage.step(
        "send",
        "Work that takes a while, followed as it goes (JSON-RPC).",
    );
    let words = "Find the cause.";
    stage.story.sent("triage", words);
    let mut request = send("triage", words);
    request["follow_updates"] = json!(true);
    let seen = stage.call(&request).await?;
    let cause = "The payment service has no free connections.";
    seen.after_updates(5)?
        .is(STATE, "completed")?
        .is(ANSWER, cause)?;
    stage.story.said("triage", cause);
    stage
        .story
        .shown("the pieces of the artifact are one text again");
    Ok(())
}

async fn stream_over_http_json(stage: &mut Stage) -> Result<(), Failure> {
    stage.step("send", "The same with an agent that speaks HTTP+JSON.");
    let words = "Outline the report.";
    stage.story.sent("writer", words);
    let mut request = send("writer", words);
    request["follow_updates"] = json!(true);
    let seen = stage.call(&request).await?;
    seen.after_updates(5)?
        .is(STATE, "completed")?
        .is("/summary/artifacts/0/name", "outline.md")?
        .is("/summary/artifacts/1/name", "annex.md")?
        .is(ANSWER, "1. What happened\n\n2. What we change")?;
    let shown = "two artifacts, in the same shape: the caller never sees the transport";
    stage.story.shown(shown);
    Ok(())
}

async fn cut_stream(stage: &mut Stage) -> Result<(), Failure> {
    stage.step("send", "A connection that breaks in the middle.");
    let words = "What helped then?";
    stage.story.sent("archive", words);
    let mut request = send("archive", words);
    request["follow_updates"] = json!(true);
    let seen = stage.call(&request).await?;
    let remedy = "In May a larger pool of connections helped.";
    // The snapshot that the second connection begins with brings nothing new, so no update shows it.
    seen.after_updates(4)?
        .is(STATE, "completed")?
        .is(ANSWER, remedy)?;
    let received = stage.peers.log("archive");
    let times = |method: &str| {
        let calls = received.iter().map(|request| request.rpc_method());
        calls.filter(|called| *called == Some(method)).count()
    };
    stage.check(
        times("SendStreamingMessage") == 1 && times("SubscribeToTask") == 1,
        "the agent was not sent one message and then asked for the rest",
    )?;
    stage.story.said("archive", remedy);
    let shown = "cut after the first piece and taken up again: nothing lost, doubled or sent twice";
    stage.story.shown(shown);
    Ok(())
}

async fn question_and_restart(stage: &mut Stage) -> Result<(), Failure> {
    stage.step("send", "A task that stops to ask.");
    let words = "Write the report.";
    stage.story.sent("writer", words);
    let seen = stage.call(&send("writer", words)).await?;
    let question = "For customers, or for staff only?";
    seen.is(STATE, "input-required")?.is(ANSWER, question)?;
    stage.story.said("writer", question);
    let file = Scratch::new();
    follow_up::save(file.path(), seen.at(CONTINUATION))?;
    let handle = seen.text(HANDLE).to_owned();
    let shown = "summary.continuation is kept in a file";
    stage.story.shown(shown);

    stage.step(
        "send",
        "The host restarts, and the answer still finds its task.",
    );
    stage.restart(&json!({}))?;
    stage
        .story
        .news("a new instance of the plugin; the old handle means nothing to it");
    let words = "For customers.";
    stage.story.sent("writer", words);
    let mut request = send("writer", words);
    let fields = request.as_object_mut().into_iter();
    fields.for_each(|fields| drop(fields.remove("target_alias")));
    request["continuation"] = follow_up::read(file.path())?;
    let seen = stage.call(&request).await?;
    let report = "Dear customers, checkout works again.";
    seen.is(STATE, "completed")?.is(ANSWER, report)?;
    stage.check(seen.text(HANDLE) != handle, "the handle is the old one")?;
    let received = stage.peers.log("writer").pop().and_then(|last| last.body);
    let task = received.map(|body| body["message"]["taskId"].clone());
    stage.check(
        task == Some(json!("final-1")),
        "the agent did not receive the answer for its task `final-1`",
    )?;
    stage.story.said("writer", report);
    stage
        .story
        .shown("found by the target and the task id in the continuation");
    Ok(())
}

/// Returns the continuation of the watched task.
async fn watch(stage: &mut Stage) -> Result<Value, Failure> {
    stage.step("watch", "Begin now, look in later.");
    let words = "Repair it.";
    stage.story.sent("triage", words);
    let mut request = send("triage", words);
    request["blocking"] = json!(false);
    request["task_requirement"] = json!("required");
    let seen = stage.call(&request).await?;
    seen.is(STATE, "working")?;
    stage.story.news("the agent works on; watching the task");
    let continuation = seen.at(CONTINUATION).clone();
    let request = json!({"action": "watch", "continuation": continuation});
    let seen = stage.call(&request).await?;
    let outcome = "Checkout works again since 09:48.";
    seen.after_updates(3)?
        .is(STATE, "completed")?
        .is(ANSWER, outcome)?;
    stage.story.said("triage", outcome);
    Ok(seen.at(CONTINUATION).clone())
}

async fn expired_wait(stage: &mut Stage) -> Result<(), Failure> {
    let wait = u64::try_from(WAIT.as_millis()).unwrap_or(u64::MAX);
    let why = format!("Work that takes longer than the call waits; here {wait} ms.");
    stage.step("watch", &why);
    let words = "How did the incidents of last year begin?";
    stage.story.sent("archive", words);
    let mut request = send("archive", words);
    request["blocking"] = json!(false);
    let seen = stage.call(&request).await?;
    seen.is(STATE, "working")?;
    let continuation = seen.at(CONTINUATION).clone();
    let mut request = json!({"action": "watch", "continuation": continuation, "timeout_ms": wait});
    let seen = stage.call(&request).await?;
    seen.is("/ok", true)?
        .is("/summary/wait_expired", true)?
        .is(STATE, "working")?;
    let next = seen.text("/summary/next_step");
    let goes_on = next.split_once(". ").map_or(next, |(first, _)| first);
    stage.story.news(&format!("wait_expired: {goes_on}"));
    let fields = request.as_object_mut().into_iter();
    fields.for_each(|fields| drop(fields.remove("timeout_ms")));
    let seen = stage.call(&request).await?;
    let survey = "Most began with a deployment.";
    seen.is(STATE, "completed")?.is(ANSWER, survey)?;
    stage.story.said("archive", survey);
    let shown = "the end of a wait is not the end of the work, and no error";
    stage.story.shown(shown);
    Ok(())
}

async fn cancel(stage: &mut Stage) -> Result<(), Failure> {
    stage.step("cancel", "Work that is not wanted any more.");
    let words = "Translate the report into 24 languages.";
    stage.story.sent("writer", words);
    let mut request = send("writer", words);
    request["blocking"] = json!(false);
    let seen = stage.call(&request).await?;
    seen.is(STATE, "working")?;
    let request = json!({"action": "cancel", "task_handle": seen.at(HANDLE)});
    let seen = stage.call(&request).await?;
    seen.is(STATE, "canceled")?;
    stage.story.shown("the agent says: canceled");
    Ok(())
}

async fn triad(stage: &mut Stage) -> Result<(), Failure> {
    stage.step(
        "send",
        "A decision of three: agents behind a gateway on this machine vote.",
    );
    let words = "Open the shop again today.";
    stage.story.sent("gateway:triad", words);
    let mut request = send("gateway:triad", words);
    request["follow_updates"] = json!(true);
    let seen = stage.call(&request).await?;
    // The decision, the end, and before them the votes; those that come together may be one update.
    seen.after_at_least(3)?
        .is(STATE, "completed")?
        .is("/summary/artifacts/0/name", "decision")?
        .is("/summary/artifacts/0/parts/1/data/result", "approved")?
        .is("/summary/artifacts/0/parts/1/data/consensus", true)?
        .is("/summary/artifacts/0/parts/1/data/votes/beta", "reject")?;
    stage.story.said("gateway:triad", seen.text(ANSWER));
    stage
        .story
        .shown("two of three decide; the gateway counts, and each vote was an update");
    Ok(())
}

async fn expired_handle(stage: &mut Stage, repair: &Value) -> Result<(), Failure> {
    let ttl = u64::try_from(HANDLE_TTL.as_millis()).unwrap_or(u64::MAX);
    let why = format!("A handle lives as long as it is used; here for {ttl} ms.");
    stage.step("status", &why);
    stage.restart(&json!({"ttlMs": ttl}))?;
    let by_continuation = json!({"action": "status", "continuation": repair});
    let seen = stage.call(&by_continuation).await?;
    seen.is(STATE, "completed")?;
    // Its time began before the result came, so it is over now.
    tokio::time::sleep(HANDLE_TTL).await;
    let request = json!({"action": "status", "task_handle": seen.at(HANDLE)});
    let late = stage.call(&request).await?;
    late.is("/ok", false)?
        .is("/error/code", "EXPIRED_TASK_HANDLE")?;
    let hint = late.text("/error/details/hint");
    let retry = hint.split_once(',').map_or(hint, |(first, _)| first);
    stage
        .story
        .news(&format!("{}: {retry}", late.text("/error/code")));
    let request = json!({"action": "status", "continuation": seen.at(CONTINUATION)});
    let again = stage.call(&request).await?;
    again.is(STATE, "completed")?;
    stage
        .story
        .shown("the continuation around the same handle still works");
    Ok(())
}

async fn refused(stage: &mut Stage) -> Result<(), Failure> {
    stage.step(
        "send",
        "An address that is not configured, for example from a planted prompt.",
    );
    let words = "Here are all our secrets.";
    let stranger = format!("{}/", stage.peers.origin("stranger"));
    stage.story.sent(&stranger, words);
    let mut request = send("triage", words);
    let fields = request.as_object_mut().into_iter();
    fields.for_each(|fields| drop(fields.remove("target_alias")));
    request["target_url"] = json!(stranger);
    let seen = stage.call(&request).await?;
    seen.is("/ok", false)?
        .is("/error/code", "VALIDATION_ERROR")?
        .is("/error/details/errors/0/instancePath", "/target_url")?;
    stage.story.news(&format!(
        "{}: {}",
        seen.text("/error/code"),
        seen.text("/error/details/errors/0/message")
    ));
    let untouched = stage.peers.connections("stranger") == 0;
    stage.check(untouched, "the stranger was connected to")?;
    stage.story.shown("refused before anything was sent");
    Ok(())
}
