import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { Subagents } from "../subagent.js";

const CHILD = "agent:support:acp:1";
const PARENT = "agent:main:main";
const target = { target_url: "https://support.example", target_alias: "support" };
const conversation = { context_id: "ctx-1" };
const continuation = (status) => ({ target, conversation, ...(status && { task: { task_id: "t-1", task_handle: "rah_1", status } }) });
const result = (status, more) => ({ ok: true, action: "send", summary: { continuation: continuation(status), ...more } });
const artifact = (text) => ({ artifactId: "a", parts: [{ kind: "text", text }] });

/** A gateway whose library answers with the results of `script`, one for each call, or with what a function of it returns. */
function gateway(t, script, { targets = [{ alias: "support", baseUrl: "https://support.example" }], stateDir = scratch(t), parents = { [CHILD]: PARENT }, ...more } = {}) {
  const seen = { requests: [], callers: [], held: [], warned: [], again: [] };
  class CancelToken {
    cancel() {
      this.onCancel?.();
    }
  }
  const execute = async (request, caller, token, onUpdate, ask) => {
    seen.requests.push(JSON.parse(request));
    seen.callers.push(JSON.parse(caller));
    const next = script[seen.requests.length - 1];
    if (next === undefined) throw new Error(`an unexpected call: ${request}`);
    return JSON.stringify(typeof next === "function" ? await next({ token, ask, update: (update) => onUpdate(JSON.stringify(update)) }) : next);
  };
  const people = { isStopping: false, stopListeners: new Set(), forCall: (session) => ({ isOpen: false, ask: async (question) => (seen.asked = [session, question], "{}"), end() {} }) };
  const followers = { hold: (held, caller) => (seen.held.push([held, caller]), () => true) };
  const lease = { agent: { execute }, CancelToken, people, followers, tasks: { observe() {} }, number: 1, settings: { targets }, share: () => lease, release() {} };
  const subagents = new Subagents();
  const host = {
    lease,
    stateDir,
    parentOf: ({ sessionKey }) => parents[sessionKey],
    workspaceOf: () => undefined,
    approve: async () => undefined,
    runAgain: async (turn) => void seen.again.push(turn),
    warn: (line) => seen.warned.push(line),
    ...more,
  };
  t.after(subagents.open(host));
  const session = (agent = "support", options = {}) => subagents.ensureSession({ sessionKey: CHILD, agent, ...options });
  const turn = async (text, options = {}) => collect(subagents.runTurn({ handle: await session(), text, requestId: "run-1", ...options }));
  return { subagents, seen, stateDir, session, turn, people };
}

function scratch(t) {
  const folder = mkdtempSync(join(tmpdir(), "subagent-"));
  t.after(() => rmSync(folder, { recursive: true }));
  return folder;
}

async function collect(stream) {
  const events = [];
  for await (const event of stream) events.push(event);
  return { events, text: events.flatMap(({ type, text }) => (type === "text_delta" ? [text] : [])).join(""), last: events.at(-1) };
}

test("a turn sends the message and streams the text of the agent", async (t) => {
  const answer = ({ update }) => {
    update({ ok: true, phase: "update", summary: { continuation: continuation("working") }, raw: { kind: "artifact-update", artifact: artifact("one ") } });
    update({ ok: true, phase: "update", summary: {}, raw: { kind: "artifact-update", append: true, artifact: artifact("two") } });
    return result("completed", { artifacts: [artifact("one two")] });
  };
  const { turn, seen } = gateway(t, [answer]);
  const { events, text, last } = await turn("work", { attachments: [{ mediaType: "image/png", data: "QQ==" }] });
  assert.deepEqual([text, last], ["one two\n", { type: "done", stopReason: "end_turn" }]);
  assert.ok(events.filter(({ type }) => type === "text_delta").length >= 2);
  const file = { kind: "file", bytes: "QQ==", mime_type: "image/png", name: "attachment-1" };
  assert.deepEqual(seen.requests, [{ action: "send", target_alias: "support", parts: [{ kind: "text", text: "work" }, file], follow_updates: true, notify: false }]);
  assert.deepEqual([seen.callers[0].agent_id, seen.callers[0].session_key], ["main", PARENT]);
});

test("a task is followed until it ends", async (t) => {
  const cut = { ok: false, action: "watch", error: { retryable: true, message: "the connection was lost" } };
  const { turn, seen } = gateway(t, [result("working"), cut, result("completed", { artifacts: [artifact("done")] })]);
  const { text, last } = await turn("work");
  assert.deepEqual([text, last.stopReason, seen.requests.map(({ action }) => action)], ["done\n", "end_turn", ["send", "watch", "watch"]]);
  assert.equal(seen.requests[1].continuation.task.task_id, "t-1");
});

test("a question ends the turn, and the next message answers it", async (t) => {
  const { turn, seen } = gateway(t, [result("input-required", { status_message: "Which region?" }), result("completed", { message_text: "thanks" })]);
  const { text, last } = await turn("work");
  assert.match(text, /^Which region\?\n\nThe task t-1 of support waits \(input-required\)/);
  assert.equal(last.stopReason, "end_turn");
  await turn("Oslo", { requestId: "run-2" });
  const { continuation: sent, parts } = seen.requests[1];
  assert.deepEqual([sent.task.task_id, sent.conversation, parts], ["t-1", conversation, [{ kind: "text", text: "Oslo" }]]);
});

