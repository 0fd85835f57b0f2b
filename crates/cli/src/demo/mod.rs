//! `remote-agent demo`: demonstrates the plugin with scripted agents and a gateway. Needs neither OpenClaw nor a network.
//! Each step checks its own result.

mod fixture;

use std::{
    io::{self, IsTerminal},
    sync::Arc,
    time::{Duration, Instant},
};

use clap::ColorChoice;
use console::Style;
use serde_json::{Value, json};

use super::{
    exit::{Exit, Failure},
    follow_up,
    instance::Library,
    output::{LineWriter, closed_failure, note},
    text,
};
use fixture::{Fixture, TempFile, ask};

const EXAMPLES: &str = "\
Examples:
  remote-agent demo
  remote-agent demo --json | jq -c '[.action, .ok, .error.code]'";

/// Show the plugin at work with scripted agents and a triad on this machine, and check each step
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Print only the envelopes, one a line
    #[arg(long)]
    json: bool,

    /// Colour the lines; auto colours them if standard output is a terminal and NO_COLOR is not set
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = ColorChoice::Auto)]
    color: ColorChoice,
}

/// Runs the subcommand.
///
/// # Errors
/// The library cannot be opened, or a step failed.
pub(super) async fn run(args: Args, verbose: bool) -> Result<Exit, Failure> {
    let printer = Arc::new(Printer::new(args.json, args.color));
    let closed = printer.lines.closed().clone();
    // The agents and the instance are dropped with the demo, whichever branch completes first.
    tokio::select! {
        biased;
        Ok(()) = tokio::signal::ctrl_c() => {
            note("interrupted; the demo's agents are closed");
            Ok(Exit::Interrupted)
        }
        () = closed.cancelled() => Err(closed_failure()),
        done = play(verbose, Arc::clone(&printer)) => done.map(|()| Exit::Ok),
    }
}

async fn play(verbose: bool, printer: Arc<Printer>) -> Result<(), Failure> {
    let started_at = Instant::now();
    let mut fixture = Fixture::start(Library::open(verbose)?, Arc::clone(&printer)).await?;
    printer.print_update("Three scripted agents on this machine and three behind a gateway, called through the plugin as a host calls it.");
    play_steps(&mut fixture).await?;
    let seconds = started_at.elapsed().as_secs_f64();
    let steps = fixture.steps();
    printer.print_update(&format!("\nAll {steps} steps passed in {seconds:.1} s."));
    printer.print_update(&format!(
        "Next: `{} targets --url URL` shows the card of your agent.",
        started_as()
    ));
    Ok(())
}

/// Returns the program name with which this process was started. After a build, `remote-agent` may not be on the `PATH`.
fn started_as() -> String {
    let name = std::env::args_os().next().unwrap_or_default();
    if name.is_empty() {
        return "remote-agent".to_owned();
    }
    text::shell(&name.to_string_lossy())
}

/// Prints to standard output, from any thread.
struct Printer {
    lines: LineWriter,
    json: bool,
    bold: Style,
    dim: Style,
    sent: Style,
    received_style: Style,
    good: Style,
}

impl Printer {
    fn new(json: bool, color: ColorChoice) -> Self {
        let with_color = match color {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => supports_color(),
        };
        let style = || Style::new().force_styling(with_color);
        Self {
            lines: LineWriter::default(),
            json,
            bold: style().bold(),
            dim: style().dim(),
            sent: style().cyan(),
            received_style: style().yellow(),
            good: style().green(),
        }
    }

    /// Prints a line about the demo.
    fn print_update(&self, line: &str) {
        self.line(line.to_owned());
    }

    /// Prints a new step: the tool's action and its purpose.
    fn step(&self, number: usize, action: &str, purpose: &str) {
        let head = self.bold.apply_to(format!("{number:>2} {action}"));
        self.line(format!("\n{head}  {purpose}"));
    }

    /// Prints a message to an agent.
    fn sent(&self, to: &str, message: &str) {
        self.line(format!("   -> {to}: {}", self.sent.apply_to(message)));
    }

    /// Prints a message of an agent.
    fn received(&self, by: &str, message: &str) {
        let message = text::line(message);
        self.line(format!(
            "   <- {by}: {}",
            self.received_style.apply_to(message)
        ));
    }

    /// Prints a status change of a running task.
    fn status_change(&self, what: &str) {
        let what = text::line(what);
        self.line(format!("   .. {}", self.dim.apply_to(what)));
    }

    /// Prints the result of the step.
    fn step_passed(&self, what: &str) {
        self.line(format!("   {} {what}", self.good.apply_to("ok")));
    }

