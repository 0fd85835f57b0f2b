import assert from "node:assert/strict";
import { test } from "node:test";

import { askGateway } from "../ask-gateway.js";

const SETTINGS = { gatewayId: "g-1", isReady: true, targets: [], unresolved: [] };
const ENVELOPE = { ok: true, action: "send", summary: {} };
const UPDATE = { ok: true, phase: "update", summary: { continuation: { target: { target_alias: "a" }, task: { task_id: "t-1", status: "working", can_cancel: true } } } };
const AWAY = { unreachable: { url: "ws://127.0.0.1:9", urlSource: "local loopback" }, isLost: true };
const send = { action: "send", parts: [{ kind: "text", text: "Hello" }] };
const last = (more = {}) => ({ answer: { updates: [], next: 0, piece: JSON.stringify(ENVELOPE), isLast: true, ...more } });

/** Asks a gateway whose answers to a call are `exchanges`, in their order; the last one repeats. */
async function asked(...exchanges) {
  const seen = [];
  const call = async (method, params) => {
    if (method === "remoteAgent.settings") return { answer: SETTINGS };
    seen.push([method, params]);
    return exchanges[Math.min(seen.length, exchanges.length) - 1];
  };
  const gateway = await askGateway(call);
  const count = (method) => seen.filter(([name]) => name === `remoteAgent.${method}`).length;
  return { gateway, seen, count };
}

test("without a gateway there is nothing to ask", async () => {
  const reasons = [];
  for (const url of [AWAY.unreachable.url, ""]) {
    const exchange = { ...AWAY, unreachable: { url, urlSource: "local loopback" } };
    assert.equal(await askGateway(async () => exchange, (reason) => reasons.push(reason)), undefined);
  }
  assert.equal(reasons[0], "no gateway is running");
  assert.match(reasons[1], /^no gateway is known: .*`gateway\.auth\.token`/);
});

test("gateway that refuses is named with what to do", async () => {
  for (const [error, expected] of [
    ["unknown method: remoteAgent.settings", /has not loaded this version of the plugin; run `openclaw gateway restart`/],
    ["unauthorized\u001b[2J", /refuses: unauthorized\[2J$/],
  ]) await assert.rejects(askGateway(async () => ({ error, isRefused: true })), expected);
});

test("call shows its updates and returns its envelope", async () => {
  const pieces = [JSON.stringify(ENVELOPE).slice(0, 9), JSON.stringify(ENVELOPE).slice(9)];
  const { gateway, seen } = await asked(
    { answer: { updates: [JSON.stringify(UPDATE)], next: 1 } },
    { answer: { updates: [], next: 1, piece: pieces[0], isLast: false } },
    { answer: { updates: [], next: 1, piece: pieces[1], isLast: true } },
  );
  const updates = [];
  assert.deepEqual(await gateway.run(send, (update) => updates.push(update), { agent_id: "writer" }), ENVELOPE);
  assert.deepEqual(updates, [UPDATE]);
  const [[, { id, ...first }], [, second], [, third]] = seen;
  assert.deepEqual(first, { request: send, agent: "writer", updates: true });
  assert.deepEqual([second, third], [{ id, after: 1, offset: 0, wait: false }, { id, after: 1, offset: 9, wait: false }]);
});

test("listing needs one request", async () => {
  const { gateway, seen } = await asked({ answer: { envelope: ENVELOPE } });
  assert.deepEqual(await gateway.run({ action: "list_targets" }, null, { list_tasks: true }), ENVELOPE);
  assert.deepEqual(seen, [["remoteAgent.list", { listTasks: true, agent: undefined }]]);
});

test("message is sent once although its answer is lost", async () => {
  const { gateway, count } = await asked({ error: "timeout", isLost: true, wasSent: true }, last());
  assert.deepEqual(await gateway.run(send), ENVELOPE);
  assert.deepEqual([count("call"), count("news")], [1, 1]);
});

test("message that did not reach the gateway was not sent", async () => {
  const { gateway, seen } = await asked({ ...AWAY, wasSent: false });
  const { error } = await gateway.run(send);
  assert.deepEqual([error.reason, error.details.delivered, seen.length], ["unreachable", "no", 1]);
  assert.match(error.message, /nothing was sent/);
});

test("gateway that forgot the call, or restarted, may have delivered the message", async () => {
  for (const unknown of [{ unknownTo: "g-2", wasStarted: false }, { unknownTo: "g-1", wasStarted: true }]) {
    const { gateway, count } = await asked({ ...AWAY, wasSent: true }, { answer: unknown });
    const { error } = await gateway.run(send);
    assert.deepEqual([error.reason, error.details.delivered, error.retryable, count("call")], ["connection_reset", "unknown", false, 1]);
    assert.match(error.message, /may have received the message/);
  }
});

test("restarted gateway leaves the continuation of a known task", async () => {
  const { gateway } = await asked({ answer: { updates: [JSON.stringify(UPDATE)], next: 1 } }, { answer: { unknownTo: "g-2" } });
  const { error } = await gateway.run(send, () => {});
  assert.equal(error.details.delivered, "yes");
  assert.deepEqual(error.details.latest_event_summary, UPDATE.summary);
});

test("call that a reload kept from the gateway starts once it has the plugin again", async () => {
  const reloading = { error: "reloaded", isLost: true, wasSent: true };
  const { gateway, seen, count } = await asked(reloading, reloading, { answer: { unknownTo: "g-1", wasStarted: false } }, last());
  assert.deepEqual(await gateway.run(send), ENVELOPE);
  assert.deepEqual([count("call"), count("news")], [2, 2]);
  const ids = new Set(seen.map(([, { id }]) => id));
  assert.equal(ids.size, 1);
});

test("call continues after a reload", async () => {
  const reloading = { error: "reloaded", isLost: true, wasSent: true };
  const { gateway, count } = await asked({ answer: { updates: [JSON.stringify(UPDATE)], next: 1 } }, reloading, last({ next: 1 }));
  assert.deepEqual(await gateway.run(send, () => {}), ENVELOPE);
  assert.deepEqual([count("call"), count("news")], [1, 2]);
});

test("refusal of a call is an error with its reason", async () => {
  const { gateway } = await asked({ error: "missing scope: operator.write", isRefused: true });
  await assert.rejects(gateway.run(send), /refuses: missing scope/);
  const failed = await asked({ answer: { updates: [], next: 0, failure: "it broke" } });
  await assert.rejects(failed.gateway.run(send), /it broke/);
});

test("message that no frame of the gateway takes is not sent", async () => {
  const { gateway, seen } = await asked(last());
  const parts = [{ kind: "file", bytes: "x".repeat(25 << 20) }];
  await assert.rejects(gateway.run({ action: "send", parts }), /exceeds the 24 MiB that a gateway takes; nothing was sent/);
  assert.equal(seen.length, 0);
});

test("interrupt stops the wait in the gateway", async () => {
  let stopped;
  const call = async (method) => {
    if (method === "remoteAgent.settings") return { answer: SETTINGS };
    if (method === "remoteAgent.stop") return (stopped(), { answer: {} });
    if (method === "remoteAgent.news") return last();
    const stop = new Promise((resolve) => (stopped = resolve));
    process.emit("SIGINT");
    await stop;
    return { answer: { updates: [], next: 0 } };
  };
  const listeners = process.listenerCount("SIGINT");
  const gateway = await askGateway(call);
  assert.deepEqual(await gateway.run(send), ENVELOPE);
  assert.equal(process.listenerCount("SIGINT"), listeners);
});