test("a message after a task that ended goes to the same conversation", async (t) => {
  const { turn, seen } = gateway(t, [result("completed"), result("completed")]);
  await turn("one");
  await turn("two", { requestId: "run-2" });
  assert.deepEqual(seen.requests[1].continuation, { target, conversation });
});

test("another session continues the conversation by its id", async (t) => {
  const { turn, seen, session, subagents } = gateway(t, [result("completed"), result("completed")], { parents: { [CHILD]: PARENT, "agent:support:acp:2": PARENT } });
  await turn("one");
  const { agentSessionId } = await session();
  const handle = await subagents.ensureSession({ sessionKey: "agent:support:acp:2", agent: "support", resumeSessionId: agentSessionId });
  await collect(subagents.runTurn({ handle, text: "two", requestId: "run-2" }));
  assert.deepEqual(seen.requests[1].continuation.conversation, conversation);
  await assert.rejects(subagents.ensureSession({ sessionKey: "agent:support:acp:3", agent: "support", resumeSessionId: "gone" }), /is not on record any more/);
});

test("a conversation is continued only for the agent that began it", async (t) => {
  const [own, others] = ["agent:support:acp:2", "agent:support:acp:3"];
  const { turn, session, subagents } = gateway(t, [result("completed")], { parents: { [CHILD]: PARENT, [own]: PARENT, [others]: "agent:helper:main" } });
  await turn("one");
  const { agentSessionId: resumeSessionId } = await session();
  await assert.rejects(subagents.ensureSession({ sessionKey: others, agent: "support", resumeSessionId }), /belongs to another agent/);
  await assert.rejects(subagents.ensureSession({ sessionKey: "agent:support:acp:4", agent: "support", resumeSessionId }), /belongs to another agent/);
  assert.ok(await subagents.ensureSession({ sessionKey: own, agent: "support", resumeSessionId }));
});

test("OpenClaw passes no session whose key lacks its agent", () => {
  assert.ok(!("ownerAwareSessions" in new Subagents()));
});

test("a question that a task asked after its turn ended is shown before a message answers it", async (t) => {
  const lost = { ok: false, action: "watch", error: { retryable: false, message: "no connection" } };
  const { turn, seen } = gateway(t, [result("working"), lost, result("input-required", { status_message: "Delete all?" }), result("completed")]);
  assert.equal((await turn("work")).last.message, "no connection");
  const { text, last } = await turn("yes, go on", { requestId: "run-2" });
  assert.match(text, /^This message was not sent: .*\n\nDelete all\?\n\nThe task t-1 of support waits/);
  assert.deepEqual([last.stopReason, seen.requests.map(({ action }) => action)], ["end_turn", ["send", "watch", "watch"]]);
  await turn("no", { requestId: "run-3" });
  assert.deepEqual([seen.requests[3].action, seen.requests[3].parts[0].text], ["send", "no"]);
});

test("questions go to the people of the session for which the sub-agent works", async (t) => {
  const asks = async ({ ask }) => (await ask(JSON.stringify({ continuation: continuation("input-required") })), result("completed"));
  const { turn, seen } = gateway(t, [asks], { parents: { [CHILD]: "agent:helper:subagent:9", "agent:helper:subagent:9": PARENT } });
  const { events } = await turn("work");
  assert.deepEqual(seen.asked[0], { sessionKey: PARENT, agentId: "main" });
  assert.equal(seen.callers[0].agent_id, "helper");
  assert.ok(events.some(({ type, text }) => type === "status" && text === "waits for a person"));
});

test("a failed task, and a failed call, fail the turn", async (t) => {
  const refused = { ok: false, action: "send", error: { retryable: false, message: "the agent refuses the token.", details: { hint: "Set another." } } };
  const { turn } = gateway(t, [result("failed", { status_message: "no disk" }), refused]);
  assert.deepEqual((await turn("one")).last, { type: "error", code: "ACP_TURN_FAILED", message: "the task at support failed: no disk" });
  assert.equal((await turn("two", { requestId: "run-2" })).last.message, "the agent refuses the token. Set another.");
});

test("an answer that did not arrive fails the turn, and the question stays", async (t) => {
  const lost = { ok: false, action: "send", error: { retryable: true, message: "no connection" } };
  const { turn, seen } = gateway(t, [result("input-required", { status_message: "Which region?" }), lost, result("completed")]);
  await turn("work");
  assert.equal((await turn("Oslo", { requestId: "run-2" })).last.message, "no connection");
  await turn("Oslo", { requestId: "run-3" });
  assert.deepEqual([seen.requests.map(({ action }) => action), seen.requests[2].continuation.task.task_id], [["send", "send", "send"], "t-1"]);
});

