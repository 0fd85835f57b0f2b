import assert from "node:assert/strict";
import { test } from "node:test";
import { createTool } from "../tool.js";

class CancelToken {
  cancelled = false;
  cancel() {
    this.cancelled = true;
    this.onCancel?.();
  }
}

/** A lease whose agent answers with the envelope that `execute` returns. */
function lease(execute) {
  const render = (json) => `read: ${json}`;
  const executeRendered = async (...call) => {
    const envelope = await execute(...call);
    return [render(envelope), envelope];
  };
  return { agent: { executeRendered, render }, CancelToken, definition: { name: "remote_agent", label: "Remote agent", description: "", parameters: { properties: {} } } };
}

const envelope = JSON.stringify({ ok: true, action: "send" });

test("the request and its caller reach the library as JSON", async () => {
  const seen = [];
  const tool = createTool(lease(async (...call) => (seen.push(call), envelope)), { agentId: "main", sessionKey: "agent:main:x", stateDir: "/state", messageChannel: "telegram", agentAccountId: "work", requesterSenderId: "7:8" });
  await tool.execute("call_1", { action: "send" }, new AbortController().signal, undefined);
  const [request, caller, , onUpdate] = seen[0];
  assert.deepEqual([JSON.parse(request), JSON.parse(caller)], [{ action: "send" }, { agent_id: "main", user: "openclaw:telegram:work:7%3A8", session_key: "agent:main:x", state_dir: "/state", can_notify: false, update_interval_ms: 100 }]);
  assert.equal(onUpdate, null);
});

test("no sign-in begins in a session of several people", async () => {
  const seen = [];
  for (const sessionKey of ["agent:main:telegram:group:7", "agent:main:telegram:direct:7"]) {
    const tool = createTool(lease(async (_request, caller) => (seen.push(JSON.parse(caller).no_sign_in), envelope)), { sessionKey });
    await tool.execute("call_1", { action: "send" }, undefined, undefined);
  }
  assert.deepEqual(seen, [true, undefined]);
});

/** People that note what calls do with them. */
function people() {
  const seen = { asked: [], ended: [] };
  const forCall = ({ sessionKey }) => ({ ask: async (question) => (seen.asked.push([question, sessionKey]), "{}"), end: (isFollowed) => seen.ended.push(isFollowed) });
  return { ...seen, forCall };
}

test("the gateway holds a task from its question on, and the end of the call keeps an open question", async () => {
  for (const isOpen of [true, false]) {
    const of = people();
    const seen = [];
    const hold = (task) => (seen.push(["hold", task]), () => (seen.push(["goes on"]), false));
    const followers = { reserve: () => () => {}, hold, observe: (_envelope, _caller, goesOn) => (seen.push(["observe", goesOn]), goesOn) };
    const execute = async (_request, _caller, _token, onUpdate, ask) => {
      assert.deepEqual([of.ended, onUpdate], [[], null]);
      await ask('{"continuation":"of the first question"}');
      await ask('{"continuation":"of the second question"}');
      return envelope;
    };
    const asking = { forCall: (session) => ({ ...of.forCall(session), isOpen }) };
    await createTool({ ...lease(execute), followers, people: asking }, { sessionKey: "agent:main:x" }).execute("call_1", { action: "send", continuation: "of the request" });
    assert.deepEqual([of.asked[0], of.ended], [['{"continuation":"of the first question"}', "agent:main:x"], [isOpen]]);
    assert.deepEqual(seen.slice(0, 5), [["hold", "of the first question"], ["hold", "of the second question"], ["goes on"], ["goes on"], ["observe", isOpen]]);
  }
});

test("a call that fails leaves its question to the gateway that follows the task", async () => {
  const of = people();
  const followers = { reserve: () => () => {}, hold: () => () => true };
  const execute = async (_request, _caller, _token, _onUpdate, ask) => (await ask("{}"), Promise.reject(new Error("broken")));
  const tool = createTool({ ...lease(execute), followers, people: of }, { sessionKey: "agent:main:x" });
  await assert.rejects(tool.execute("call_1", { action: "send" }), /broken/);
  assert.deepEqual(of.ended, [true]);
});

test("the end of a call to a group goes on with every task that asked", async () => {
  const gone = [];
  const followers = { reserve: () => () => {}, hold: (task) => () => (gone.push(task), false), observe: () => false };
  const execute = async (_request, _caller, _token, _onUpdate, ask) => {
    for (const task of ["a", "b"]) await ask(JSON.stringify({ continuation: task }));
    return envelope;
  };
  await createTool({ ...lease(execute), followers, people: people() }, { sessionKey: "agent:main:x" }).execute("call_1", { action: "send" });
  assert.deepEqual([...new Set(gone)], ["a", "b"]);
});

test("a person is asked for the sender of the message, and learns the result of the call", async () => {
  const seen = [];
  const asking = { forCall: (session) => (seen.push(session), { ask: async () => "{}", end: (_isFollowed, result) => seen.push(result) }) };
  const tool = createTool({ ...lease(async () => envelope), people: asking }, { sessionKey: "agent:main:x", agentId: "main", messageChannel: "telegram", requesterSenderId: "7" });
  await tool.execute("call_1", { action: "send" });
  assert.deepEqual(seen, [{ sessionKey: "agent:main:x", agentId: "main", user: "openclaw:telegram::7" }, JSON.parse(envelope)]);
});

