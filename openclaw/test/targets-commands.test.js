import assert from "node:assert/strict";
import { test } from "node:test";

import { add, migrate, remove } from "../targets-commands.js";

const URL_ = "https://support.example";
const LEGACY = "openclaw-a2a-outbound";
const error = (reason, message = reason) => ({ ok: false, error: { reason, message } });

/** An agent that answers the check: with its card, and with an error for the unknown task. */
const WORKING = { list_targets: (alias) => ({ ok: true, summary: { targets: [{ target_alias: alias, target_name: "Desk" }] } }), status: () => error("rpc_error") };
const withCardError = (reason) => ({ ...WORKING, list_targets: (alias) => ({ ok: true, summary: { targets: [{ target_alias: alias, last_refresh_error: { reason, message: reason } }] } }) });
const withStatusError = (reason) => ({ ...WORKING, status: () => error(reason) });

/** Answers of the pins: the review, and the acceptance. */
const PINS = { pin: async (_alias, _person, by) => (by ? { accepted_changes: [] } : { fingerprint: "f1" }) };

const runner = (agent, alias) => ({ run: async ({ action, target_alias }) => agent[action](target_alias ?? alias()), ...PINS, ...(agent.pin && { pin: agent.pin }), close() {} });

/** Runs a command on the settings `entries`. Returns its exit code, what it printed, and the configuration that it leaves. */
async function run(t, command, values, { options = {}, entries = {}, agent = WORKING, gateway } = {}) {
  const host = { plugins: { entries: structuredClone(entries) } };
  const generations = [1, 1, 2];
  let checked;
  let isShrunk = false;
  const api = {
    pluginConfig: entries["remote-agent"]?.config ?? {},
    runtime: { config: { mutateConfigFile: async ({ mutate }) => mutate(host) } },
  };
  const surroundings = {
    shrink: async (mutate) => ((isShrunk = true), mutate(host)),
    open: async (_api, _host, change) => ((checked = change({ audit: { enabled: true } })), runner(agent, () => checked.targets[0].alias)),
    ask: async () => gateway?.refusal ? Promise.reject(new Error(gateway.refusal)) : gateway && { settings: () => ({ unresolved: gateway.unresolved ?? [], envFile: "/home/o/.openclaw/.env" }), ...runner(gateway.agent ?? WORKING, () => checked.targets[0].alias) },
    call: async () => (gateway ? { answer: { generation: generations.length > 1 ? generations.shift() : generations[0] } } : { unreachable: { url: "ws://127.0.0.1:1", urlSource: "local loopback" } }),
  };
  const printed = [];
  for (const stream of [process.stdout, process.stderr]) {
    const { write } = stream;
    t.mock.method(stream, "write", (text, ...rest) => (typeof text === "string" ? printed.push(text) > 0 : write.call(stream, text, ...rest)));
  }
  try {
    const exit = await command({ api, host, options, args: values }, ...values, surroundings);
    return { exit, text: printed.join(""), host, checked, isShrunk, targets: host.plugins.entries["remote-agent"]?.config?.targets };
  } finally {
    t.mock.restoreAll();
  }
}

const own = (...targets) => ({ "remote-agent": { enabled: true, config: { enabled: true, targets } } });
const known = (alias, more = {}) => ({ alias, baseUrl: URL_, ...more });
const KEY = { source: "env", provider: "default", id: "KEY" };
const BEARER = { type: "bearer", token: KEY };

test("add says that it checked with this shell where no gateway runs", async (t) => {
  const { exit, text, targets } = await run(t, add, [URL_]);
  assert.equal(exit, 0, text);
  assert.match(text, /no gateway answers at ws:.*with the environment of this shell only/);
  assert.deepEqual(targets, [known("support", { pins: "enforce", default: true })]);
});

test("add accepts the card that was there before the check, and adds nothing with another one", async (t) => {
  const asked = [];
  const pins = (answer) => async (alias, person, by, fingerprint) => (asked.push([alias, person, by?.startsWith("operator"), fingerprint]), by ? answer : { fingerprint: "f1" });
  const review = ["support", undefined, undefined, undefined];
  const added = await run(t, add, [URL_], { agent: { ...WORKING, pin: pins({}) } });
  assert.deepEqual([added.exit, asked.splice(0)], [0, [review, ["support", undefined, true, "f1"]]]);
  await run(t, add, [URL_], { agent: { ...WORKING, pin: pins({}) }, entries: own(known("desk")) });
  assert.deepEqual(asked.splice(0), [], "a known agent");
  const other = { ...WORKING, pin: pins({ error: "see `remote-agent pin x`" }) };
  await assert.rejects(run(t, add, [URL_], { agent: other }), ({ message, exit }) => exit === 1 && /^cannot accept the agent card: see `openclaw remote-agent pin x`. Nothing was added$/.test(message));
  const forced = await run(t, add, [URL_], { agent: other, options: { force: true } });
  assert.deepEqual([forced.exit, forced.targets.length], [0, 1]);
  assert.match(forced.text, /warn: the agent card is not accepted/);
  asked.splice(0);
  const { exit } = await run(t, add, [URL_], { agent: { ...withCardError("unreachable"), pin: pins({}) } });
  assert.deepEqual([exit, asked], [3, [review]]);
});