    /// Prints an update of a running call.
    fn update(&self, update: &Value) {
        let event = &update["raw"];
        let artifact = &event["artifact"];
        if let Some(message) = artifact["parts"][0]["text"].as_str() {
            let id = artifact["artifactId"].as_str().unwrap_or_default();
            let more = if event["append"] == true {
                ", more"
            } else {
                ""
            };
            return self.status_change(&format!("artifact {id}{more}: \"{message}\""));
        }
        let state = event["status"]["state"].as_str().unwrap_or_default();
        match update["summary"]["status_message"].as_str() {
            Some(message) => self.status_change(&format!("{state}: \"{message}\"")),
            None => self.status_change(state),
        }
    }

    /// Prints the result of a call.
    fn envelope(&self, envelope: &str) {
        if self.json {
            self.lines.write(envelope.to_owned());
        }
    }

    fn line(&self, line: String) {
        if !self.json {
            self.lines.write(line);
        }
    }
}

/// Returns whether the output may use colors: the terminal supports them and `NO_COLOR` is unset (<https://no-color.org>).
fn supports_color() -> bool {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    io::stdout().is_terminal()
        && set("NO_COLOR").is_none()
        && set("TERM").is_none_or(|term| term != "dumb")
}

/// The lifetime of a task handle, short enough for the demo to wait until it expires.
const HANDLE_TTL: Duration = Duration::from_millis(20);

/// The timeout of a watch that must expire before its task ends.
const SHORT_TIMEOUT: Duration = Duration::from_millis(300);

const ANSWER: &str = "/summary/message_text";
const KIND: &str = "/summary/response_kind";
const STATE: &str = "/summary/continuation/task/status";
const HANDLE: &str = "/summary/continuation/task/task_handle";
const CONTINUATION: &str = "/summary/continuation";

/// Runs all steps.
async fn play_steps(fixture: &mut Fixture) -> Result<(), Failure> {
    list_targets(fixture).await?;
    message(fixture).await?;
    newer_version(fixture).await?;
    stream_over_json_rpc(fixture).await?;
    stream_over_http_json(fixture).await?;
    cut_stream(fixture).await?;
    question_and_restart(fixture).await?;
    let repair = watch(fixture).await?;
    expired_wait(fixture).await?;
    cancel(fixture).await?;
    triad(fixture).await?;
    expired_handle(fixture, &repair).await?;
    refused(fixture).await
}

async fn list_targets(fixture: &mut Fixture) -> Result<(), Failure> {
    fixture.step("list_targets", "Lists the agents, by their cards.");
    let seen = fixture.call(&json!({"action": "list_targets"})).await?;
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
        fixture.received(alias, &format!("{name}, over {transport} at {url}"));
    }
    Ok(())
}

async fn message(fixture: &mut Fixture) -> Result<(), Failure> {
    fixture.step("send", "A question that is answered at once.");
    let seen = ask(fixture, "triage", "Is the shop down?", Value::Null).await?;
    let answer = "Checkout fails since 09:12. Everything else is up.";
    seen.is(KIND, "message")?.is(ANSWER, answer)?;
    fixture.received("triage", answer);
    fixture.step_passed("a message: no task began, so there is nothing to follow");
    Ok(())
}

async fn newer_version(fixture: &mut Fixture) -> Result<(), Failure> {
    fixture.step("send", "The same with an agent that speaks A2A 1.0.");
    let seen = ask(fixture, "archive", "Has this happened before?", Value::Null).await?;
    let answer = "Twice this year: in March and in May.";
    seen.is(KIND, "message")?
        .is(ANSWER, answer)?
        .is("/summary/protocol_version", "1.0")?
        .is("/raw/kind", "message")?;
    fixture.received("archive", answer);
    fixture.step_passed("its card says the version; the envelope has the same shape for both");
    Ok(())
}

async fn stream_over_json_rpc(fixture: &mut Fixture) -> Result<(), Failure> {
    fixture.step("send", "Follows a longer task while it runs (JSON-RPC).");
    let more = json!({"follow_updates": true});
    let seen = ask(fixture, "triage", "Find the cause.", more).await?;
    let cause = "The payment service has no free connections.";
    seen.after_updates(5)?
        .is(STATE, "completed")?
        .is(ANSWER, cause)?;
    fixture.received("triage", cause);
    fixture.step_passed("the pieces of the artifact are one text again");
    Ok(())
}

