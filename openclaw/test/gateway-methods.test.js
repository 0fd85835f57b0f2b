import assert from "node:assert/strict";
import { test } from "node:test";

import { GatewayCalls } from "../gateway-calls.js";
import { registerGatewayMethods } from "../gateway-methods.js";
import { DelegatedTasks } from "../tasks.js";

const SECRET = "secret-token";

/** Registers the methods. `call` calls one, and returns what it answered: `[ok, answer, error]`. */
function methods(config, { lease, ask, client } = {}) {
  const seen = new Map();
  const api = { registerGatewayMethod: (name, handler, options) => seen.set(name, { handler, options }) };
  registerGatewayMethods(api, config, () => lease, () => ask, new GatewayCalls());
  const call = async (name, params) => {
    const answers = [];
    await seen.get(`remoteAgent.${name}`).handler({ params, client, respond: (...answer) => answers.push(answer) });
    return answers[0];
  };
  return { seen, call };
}

/** A lease whose calls end with `envelope`, and the requests and callers that it got. */
function fakeLease(envelope = { ok: true, summary: {} }) {
  const seen = [];
  const agent = { health: () => JSON.stringify({ a: { calls: 1, failed: 0 } }), execute: async (request, caller) => (seen.push([JSON.parse(request), JSON.parse(caller)]), JSON.stringify(envelope)) };
  const lease = { agent, seen, CancelToken: class { cancel() {} }, share: () => ({ agent, release() {} }) };
  return lease;
}

const ID = "00000000-0000-4000-8000-000000000000";
const message = { id: ID, request: { action: "send", parts: [] } };

test("methods that only read need the scope to read, and the others the scope to write", () => {
  const { seen } = methods({});
  assert.deepEqual(Object.fromEntries([...seen].map(([name, { options }]) => [name.replace("remoteAgent.", ""), options.scope])), {
    targets: "operator.read",
    tasks: "operator.read",
    settings: "operator.read",
    list: "operator.read",
    call: "operator.write",
    news: "operator.write",
    stop: "operator.write",
  });
});

test("targets have no secret, also in settings that the library refuses", async () => {
  const auth = { type: "bearer", token: SECRET };
  const urls = { "https://user:password@a.example/x?key=value#part": "https://a.example/x", "https://a.example": "https://a.example", "https://a.example/": "https://a.example/", "not a URL": "" };
  for (const [baseUrl, url] of Object.entries(urls)) {
    const [, { targets }] = await methods({ targets: [{ alias: "a", baseUrl, auth, headers: { "x-key": SECRET } }] }).call("targets");
    assert.deepEqual(targets, [{ alias: "a", url, description: undefined, default: false }]);
  }
});

test("targets that were called have their health", async () => {
  const targets = [{ alias: "a", baseUrl: "https://a.example" }, { alias: "b", baseUrl: "https://b.example" }];
  const [, listed] = await methods({ targets }, { lease: fakeLease() }).call("targets");
  assert.deepEqual(listed.targets.map(({ health }) => health), [{ calls: 1, failed: 0 }, undefined]);
});

test("settings of the wrong type have no targets", async () => {
  for (const targets of [{}, "x", [null], null]) assert.deepEqual(await methods({ targets }).call("targets"), [true, { targets: [] }]);
});

test("settings name the credentials without a value, and no value", async () => {
  const token = (value) => ({ type: "bearer", token: value });
  const targets = [
    { alias: "one", baseUrl: "https://one.example", auth: token({ source: "env", provider: "default", id: "ONE_TOKEN" }) },
    { alias: "two", baseUrl: "https://two.example", auth: token(SECRET) },
  ];
  const [, settings] = await methods({ targets }).call("settings");
  assert.deepEqual(settings.unresolved, [{ path: "targets[0].auth.token", alias: "one", variable: "ONE_TOKEN" }]);
  assert.deepEqual(settings.targets[1], { alias: "two", url: "https://two.example" });
  assert.equal(settings.isReady, false);
  assert.ok(!JSON.stringify(settings).includes(SECRET));
});

