//! The Node.js interface, from Node.js.

use serde_json::{Value, json};
use testkit::{conformance::peers::Peers, support::root};

use crate::host_abi::fixture::{
    ENVELOPE, LONG_EVENTS, READ, config, in_flight, library, node, peers, request, without_id,
};

/// Runs a script without peers.
async fn run(script: &str) -> Option<Value> {
    Some(node(&library(), script, &[])?.finish().await)
}

/// Runs a script with the configuration of `peers` and a message to one of them in `args`.
async fn run_with(peers: &Peers, alias: &str, script: &str) -> Option<Value> {
    let node = node(&library(), script, &[&config(peers), &request(alias)])?;
    Some(node.finish().await)
}

/// Like [`run_with`] for the silent peer. The script resumes at `await received()` once the peer has the message.
async fn run_in_flight(peers: &Peers, script: &str) -> Option<Value> {
    let mut node = node(&library(), script, &[&config(peers), &request("silent")])?;
    in_flight(peers).await;
    node.resume();
    Some(node.finish().await)
}

/// Checks the report of a script. Without Node.js there is none.
#[track_caller]
fn assert_reports(seen: Option<Value>, expected: Value) {
    if let Some(seen) = seen {
        assert_eq!(seen, expected);
    }
}

#[tokio::test]
async fn no_thread_starts_before_the_first_call() {
    let script = r#"
        const agent = new RemoteAgent("{}", () => {});
        agent.definition();
        parseConfig("{}");
        const before = threads();
        await agent.execute('{"action":"list_targets"}', null, new CancelToken(), null);
        done({ before, during: threads() > 0 });
    "#;
    assert_reports(run(script).await, json!({"before": 0, "during": true}));
}

#[tokio::test]
async fn updates_precede_the_result() {
    let peers = peers().await;
    let script = r#"
        const agent = new RemoteAgent(args[0]);
        const order = [];
        const result = await agent.execute(args[1], null, new CancelToken(), (update) => order.push(JSON.parse(update).phase));
        order.push(JSON.parse(result).ok);
        done(order);
    "#;
    assert_reports(
        run_with(&peers, "streams", script).await,
        json!(["update", "update", "update", true]),
    );
}

#[tokio::test]
async fn event_loop_runs_between_updates() {
    let peers = peers().await;
    let script = r#"
        const agent = new RemoteAgent(args[0]);
        let [updates, sinceTurn, most] = [0, 0, 0];
        const turn = () => { sinceTurn = 0; next = setImmediate(turn); };
        let next = setImmediate(turn);
        const work = () => { for (const end = performance.now() + 1; performance.now() < end; ); };
        await agent.execute(args[1], null, new CancelToken(), () => { work(); updates += 1; sinceTurn += 1; most = Math.max(most, sinceTurn); });
        clearImmediate(next);
        done({ updates, most });
    "#;
    let Some(seen) = run_with(&peers, "long", script).await else {
        return;
    };
    assert_eq!(seen["updates"], LONG_EVENTS);
    // Two milliseconds have room for two or three.
    assert!(seen["most"].as_u64().unwrap() < 20, "{seen}");
}

#[tokio::test]
async fn throwing_update_callback_is_contained() {
    let peers = peers().await;
    let script = r#"
        const lines = [];
        const agent = new RemoteAgent(args[0], (level, line) => { lines.push(`${level}: ${line}`); throw new Error("log"); });
        const result = await agent.execute(args[1], null, new CancelToken(), () => { throw new Error("update"); });
        const reported = () => lines.filter((line) => line.includes("update callback threw")).length;
        while (reported() === 0) await new Promise(setImmediate);
        done({ ok: JSON.parse(result).ok, reported: reported() });
    "#;
    assert_reports(
        run_with(&peers, "streams", script).await,
        json!({"ok": true, "reported": 1}),
    );
}

#[tokio::test]
async fn token_cancels_the_running_call() {
    let peers = peers().await;
    let script = r#"
        const agent = new RemoteAgent(args[0]);
        const token = new CancelToken();
        const running = agent.execute(args[1], null, token, null);
        await reported();
        token.cancel();
        token.cancel();
        done(JSON.parse(await running).error.reason);
    "#;
    assert_reports(run_in_flight(&peers, script).await, json!("aborted"));
}

