import assert from "node:assert/strict";
import { createServer } from "node:http";
import { connect } from "node:net";
import { test } from "node:test";
import { setImmediate } from "node:timers/promises";
import { registerHttpApi } from "../http-api.js";

class CancelToken {
  cancel() {
    this.onCancel?.();
  }
}

const api = {
  request: (route, body) => (body === "{}" ? { status: 400, body: '{"isError":true}' } : { action: "send", request: body, expiresAfter: body.includes("expire") ? 0 : 2_000 }),
  response: (action, envelope, hasExpired) => ({ status: envelope.startsWith("error") ? 500 : 200, body: JSON.stringify({ action, envelope, hasExpired }), reason: "timeout", retryable: false }),
  refusal: (message) => ({ status: 500, body: JSON.stringify({ message }) }),
};

/** A gateway with the routes, whose library answers with what `execute` returns. */
async function gateway(t, execute, ask) {
  const routes = new Map();
  const warned = [];
  registerHttpApi({ registerHttpRoute: (route) => routes.set(route.path, route), logger: { warn: (line) => warned.push(line) } }, { agent: { execute }, api, CancelToken }, ask);
  const handled = [];
  const server = createServer((request, response) => void handled.push(routes.get(request.url).handler(request, response)));
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  t.after(() => server.close());
  const origin = `http://127.0.0.1:${server.address().port}`;
  const post = (body, options = {}) => fetch(`${origin}/remote_agent/write`, { method: "POST", headers: { "content-type": "application/json" }, body, ...options });
  return { routes, post, origin, handled, warned };
}

test("both routes are behind the authentication of the gateway", async (t) => {
  const { routes } = await gateway(t);
  assert.deepEqual([...routes].map(([path, { auth, match }]) => [path, auth, match]), [
    ["/remote_agent/read", "gateway", "exact"],
    ["/remote_agent/write", "gateway", "exact"],
  ]);
});

test("the request reaches the library and its response the client", async (t) => {
  const seen = [];
  const { post } = await gateway(t, async (request, caller) => (seen.push(request, caller), "envelope"));
  const answer = await post('{"a":1}', { headers: { "content-type": "application/json; charset=utf-8", traceparent: "00-x" } });
  assert.deepEqual(seen, ['{"a":1}', '{"traceparent":"00-x"}']);
  assert.deepEqual(await answer.json(), { action: "send", envelope: "envelope", hasExpired: false });
  assert.deepEqual([answer.headers.get("remote-agent-reason"), answer.headers.get("remote-agent-retryable")], ["timeout", "false"]);
});

test("an error names the command of OpenClaw that signs in, and an answer keeps its words", async (t) => {
  for (const [envelope, expected] of [
    ["error: `remote-agent sign-in`", "error: `openclaw remote-agent sign-in`"],
    ["the agent says `remote-agent sign-in`", "the agent says `remote-agent sign-in`"],
  ]) {
    const { post } = await gateway(t, async () => envelope);
    assert.equal((await (await post('{"a":1}')).json()).envelope, expected);
  }
});

test("a body that is no request is answered without a call", async (t) => {
  const { post } = await gateway(t, () => assert.fail("a call"));
  assert.equal((await post("{}")).status, 400);
});

test("other methods, types and sizes are plain errors", async (t) => {
  const { post } = await gateway(t, () => assert.fail("a call"));
  const statuses = [await post(undefined, { method: "GET" }), await post("x", { headers: { "content-type": "text/plain" } })].map(({ status }) => status);
  assert.deepEqual(statuses, [405, 415]);
  const large = await post("x".repeat((1 << 20) + 1));
  assert.deepEqual(await large.json(), { error: 413, message: "the body exceeds 1 MiB" });
});

test("a target that needs approval is refused", async (t) => {
  const decide = ({ params }) => (params.to === "deny" ? { block: true, blockReason: "no" } : { requireApproval: {} });
  const { post } = await gateway(t, () => assert.fail("a call"), decide);
  assert.deepEqual(await (await post('{"to":"deny"}')).json(), { message: "no" });
  assert.match((await (await post('{"to":"first"}')).json()).message, /this route cannot ask/);
});

test("a call is cancelled at the time that the library names", async (t) => {
  const { post } = await gateway(t, (_request, _caller, token) => new Promise((ended) => (token.onCancel = () => ended("aborted"))));
  assert.equal((await (await post('{"expire":1}')).json()).hasExpired, true);
});

test("a client that leaves cancels its call", async (t) => {
  const { promise: cancelled, resolve } = Promise.withResolvers();
  const abort = new AbortController();
  const { post } = await gateway(t, (_request, _caller, token) => {
    token.onCancel = resolve;
    abort.abort();
    return new Promise(() => {});
  });
  await assert.rejects(post('{"a":1}', { signal: abort.signal }));
  await cancelled;
});

test("a call that fails is answered, without its cause", async (t) => {
  const { post, handled, warned } = await gateway(t, () => Promise.reject(new Error("closed\n/secret/path")));
  const answer = await post('{"a":1}');
  assert.deepEqual([answer.status, await answer.json()], [500, { error: 500, message: "the request failed" }]);
  assert.deepEqual([await handled[0], warned], [true, ["a request to the HTTP API failed: closed /secret/path"]]);
});

test("a client that leaves while it sends its body is no error", async (t) => {
  const { origin, handled, warned } = await gateway(t, () => assert.fail("a call"));
  const socket = connect(new URL(origin).port, "127.0.0.1");
  socket.write("POST /remote_agent/write HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{");
  while (handled.length === 0) await setImmediate();
  socket.destroy();
  assert.deepEqual([await handled[0], warned], [true, []]);
});