async fn stream_over_http_json(fixture: &mut Fixture) -> Result<(), Failure> {
    fixture.step("send", "The same with an agent that speaks HTTP+JSON.");
    let more = json!({"follow_updates": true});
    let seen = ask(fixture, "writer", "Outline the report.", more).await?;
    seen.after_updates(5)?
        .is(STATE, "completed")?
        .is("/summary/artifacts/0/name", "outline.md")?
        .is("/summary/artifacts/1/name", "annex.md")?
        .is(ANSWER, "1. What happened\n\n2. What we change")?;
    fixture.step_passed("two artifacts, in the same shape: the caller never sees the transport");
    Ok(())
}

async fn cut_stream(fixture: &mut Fixture) -> Result<(), Failure> {
    fixture.step("send", "A connection that breaks in the middle.");
    let more = json!({"follow_updates": true});
    let seen = ask(fixture, "archive", "What helped then?", more).await?;
    let remedy = "In May a larger pool of connections helped.";
    // The snapshot of the second connection repeats the known state, so it causes no update.
    seen.after_updates(4)?
        .is(STATE, "completed")?
        .is(ANSWER, remedy)?;
    let received = fixture.peers.log("archive");
    let times = |method: &str| {
        let calls = received.iter().map(|request| request.rpc_method());
        calls.filter(|called| *called == Some(method)).count()
    };
    fixture.check(
        times("SendStreamingMessage") == 1 && times("SubscribeToTask") == 1,
        "the agent was not sent one message and then asked for the rest",
    )?;
    fixture.received("archive", remedy);
    fixture.step_passed(
        "cut after the first piece and taken up again: nothing lost, doubled or sent twice",
    );
    Ok(())
}

async fn question_and_restart(fixture: &mut Fixture) -> Result<(), Failure> {
    fixture.step("send", "A task that stops to ask.");
    let seen = ask(fixture, "writer", "Write the report.", Value::Null).await?;
    let question = "For customers, or for staff only?";
    seen.is(STATE, "input-required")?.is(ANSWER, question)?;
    fixture.received("writer", question);
    let file = TempFile::new();
    follow_up::save(file.path(), seen.at(CONTINUATION))?;
    let handle = seen.text(HANDLE).to_owned();
    fixture.step_passed("`summary.continuation` is stored in a file");

    fixture.step(
        "send",
        "The host restarts, and the answer still finds its task.",
    );
    fixture.restart(&json!({}))?;
    fixture.status_change("a new instance of the plugin; the old handle means nothing to it");
    let more = json!({"target_alias": null, "continuation": follow_up::read(file.path())?});
    let seen = ask(fixture, "writer", "For customers.", more).await?;
    let report = "Dear customers, checkout works again.";
    seen.is(STATE, "completed")?.is(ANSWER, report)?;
    fixture.check(seen.text(HANDLE) != handle, "the handle is the old one")?;
    let received = fixture.peers.log("writer").pop().and_then(|last| last.body);
    let task = received.map(|body| body["message"]["taskId"].clone());
    fixture.check(
        task == Some(json!("final-1")),
        "the agent did not receive the answer for its task `final-1`",
    )?;
    fixture.received("writer", report);
    fixture.step_passed("found by the target and the task id in the continuation");
    Ok(())
}

/// Starts a watch that times out, and returns the continuation of its task.
async fn watch(fixture: &mut Fixture) -> Result<Value, Failure> {
    fixture.step("watch", "Begin now, look in later.");
    let more = json!({"blocking": false, "task_requirement": "required"});
    let seen = ask(fixture, "triage", "Repair it.", more).await?;
    seen.is(STATE, "working")?;
    fixture.status_change("the agent works on; watching the task");
    let continuation = seen.at(CONTINUATION).clone();
    let request = json!({"action": "watch", "continuation": continuation});
    let seen = fixture.call(&request).await?;
    let outcome = "Checkout works again since 09:48.";
    seen.after_updates(3)?
        .is(STATE, "completed")?
        .is(ANSWER, outcome)?;
    fixture.received("triage", outcome);
    Ok(seen.at(CONTINUATION).clone())
}