#[tokio::test]
async fn cancelled_token_ends_a_new_call() {
    let peers = peers().await;
    let script = r#"
        const agent = new RemoteAgent(args[0]);
        const token = new CancelToken();
        token.cancel();
        done(JSON.parse(await agent.execute(args[1], null, token, null)).error.reason);
    "#;
    assert_reports(run_with(&peers, "silent", script).await, json!("aborted"));
}

#[tokio::test]
async fn close_ends_running_calls_and_threads() {
    let peers = peers().await;
    let script = r#"
        const agent = new RemoteAgent(args[0]);
        const running = agent.execute(args[1], null, new CancelToken(), () => {});
        await reported();
        agent.close();
        agent.close();
        const settled = JSON.parse(await running).ok;
        const later = JSON.parse(await agent.execute(args[1], null, new CancelToken(), null)).error.reason;
        await noThreads();
        done({ settled, later });
    "#;
    assert_reports(
        run_in_flight(&peers, script).await,
        json!({"settled": false, "later": "shutting_down"}),
    );
}

#[tokio::test]
async fn close_of_idle_instance_leaves_no_thread() {
    let script = r#"
        const agent = new RemoteAgent("{}");
        await agent.execute('{"action":"list_targets"}', null, new CancelToken(), null);
        const before = threads() > 0;
        agent.close();
        await noThreads();
        done(before);
    "#;
    assert_reports(run(script).await, json!(true));
}

#[tokio::test]
async fn sign_in_of_a_closed_instance_ends() {
    let script = r#"
        const auth = { type: "oauth2", grant: "device_code", clientId: "c", tokenUrl: "http://127.0.0.1:9/token", deviceAuthorizationUrl: "http://127.0.0.1:9/device" };
        const config = { targets: [{ alias: "desk", baseUrl: "http://127.0.0.1:9", auth }] };
        const agent = new RemoteAgent(JSON.stringify(config));
        agent.close();
        const signedIn = await agent.signIn("desk", null, new CancelToken(), async () => "{}");
        const signedOut = await agent.signOut("desk", null);
        done([signedIn, signedOut].map((text) => JSON.parse(text).error.startsWith("the plugin was closed")));
    "#;
    assert_reports(run(script).await, json!([true, true]));
}

#[tokio::test]
async fn dropped_instance_finishes_calls_then_threads() {
    let peers = peers().await;
    let script = r#"
        const running = (() => new RemoteAgent(args[0]).execute(args[1], null, new CancelToken(), () => gc()))();
        gc();
        const ok = JSON.parse(await running).ok;
        while (threads() > 0) { gc(); await new Promise(setImmediate); }
        done(ok);
    "#;
    assert_reports(run_with(&peers, "streams", script).await, json!(true));
}

#[tokio::test]
async fn terminated_worker_leaves_the_process_running() {
    let peers = peers().await;
    let script = r#"
        const { Worker } = require("node:worker_threads");
        const code = `
            const { workerData } = require("node:worker_threads");
            const loaded = { exports: {} };
            process.dlopen(loaded, workerData.library);
            const { RemoteAgent, CancelToken } = loaded.exports;
            new RemoteAgent(workerData.args[0], () => {}).execute(workerData.args[1], null, new CancelToken(), () => {});
        `;
        const worker = new Worker(code, { eval: true, workerData: { library, args } });
        await reported();
        await worker.terminate();
        await noThreads();
        done(new RemoteAgent("{}").definition().length > 2);
    "#;
    assert_reports(run_in_flight(&peers, script).await, json!(true));
}

#[tokio::test]
async fn envelope_is_rendered_as_text() {
    let script = r#"
        const agent = new RemoteAgent("{}");
        const [text, ...invalid] = [args[0], "", "\0", "[", '{"ok":true}'].map((envelope) => agent.render(envelope));
        done({ text, invalid: invalid.every((text) => text.startsWith("remote_agent: the result cannot be read")), threads: threads() });
    "#;
    let Some(node) = node(&library(), script, &[ENVELOPE]) else {
        return;
    };
    let seen = node.finish().await;
    assert_eq!(without_id(seen["text"].as_str().unwrap()), READ);
    assert_eq!(
        (&seen["invalid"], &seen["threads"]),
        (&json!(true), &json!(0))
    );
}