test("agents that are no target, and targets of others, are refused", async (t) => {
  const { session } = gateway(t, [], { targets: [{ alias: "Support", baseUrl: "https://s.example", allowedAgents: ["helper"] }] });
  await assert.rejects(session("billing"), /no remote agent is called `billing`; .*subagent add/);
  await assert.rejects(session("support"), /the agent `main` may not use the target `Support`/);
});

test("a cancel cancels the task at the agent", async (t) => {
  const working = Promise.withResolvers();
  const runs = ({ token, update }) => {
    update({ ok: true, phase: "update", summary: { continuation: continuation("working") } });
    working.resolve();
    return new Promise((resolve) => (token.onCancel = () => resolve({ ok: false, action: "send", error: { reason: "aborted", message: "aborted" } })));
  };
  const { subagents, seen, session } = gateway(t, [runs, { ok: true, action: "cancel", summary: { continuation: continuation("canceled") } }]);
  const handle = await session();
  const abort = new AbortController();
  const events = collect(subagents.runTurn({ handle, text: "work", requestId: "run-1", signal: abort.signal }));
  await working.promise;
  abort.abort();
  await subagents.cancel({ handle, reason: "task-cancel" });
  assert.deepEqual((await events).last, { type: "done", stopReason: "cancelled" });
  assert.deepEqual([seen.requests[1].action, seen.requests[1].continuation.task.task_id], ["cancel", "t-1"]);
});

test("a turn that a kill cut off goes on with its task, and sends nothing again", async (t) => {
  const working = Promise.withResolvers();
  const runs = ({ update }) => {
    update({ ok: true, phase: "update", summary: { continuation: continuation("working") } });
    working.resolve();
    return new Promise(() => {});
  };
  const killed = gateway(t, [runs]);
  void killed.turn("work");
  await working.promise;
  const next = gateway(t, [result("completed", { artifacts: [artifact("done")] })], { stateDir: killed.stateDir });
  assert.deepEqual(next.seen.again, [{ sessionKey: CHILD, agentId: "support", message: "The gateway was restarted. Go on with the task that ran before.", idempotencyKey: "run-1" }]);
  const { text } = await next.turn(next.seen.again[0].message);
  assert.deepEqual([text, next.seen.requests.map(({ action }) => action)], ["done\n", ["watch"]]);
  assert.deepEqual(gateway(t, [], { stateDir: killed.stateDir }).seen.again, []);
});

test("a message of which a kill left no trace at the agent is not sent again", async (t) => {
  const sent = Promise.withResolvers();
  const killed = gateway(t, [() => (sent.resolve(), new Promise(() => {}))]);
  void killed.turn("work");
  await sent.promise;
  const next = gateway(t, [], { stateDir: killed.stateDir });
  assert.match((await next.turn("work")).last.message, /restarted before `support` confirmed the message, which it may have received; it was not sent again/);
});

test("a gateway that stops leaves the task to the next one", async (t) => {
  const runs = ({ token, update }) => {
    update({ ok: true, phase: "update", summary: { continuation: continuation("working") } });
    queueMicrotask(() => people.stopListeners.forEach((listener) => listener()));
    return new Promise((resolve) => (token.onCancel = () => resolve({ ok: false, action: "send", error: { reason: "aborted", message: "aborted" } })));
  };
  const { turn, seen, people, subagents, session } = gateway(t, [runs]);
  assert.match((await turn("work")).last.message, /the gateway stops; the task goes on, and the next gateway wakes this session/);
  people.isStopping = true;
  await subagents.cancel({ handle: await session(), reason: "shutdown" });
  assert.deepEqual([seen.requests.length, seen.held[0][0].task.task_id, seen.held[0][1].session_key], [1, "t-1", PARENT]);
});

test("an approval decides whether the message is sent", async (t) => {
  const resolved = [];
  const approval = () => ({ requireApproval: { title: "Send to support", onResolution: (decision) => resolved.push(decision) } });
  for (const [decision, pattern] of [[undefined, /no operator decided; it was not sent/], ["deny", /an operator denied/], ["allow-once", undefined]]) {
    const { turn, seen } = gateway(t, [result("completed")], { approval, approve: async () => decision });
    const { last } = await turn("work");
    if (pattern) assert.match(last.message, pattern);
    assert.equal(seen.requests.length, pattern ? 0 : 1);
  }
  assert.deepEqual(resolved, [undefined, "deny", "allow-once"]);
  const blocked = gateway(t, [], { approval: () => ({ block: true, blockReason: "The operator does not allow sending to support." }) });
  assert.match((await blocked.turn("work")).last.message, /does not allow/);
});

test("a session that is reset forgets its conversation, and a finished one does not", async (t) => {
  const { turn, subagents, session, stateDir } = gateway(t, [result("completed")]);
  await turn("one");
  const handle = await session();
  const files = () => readdirSync(join(stateDir, "remote-agent", "subagents"));
  await subagents.close({ handle, reason: "terminal-task-cleanup", discardPersistentState: true });
  assert.equal(files().length, 1);
  assert.match((await subagents.getStatus({ handle })).summary, /support: completed/);
  await subagents.close({ handle, reason: "session-reset", discardPersistentState: true });
  assert.deepEqual(files(), []);
});