test("call runs in the name of the operator, and of the agent that the operator names", async () => {
  const lease = fakeLease();
  const client = { connect: { client: { id: "cli" }, scopes: ["operator.admin"] } };
  const { call } = methods({}, { lease, client });
  const [ok, news] = await call("call", { ...message, agent: "writer" });
  assert.deepEqual([ok, JSON.parse(news.piece), news.isLast], [true, { ok: true, summary: {} }, true]);
  await call("list", { listTasks: true });
  assert.deepEqual(lease.seen.map(([, caller]) => caller), [{ operator: "cli", agent_id: "writer" }, { operator: "cli", list_tasks: true }]);
});

test("repeated call sends nothing again", async () => {
  const lease = fakeLease();
  const { call } = methods({}, { lease });
  const answers = [await call("call", message), await call("call", message)];
  assert.deepEqual(answers[1], answers[0]);
  assert.equal(lease.seen.length, 1);
});

test("message that needs approval needs an operator who approves", async () => {
  const ask = () => ({ requireApproval: {} });
  const scopes = (...granted) => ({ connect: { client: { id: "cli" }, scopes: granted } });
  for (const [client, sent] of [[scopes("operator.write"), 0], [undefined, 0], [scopes("operator.write", "operator.approvals"), 1], [scopes("operator.admin"), 1]]) {
    const lease = fakeLease();
    const [ok, , error] = await methods({}, { lease, ask, client }).call("call", message);
    assert.deepEqual([ok, lease.seen.length], [sent === 1, sent], JSON.stringify(client));
    if (!ok) assert.match(error.message, /nothing was sent/);
  }
});

test("a message is that of a person where an operator who approves says so", async () => {
  for (const [scope, byPerson, expected] of [["operator.admin", true, true], ["operator.admin", "yes", undefined], ["operator.admin", undefined, undefined], ["operator.write", true, undefined]]) {
    const lease = fakeLease();
    const client = { connect: { client: { id: "cli" }, scopes: [scope] } };
    await methods({}, { lease, client }).call("call", { ...message, byPerson });
    assert.equal(lease.seen[0][1].by_person, expected, `${scope} ${byPerson}`);
  }
});

test("request that is none is refused", async () => {
  const lease = fakeLease();
  for (const params of [undefined, {}, { id: ID }, { id: "x", request: {} }, { id: 1, request: {} }, { id: ID, request: "x" }]) {
    const [ok, , error] = await methods({}, { lease }).call("call", params);
    assert.deepEqual([ok, error.code], [false, "INVALID_REQUEST"], JSON.stringify(params));
  }
  for (const params of [{ id: ID }, {}]) {
    const { call } = methods({}, { lease });
    const [, { gatewayId }] = await call("settings");
    assert.deepEqual(await call("news", params), [true, { unknownTo: gatewayId, wasStarted: false }]);
  }
  const [ok, , error] = await methods({}).call("call", message);
  assert.equal(ok, false);
  assert.match(error.message, /switched off/);
});

test("task of an agent that an operator looks at stays one task of the agent", async () => {
  const delegated = new DelegatedTasks();
  const continuation = { target: { target_alias: "one", target_url: "https://one.example" }, task: { task_id: "t-1", status: "working" } };
  delegated.observe({ ok: true, action: "send", summary: { continuation } });
  const envelope = { ok: true, summary: { continuation: { ...continuation, task: { task_id: "t-1", status: "completed" } } } };
  const lease = { ...fakeLease(envelope), tasks: delegated, followers: { list: () => [{ target: "one", taskId: "t-1", since: new Date().toISOString() }] } };
  const { call } = methods({}, { lease });
  await call("call", { id: ID, request: { action: "status", target_alias: "one", task_id: "t-1" } });
  const [, { tasks }] = await call("tasks");
  assert.deepEqual(tasks.map(({ taskId, state, notify }) => [taskId, state, notify]), [["t-1", "working", true]]);
});
