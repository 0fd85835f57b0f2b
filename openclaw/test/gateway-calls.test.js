import assert from "node:assert/strict";
import { test } from "node:test";

import { GatewayCalls } from "../gateway-calls.js";

const ID = "00000000-0000-4000-8000-000000000000";

/** A call that the test ends, with its token and its updates. */
function running() {
  const call = { ...Promise.withResolvers(), canceled: 0, released: 0, started: 0 };
  class CancelToken {
    cancel() {
      call.canceled += 1;
    }
  }
  const agent = { execute: (_request, _caller, _token, onUpdate) => ((call.started += 1), (call.update = onUpdate), call.promise) };
  const lease = { CancelToken, share: () => ({ agent, release: () => (call.released += 1) }) };
  const calls = new GatewayCalls();
  const start = (withUpdates = true) => calls.start(ID, { action: "send" }, {}, withUpdates, lease);
  return { call, calls, start };
}

const ENVELOPE = JSON.stringify({ ok: true, summary: {} });

test("updates come once, in their order, and then the envelope", async () => {
  const { call, calls, start } = running();
  start();
  call.update("1");
  call.update("2");
  assert.deepEqual(await calls.news(ID, 0, 0), { updates: ["1", "2"], next: 2 });
  const waiting = calls.news(ID, 2, 0);
  call.update("3");
  assert.deepEqual(await waiting, { updates: ["3"], next: 3 });
  // The answer was lost.
  assert.deepEqual(await calls.news(ID, 2, 0), { updates: ["3"], next: 3 });
  const last = calls.news(ID, 3, 0);
  call.resolve(ENVELOPE);
  assert.deepEqual(await last, { updates: [], next: 3, piece: ENVELOPE, isLast: true });
  assert.deepEqual([call.started, call.released], [1, 1]);
});

test("request for news ends without news", async () => {
  const { calls, start } = running();
  start();
  for (const waitMs of [0, 1]) assert.deepEqual(await calls.news(ID, 0, 0, waitMs), { updates: [], next: 0 });
});

test("long envelope comes in pieces", async () => {
  const { call, calls, start } = running();
  start(false);
  const envelope = JSON.stringify({ ok: true, summary: { text: "\u{1f600}x".repeat(1 << 20) } });
  call.resolve(envelope);
  let text = "";
  for (let news = await calls.news(ID, 0, 0); ; news = await calls.news(ID, 0, text.length)) {
    text += news.piece;
    assert.ok(Buffer.byteLength(JSON.stringify(news)) < 25 << 20);
    if (news.isLast) break;
  }
  assert.equal(text, envelope);
});

test("updates beyond the memory for them are left out, without a gap before others", async () => {
  const { call, calls, start } = running();
  start();
  const update = "x".repeat(1 << 20);
  for (let count = 0; count < 9; count += 1) call.update(update);
  const { updates, next } = await calls.news(ID, 0, 0);
  assert.equal(updates.length, 4);
  const waiting = calls.news(ID, next, 0);
  call.update("later");
  call.resolve(ENVELOPE);
  assert.deepEqual((await waiting).updates, []);
});

test("stop cancels the wait, and the call ends with the envelope of the library", async () => {
  const { call, calls, start } = running();
  start();
  calls.stop(ID);
  calls.stop("unknown");
  assert.equal(call.canceled, 1);
  call.resolve(ENVELOPE);
  assert.equal((await calls.news(ID, 0, 0)).isLast, true);
});

test("call without requests for its news is stopped and forgotten", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { call, calls, start } = running();
  start();
  t.mock.timers.tick(30_000);
  assert.equal(call.canceled, 1);
  assert.equal(await calls.news(ID, 0, 0), undefined);
  start();
  assert.deepEqual([call.started, calls.wasStarted(ID)], [1, true]);
});

test("error of the library is the news of its call", async () => {
  const { call, calls, start } = running();
  start();
  call.reject(new Error("it\u001b[2J broke"));
  assert.equal((await calls.news(ID, 0, 0)).failure, "it[2J broke");
  assert.equal(call.released, 1);
});