test("a call that fails, too, withdraws its question", async () => {
  const of = people();
  const tool = createTool({ ...lease(() => Promise.reject(new Error("broken"))), people: of }, { sessionKey: "agent:main:x" });
  await assert.rejects(tool.execute("call_1", { action: "send" }), /broken/);
  assert.deepEqual(of.ended, [false]);
});

test("a call without a session, or of a single run, asks no person", async () => {
  for (const context of [{}, { sessionKey: "agent:main:x", oneShotCliRun: true }]) {
    const execute = async (...call) => (assert.equal(call[4], undefined), envelope);
    await createTool({ ...lease(execute), people: people() }, context).execute("call_1", { action: "send" });
  }
});

test("the trace of the run goes with the caller", async () => {
  const callers = [];
  const traceparent = async () => "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  await createTool(lease(async (_request, caller) => (callers.push(JSON.parse(caller)), envelope)), { traceparent }).execute("call_1", { action: "send" });
  assert.equal(callers[0].traceparent, await traceparent());
});

test("a trace that fails does not fail the call", async () => {
  const traceparent = () => import("openclaw/no-such-module");
  const result = await createTool(lease(async () => envelope), { traceparent }).execute("call_1", { action: "send" });
  assert.equal(result.details.ok, true);
});

test("the result is the library's text for the model and the envelope for programs", async () => {
  const result = await createTool(lease(async () => envelope)).execute("call_1", {});
  assert.deepEqual(result, { content: [{ type: "text", text: `read: ${envelope}` }], details: { ok: true, action: "send" } });
});

test("a large envelope is put together from its pieces", async () => {
  const pieces = ['{"ok":true,"summary":{"artifacts":[]}}', '[["summary","artifacts"],[{"parts":[]},{"parts":[1]}]]', '[["summary","artifacts",0,"parts"],[2,3]]'];
  const { agent, ...rest } = lease(async () => envelope);
  const executeRendered = async () => ["read", ...pieces];
  const result = await createTool({ ...rest, agent: { ...agent, executeRendered } }).execute("call_1", {});
  assert.deepEqual(result.details, { ok: true, summary: { artifacts: [{ parts: [2, 3] }, { parts: [1] }] } });
});

test("an update is the library's text and the update", async () => {
  const updates = [];
  const tool = createTool(lease(async (_request, _caller, _token, onUpdate) => (onUpdate('{"n":1}'), envelope)));
  await tool.execute("call_1", {}, undefined, (update) => updates.push(update));
  assert.deepEqual(updates, [{ content: [{ type: "text", text: 'read: {"n":1}' }], details: { n: 1 } }]);
});

test("the tool is in the model's list, not behind the tool search", () => {
  assert.equal(createTool(lease()).catalogMode, "direct-only");
});

test("updates are handed over before the result", async () => {
  const updates = [];
  const tool = createTool(lease(async (_request, _caller, _token, onUpdate) => (onUpdate('{"n":1}'), onUpdate('{"n":2}'), envelope)));
  await tool.execute("call_1", {}, undefined, (update) => updates.push(update.details));
  assert.deepEqual(updates, [{ n: 1 }, { n: 2 }]);
});

test("an abort cancels the running call", async () => {
  const controller = new AbortController();
  const tool = createTool(lease((_request, _caller, token) => new Promise((resolve) => (token.onCancel = () => resolve(envelope)))));
  const result = tool.execute("call_1", {}, controller.signal);
  controller.abort();
  assert.equal((await result).details.ok, true);
});

test("a call that was aborted before it began starts cancelled", async () => {
  let cancelled;
  const tool = createTool(lease(async (_request, _caller, token) => ((cancelled = token.cancelled), envelope)));
  await tool.execute("call_1", {}, AbortSignal.abort());
  assert.equal(cancelled, true);
});

test("a call leaves no listener on the signal", async () => {
  const { signal } = new AbortController();
  let listeners = 0;
  signal.addEventListener = () => (listeners += 1);
  signal.removeEventListener = () => (listeners -= 1);
  await createTool(lease(async () => envelope)).execute("call_1", {}, signal);
  assert.equal(listeners, 0);
});

test("a call keeps its place among the followed tasks until its result is seen", async () => {
  const events = [];
  const followers = { reserve: ({ notify }) => (events.push(`reserve ${notify}`), () => events.push("release")), observe: () => events.push("saw") };
  const hosts = [];
  const agent = lease(async (_request, host) => (hosts.push(JSON.parse(host).can_notify), envelope));
  await createTool({ ...agent, followers }, { sessionKey: "s" }).execute("call_1", { action: "send", notify: true });
  assert.deepEqual([events, hosts], [["reserve true", "saw", "release"], [true]]);
});

test("a file outside of the workspace is refused without a call", async () => {
  const tool = createTool(lease(() => assert.fail("called")), { workspaceDir: import.meta.dirname });
  const { details } = await tool.execute("call_1", { action: "send", parts: [{ kind: "file", path: "/etc/passwd" }] });
  assert.deepEqual([details.error.reason, details.error.details.errors[0].instancePath], ["invalid_request", "/parts/0/path"]);
});
