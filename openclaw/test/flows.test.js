import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { Flows } from "../flows.js";
import { Followers } from "../followers.js";

/** OpenClaw's flows, with their revisions. */
class Ledger {
  all = [];

  bind = (sessionKey) => ({
    list: async () => this.all.filter((flow) => flow.sessionKey === sessionKey).map((flow) => ({ ...flow })),
    createManaged: async (flow) => (this.all.push({ flowId: `f-${this.all.length + 1}`, revision: 0, sessionKey, ...flow }), { ...this.all.at(-1) }),
    setWaiting: async (change) => this.change(change, { status: "waiting" }),
    resume: async (change) => this.change(change),
    finish: async (change) => this.change(change, { status: "succeeded" }),
    fail: async (change) => this.change(change, { status: "failed" }),
  });

  change({ flowId, expectedRevision, ...fields }, more) {
    const flow = this.all.find((one) => one.flowId === flowId);
    assert.equal(flow.revision, expectedRevision);
    Object.assign(flow, fields, more, { revision: flow.revision + 1 });
  }
}

const record = (state, key = "k-1") => ({ key, state, since: 0, caller: { session_key: "agent:main:x" }, continuation: { target: { target_url: "https://s.example", target_alias: "support" }, task: { task_id: "t-1" } } });

function opened(ledger = new Ledger()) {
  const warned = [];
  const flows = new Flows(ledger.bind, (line) => warned.push(line));
  return { flows, ledger, warned, settled: () => flows.isCanceled(record()) };
}

test("a task has one flow, which goes through its states", async () => {
  const { flows, ledger, settled } = opened();
  for (const [state, isEnd, status] of [["working", false, "running"], ["working", false, "running"], ["input-required", false, "waiting"], ["working", false, "running"], ["completed", true, "succeeded"]]) {
    flows.sync(record(state), isEnd);
    await settled();
    assert.equal(ledger.all.at(-1).status, status);
  }
  assert.deepEqual([ledger.all.length, ledger.all[0].goal, ledger.all[0].revision], [1, "support: t-1", 3]);
});

test("changes at the same time follow one another", async () => {
  const { flows, ledger, settled, warned } = opened();
  flows.sync(record("working"));
  flows.sync(record("input-required"));
  flows.sync(record("failed"), true);
  await settled();
  assert.deepEqual([ledger.all.map(({ status }) => status), warned], [["failed"], []]);
});

test("the next gateway finds the flow, and a task without one gets none at its end", async () => {
  const { flows, ledger, settled } = opened();
  flows.sync(record("working"));
  await settled();
  const next = opened(ledger);
  next.flows.sync(record("working"));
  next.flows.sync(record("completed", "k-2"), true);
  await next.settled();
  assert.deepEqual(ledger.all.map(({ status }) => status), ["running"]);
});

test("a flow that an operator cancels cancels the task once, and wakes the session", async (t) => {
  const stateDir = mkdtempSync(join(tmpdir(), "flows-"));
  t.after(() => rmSync(stateDir, { recursive: true }));
  const { flows, ledger } = opened();
  const asked = [];
  const later = [];
  const woken = Promise.withResolvers();
  const canceled = { ok: true, action: "cancel", summary: { continuation: { ...record().continuation, task: { task_id: "t-1", status: "canceled" } } } };
  const host = {
    ask: async ({ action }) => (asked.push(action), JSON.stringify(canceled)),
    render: () => "",
    wake: (_record, text) => woken.resolve(text),
    warn: (line) => assert.fail(line),
    now: () => 1,
    later: (_ms, run) => (later.push(run), () => {}),
  };
  const followers = new Followers(host, { maxTasks: 10, maxAgeMs: 1000 });
  followers.open(stateDir, flows);
  const { continuation } = record();
  followers.observe({ ok: true, action: "send", summary: { notify: true, continuation: { ...continuation, task: { task_id: "t-1", status: "working" } } } }, record().caller);
  while (ledger.all.length === 0) await new Promise((resolve) => setImmediate(resolve));
  Object.assign(ledger.all[0], { status: "cancelled", cancelRequestedAt: 1 });
  await later.at(-1)();
  await woken.promise;
  assert.deepEqual([asked, ledger.all.map(({ status }) => status), later.length], [["cancel"], ["cancelled"], 1]);
});