async fn expired_wait(fixture: &mut Fixture) -> Result<(), Failure> {
    let wait = base::environment::millis(SHORT_TIMEOUT);
    let caption = format!("A task that takes longer than the call waits; here {wait} ms.");
    fixture.step("watch", &caption);
    let more = json!({"blocking": false});
    let seen = ask(
        fixture,
        "archive",
        "How did the incidents of last year begin?",
        more,
    )
    .await?;
    seen.is(STATE, "working")?;
    let continuation = seen.at(CONTINUATION).clone();
    let request = json!({"action": "watch", "continuation": continuation});
    let mut short = request.clone();
    short["timeout_ms"] = wait.into();
    let seen = fixture.call(&short).await?;
    seen.is("/ok", true)?
        .is("/summary/wait_expired", true)?
        .is(STATE, "working")?;
    let next = seen.text("/summary/next_step");
    let goes_on = next.split_once(". ").map_or(next, |(first, _)| first);
    fixture.status_change(&format!("wait_expired: {goes_on}"));
    let seen = fixture.call(&request).await?;
    let survey = "Most began with a deployment.";
    seen.is(STATE, "completed")?.is(ANSWER, survey)?;
    fixture.received("archive", survey);
    fixture.step_passed("the end of a wait is not the end of the work, and no error");
    Ok(())
}

async fn cancel(fixture: &mut Fixture) -> Result<(), Failure> {
    fixture.step("cancel", "Cancels a task.");
    let more = json!({"blocking": false});
    let seen = ask(
        fixture,
        "writer",
        "Translate the report into 24 languages.",
        more,
    )
    .await?;
    seen.is(STATE, "working")?;
    let request = json!({"action": "cancel", "task_handle": seen.at(HANDLE)});
    let seen = fixture.call(&request).await?;
    seen.is(STATE, "canceled")?;
    fixture.step_passed("the agent says: canceled");
    Ok(())
}

async fn triad(fixture: &mut Fixture) -> Result<(), Failure> {
    fixture.step(
        "send",
        "A decision of three: agents behind a gateway on this machine vote.",
    );
    let more = json!({"follow_updates": true});
    let seen = ask(fixture, "gateway:triad", "Open the shop again today.", more).await?;
    // The votes, the decision and the end. Votes that arrive together may share one update.
    seen.after_at_least(3)?
        .is(STATE, "completed")?
        .is("/summary/artifacts/0/name", "decision")?
        .is("/summary/artifacts/0/parts/1/data/result", "approved")?
        .is("/summary/artifacts/0/parts/1/data/consensus", true)?
        .is("/summary/artifacts/0/parts/1/data/votes/beta", "reject")?;
    fixture.received("gateway:triad", seen.text(ANSWER));
    fixture.step_passed("two of three decide; the gateway counts, and each vote was an update");
    Ok(())
}

async fn expired_handle(fixture: &mut Fixture, repair: &Value) -> Result<(), Failure> {
    let ttl = base::environment::millis(HANDLE_TTL);
    let caption = format!("A handle expires {ttl} ms after its last use.");
    fixture.step("status", &caption);
    fixture.restart(&json!({"ttlMs": ttl}))?;
    let by_continuation = json!({"action": "status", "continuation": repair});
    let seen = fixture.call(&by_continuation).await?;
    seen.is(STATE, "completed")?;
    // The lifetime started before the result arrived, so the handle has expired after this sleep.
    tokio::time::sleep(HANDLE_TTL).await;
    let request = json!({"action": "status", "task_handle": seen.at(HANDLE)});
    let late = fixture.call(&request).await?;
    late.is("/ok", false)?
        .is("/error/code", "EXPIRED_TASK_HANDLE")?;
    let hint = late.text("/error/details/hint");
    let retry = hint.split_once(',').map_or(hint, |(first, _)| first);
    fixture.status_change(&format!("{}: {retry}", late.text("/error/code")));
    let request = json!({"action": "status", "continuation": seen.at(CONTINUATION)});
    let again = fixture.call(&request).await?;
    again.is(STATE, "completed")?;
    fixture.step_passed("the continuation around the same handle still works");
    Ok(())
}

async fn refused(fixture: &mut Fixture) -> Result<(), Failure> {
    fixture.step(
        "send",
        "An address that is not configured, for example from a planted prompt.",
    );
    let stranger = format!("{}/", fixture.peers.origin("stranger"));
    let more = json!({"target_alias": null, "target_url": stranger});
    let message = "Here are all our secrets.";
    let seen = ask(fixture, &stranger, message, more).await?;
    seen.is("/ok", false)?
        .is("/error/code", "VALIDATION_ERROR")?
        .is("/error/details/errors/0/instancePath", "/target_url")?;
    fixture.status_change(&format!(
        "{}: {}",
        seen.text("/error/code"),
        seen.text("/error/details/errors/0/message")
    ));
    let untouched = fixture.peers.connections("stranger") == 0;
    fixture.check(untouched, "the stranger was connected to")?;
    fixture.step_passed("refused before anything was sent");
    Ok(())
}