test("add of an agent without pins accepts no card", async (t) => {
  const { exit, text } = await run(t, add, ["http://127.0.0.1:1"], { agent: { ...WORKING, pin: async () => ({ error: "`x` has no pins", isUsage: true, unpinned: true }) } });
  assert.equal(exit, 0, text);
  assert.doesNotMatch(text, /pins/);
});

test("add of a known address changes that target, also below another spelling", async (t) => {
  const before = known("desk", { default: true, description: "Desk" });
  for (const [url, entries] of [
    [URL_, own(before)],
    ["https://SUPPORT.example:443/", own(before)],
    [URL_, own(known("other"), before)],
  ]) {
    const { exit, text, targets } = await run(t, add, [url], { options: { bearerEnv: "KEY" }, entries });
    assert.equal(exit, 0, text);
    assert.match(text, /is already `desk`; this changes it/);
    assert.deepEqual(targets.find(({ alias }) => alias === "desk"), { ...before, auth: BEARER });
  }
});

test("add sets who answers the questions of an agent", async (t) => {
  const { targets } = await run(t, add, [URL_], { options: { answers: "person" }, entries: own(known("desk")) });
  assert.deepEqual(targets, [known("desk", { answers: "person", default: true })]);
});

test("add names the other targets at the address", async (t) => {
  const { text } = await run(t, add, [URL_], { options: { bearerEnv: "KEY" }, entries: own(known("a", { default: true }), known("b")) });
  assert.match(text, /`b` is at the same address; `openclaw remote-agent remove b` removes it/);
});

test("add refuses an alias that contradicts the address", async (t) => {
  for (const [target, message] of [
    [known("desk"), /is already `desk`; without `--alias`/],
    [{ alias: "new", baseUrl: "https://other.example" }, /it is the agent at https:\/\/other.example/],
  ])
    await assert.rejects(run(t, add, [URL_], { options: { alias: "new" }, entries: own(target) }), message);
  const { targets } = await run(t, add, [URL_], { options: { alias: "new", force: true }, entries: own(known("desk", { default: true })) });
  assert.deepEqual(targets.map(({ alias }) => alias), ["desk", "new"]);
});

test("add takes the address of a card for that of its agent", async (t) => {
  for (const file of ["agent-card.json", "agent.json"]) {
    const { text, targets } = await run(t, add, [`https://support.example/a/.well-known/${file}`]);
    assert.equal(targets[0].baseUrl, "https://support.example/a");
    assert.match(text, /the agent is at https:\/\/support.example\/a/);
  }
});

test("add writes nothing if a check fails, and repeats the command", async (t) => {
  for (const [reason, agent, exit] of [
    ["unreachable", withCardError("unreachable"), 3],
    ["auth_required", withStatusError("auth_required"), 4],
    ["address_refused", withStatusError("address_refused"), 3],
    ["unsupported_transport", withStatusError("unsupported_transport"), 1],
  ]) {
    const result = await run(t, add, [URL_], { options: { alias: "it's", bearerEnv: "KEY", headerEnv: ["X-A=KEY"], allowPrivate: true }, agent });
    assert.equal(result.exit, exit, reason);
    assert.equal(result.targets, undefined, reason);
    assert.ok(result.text.includes("`openclaw remote-agent add https://support.example --alias 'it'\\''s' --bearer-env KEY --header-env X-A=KEY --allow-private --force`"), result.text);
  }
});

test("add proposes the flows of the card and takes no address from it", async (t) => {
  const flows = [
    { name: "deviceCode", device_authorization_url: "https://login.example/device", token_url: "https://login.example/token", scopes: ["a"] },
    { name: "password", token_url: "https://old.example/token" },
  ];
  const agent = { ...WORKING, list_targets: (alias) => ({ ok: true, summary: { targets: [{ target_alias: alias, target_name: "Desk", oauth_flows: flows }] } }) };
  const { text, targets } = await run(t, add, [URL_], { agent });
  assert.match(text, /the card proposes OAuth 2 \(device_code\).*"deviceAuthorizationUrl":"https:\/\/login.example\/device"/);
  assert.doesNotMatch(text, /old.example/);
  assert.deepEqual(targets, [known("support", { pins: "enforce", default: true })]);
});

test("add tells a refused credential from a missing one", async (t) => {
  const agent = withStatusError("auth_required");
  const refused = await run(t, add, [URL_], { options: { bearerEnv: "KEY" }, agent });
  assert.match(refused.text, /Check the token in the environment variable `KEY`: the agent refused it/);
  const missing = await run(t, add, [URL_], { agent });
  assert.match(missing.text, /requires a credential. Give `--bearer-env VAR`, `--api-key-env NAME=VAR`/);
});