#[tokio::test]
async fn rendered_call_returns_its_envelope_and_text() {
    let script = r#"
        const agent = new RemoteAgent("{}");
        const [text, envelope] = await agent.executeRendered('{"action":"list_targets"}', null, new CancelToken(), null);
        done({ ok: JSON.parse(envelope).ok, text: text.length > 0 && text === agent.render(envelope) });
        agent.close();
    "#;
    assert_reports(run(script).await, json!({"ok": true, "text": true}));
}

#[tokio::test]
async fn chunked_result_equals_the_envelope() {
    let peers = peers().await;
    let script = r#"
        const { isDeepStrictEqual } = require("node:util");
        const { assemble } = await import(args[2]);
        const agent = new RemoteAgent(args[0]);
        const whole = await agent.execute(args[1], null, new CancelToken(), null);
        const [text, ...pieces] = await agent.executeRendered(args[1], null, new CancelToken(), null);
        const same = isDeepStrictEqual(await assemble(pieces), JSON.parse(whole));
        done({ same, cut: pieces.length > 2, text: text.length > 0 });
        agent.close();
    "#;
    let shell = root("openclaw/tool.js");
    let (config, request) = (config(&peers), request("long"));
    let args = [&*config, &*request, shell.to_str().unwrap()];
    let Some(node) = node(&library(), script, &args) else {
        return;
    };
    let expected = json!({"same": true, "cut": true, "text": true});
    assert_eq!(node.finish().await, expected);
}

#[tokio::test]
async fn person_is_asked_and_answers() {
    let peers = peers().await;
    let script = r#"
        const agent = new RemoteAgent(args[0]);
        const asked = [];
        const ask = async (question) => { asked.push(JSON.parse(question)); return JSON.stringify({ action: "answer", content: { answer: "Braga" }, by: "web:7" }); };
        const [text, envelope] = await agent.executeRendered(args[1], null, new CancelToken(), null, ask);
        const { summary } = JSON.parse(envelope);
        done({ text: asked[0].text, asked: asked.length, by: summary.person.by, state: summary.continuation.task.status, read: text.includes("a person answered") });
        agent.close();
    "#;
    assert_reports(
        run_with(&peers, "asks", script).await,
        json!({"text": "Where to?", "asked": 1, "by": "web:7", "state": "completed", "read": true}),
    );
    if cfg!(feature = "real") {
        let sent = peers
            .log("asks")
            .into_iter()
            .filter_map(|request| request.body);
        let parts: Vec<_> = sent
            .map(|body| body["params"]["message"]["parts"][0]["text"].clone())
            .collect();
        assert_eq!(parts.last(), Some(&json!("Braga")));
    }
}

/// A callback that fails counts as `unreachable`; one that never settles ends with the time of the call, or with its cancellation.
#[tokio::test]
async fn failing_callback_for_a_person_is_contained() {
    let script = r#"
        const agent = new RemoteAgent(args[0]);
        const outcomes = [];
        const request = JSON.stringify({ ...JSON.parse(args[1]), timeout_ms: 2000 });
        const never = () => new Promise(() => {});
        for (const ask of [() => { throw new Error("no"); }, async () => { throw 7; }, () => 7, async () => 7, async () => "{", never]) {
          const { summary } = JSON.parse(await agent.execute(request, null, new CancelToken(), null, ask));
          outcomes.push(summary.person.outcome);
        }
        const token = new CancelToken();
        const envelope = await agent.execute(args[1], null, token, null, () => { setImmediate(() => token.cancel()); return never(); });
        outcomes.push(JSON.parse(envelope).error.reason);
        done(outcomes);
        agent.close();
    "#;
    let mut expected = vec!["unreachable"; 5];
    expected.extend(["timeout", "aborted"]);
    let peers = peers().await;
    assert_reports(run_with(&peers, "insists", script).await, json!(expected));
}

#[tokio::test]
async fn invalid_configuration_throws_with_its_pointer() {
    let script = r#"
        const thrown = (work) => { try { work(); return null; } catch (error) { return JSON.parse(error.message).path; } };
        const config = '{"targets":[{"alias":"desk"}]}';
        done([thrown(() => new RemoteAgent(config)), thrown(() => parseConfig(config))]);
    "#;
    assert_reports(run(script).await, json!(["/targets/0", "/targets/0"]));
}