test("add proposes no force where there is no agent", async (t) => {
  for (const reason of ["card_malformed", "card_unavailable"]) {
    const { exit, text } = await run(t, add, [URL_], { agent: withCardError(reason) });
    assert.equal(exit, 3);
    assert.doesNotMatch(text, /--force/);
    assert.match(text, /nothing was changed; there is no agent at/);
  }
});

test("add checks only the new target, without an audit log", async (t) => {
  const { checked } = await run(t, add, [URL_], { entries: own({ alias: "other", baseUrl: "https://other.example" }) });
  assert.deepEqual(checked.targets.map(({ alias }) => alias), ["support"]);
  assert.equal(checked.audit, undefined);
});

test("add asks the running gateway after it has applied the change", async (t) => {
  const { exit, text } = await run(t, add, [URL_], { gateway: {} });
  assert.deepEqual([exit, text.includes("the running gateway has the agent")], [0, true], text);
});

test("add says that the settings are written if the gateway cannot check them", async (t) => {
  const { exit, text, targets } = await run(t, add, [URL_], { gateway: { refusal: "run `openclaw gateway restart`" } });
  assert.deepEqual([exit, targets.length], [1, 1]);
  assert.match(text, /error: the settings are written; run `openclaw gateway restart`/);
});

test("add with force succeeds if the running gateway calls the agent", async (t) => {
  for (const [gateway, exit] of [
    [{}, 0],
    [{ agent: withStatusError("auth_required") }, 4],
    [undefined, 4],
  ]) {
    const result = await run(t, add, [URL_], { options: { bearerEnv: "KEY", force: true }, agent: withStatusError("auth_required"), gateway });
    assert.deepEqual([result.exit, result.targets.length], [exit, 1], result.text);
  }
});

test("add names what the running gateway lacks, with the repair", async (t) => {
  const options = { bearerEnv: "KEY" };
  const lacking = await run(t, add, [URL_], { options, gateway: { unresolved: [{ path: "targets[0].auth.token", alias: "support", variable: "KEY" }] } });
  assert.equal(lacking.exit, 2);
  assert.match(lacking.text, /agents cannot call `support`.*\nwhat to do: The gateway does not have KEY: add it to \/home\/o\/\.openclaw\/\.env and restart the gateway/);
  const stale = await run(t, add, [URL_], { options, gateway: { agent: withStatusError("auth_required") } });
  assert.equal(stale.exit, 4);
  assert.match(stale.text, /succeeded in this shell; in the gateway.*\nerror.*\nwhat to do: Check the token in the environment variable `KEY` of the gateway.*\nWrite the value to \/home/);
});

test("add carries over the settings of the predecessor", async (t) => {
  const legacy = { enabled: true, targets: [{ alias: "old", baseUrl: "https://old.example", default: true }] };
  const { text, targets, host } = await run(t, add, [URL_], { entries: { [LEGACY]: { enabled: true, config: legacy }, "remote-agent": { enabled: true } } });
  assert.match(text, /the settings of `openclaw-a2a-outbound` are now those of `remote-agent`, with `old`/);
  assert.deepEqual(targets.map(({ alias, default: isDefault }) => [alias, isDefault]), [["old", true], ["support", undefined]]);
  assert.equal(host.plugins.entries[LEGACY], undefined);
});

test("migrate moves the settings after the library has read them", async (t) => {
  const legacy = { enabled: true, targets: [{ alias: "old", baseUrl: "https://old.example" }] };
  const moved = await run(t, migrate, [], { entries: { [LEGACY]: { enabled: true, config: legacy } } });
  assert.deepEqual([moved.exit, moved.targets, moved.checked.targets], [0, legacy.targets, legacy.targets], moved.text);
  const again = await run(t, migrate, []);
  assert.match(again.text, /nothing to migrate/);
});

test("remove permits the file to shrink", async (t) => {
  const { exit, host, isShrunk } = await run(t, (context, surroundings) => remove(context, undefined, surroundings), [], { options: { all: true }, entries: own(known("a")) });
  assert.deepEqual([exit, host.plugins.entries["remote-agent"].config, isShrunk], [0, undefined, true]);
});

test("add prints no settings of the target, which contain resolved secrets", async (t) => {
  const before = known("desk", { default: true, auth: { type: "bearer", token: "s3cret-value" }, headers: { "x-key": "s3cret-header" } });
  const { text } = await run(t, add, [URL_], { entries: own(before), options: { json: true, description: "Desk" } });
  assert.match(text, /"target":\{"alias":"desk","baseUrl":"[^"]+","default":true\}/);
  assert.doesNotMatch(text, /s3cret/);
});

test("remove of every agent does not bring back those of the predecessor", async (t) => {
  const legacy = { enabled: true, targets: [{ alias: "old", baseUrl: "https://old.example" }] };
  const entries = { ...own(known("a")), [LEGACY]: { enabled: true, config: legacy } };
  const { host } = await run(t, (context, surroundings) => remove(context, undefined, surroundings), [], { options: { all: true }, entries });
  assert.deepEqual(host.plugins.entries["remote-agent"].config, { enabled: false });
});
