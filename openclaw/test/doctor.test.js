import assert from "node:assert/strict";
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { diagnose, repair } from "../doctor.js";
import { GatewayRefusal } from "../ask-gateway.js";
import { addressesOf } from "../gateway-methods.js";
import { auditFindings } from "../security-audit.js";

const host = (config, more = {}) => ({ tools: { alsoAllow: ["remote_agent"] }, plugins: { entries: { "remote-agent": { enabled: true, config } } }, ...more });
const target = { alias: "one", baseUrl: "https://one.example" };
const listing = (...targets) => async () => ({ run: async () => ({ ok: true, summary: { targets } }), close() {} });
/** A running gateway that lists `targets`. Its settings are those of `config`, with the differences of `settings`. */
const gateway = (config, targets = [], settings = {}) => async () => ({ ...(await listing(...targets)()), settings: () => ({ isReady: true, targets: addressesOf(config), unresolved: [], envFile: "/state/.env", ...settings }) });
/** Resolves no reference. */
const resolve = async (config) => ({ resolved: config, unresolved: [] });
const findings = async (config, options = {}) => {
  const { listed = [], more, ...others } = options;
  const found = await diagnose({ host: host(config, more), env: {}, load() {}, open: listing(), ask: gateway(config, listed), resolve, ...others });
  return found.filter(({ severity }) => severity !== "info");
};
const checks = async (config, options) => (await findings(config, options)).map(({ check }) => check);

test("sound settings have no finding", async () => assert.deepEqual(await checks({ enabled: true, targets: [target] }), []));

test("missing target is reported", async () => assert.deepEqual(await checks({ enabled: true }), ["targets"]));

test("tool outside the policy is reported and repaired", async () => {
  const config = host({ enabled: true, targets: [target] }, { tools: {} });
  const found = await diagnose({ host: config, env: {}, load() {}, ask: gateway({ targets: [target] }) });
  assert.deepEqual(found.map(({ check }) => check), ["tool"]);
  assert.equal(repair(config, found).length, 1);
  assert.deepEqual(config.tools.alsoAllow, ["remote_agent"]);
});

test("plain-text secret and expired token are reported without the value", async () => {
  const token = `x.${Buffer.from(JSON.stringify({ exp: 1 })).toString("base64url")}.y`;
  const settings = { enabled: true, targets: [{ ...target, auth: { type: "bearer", token } }] };
  const found = await findings(settings);
  assert.deepEqual(found.map(({ check }) => check), ["plaintext", "token"]);
  assert.ok(!JSON.stringify(found).includes(token));
});

test("credential too short for redaction is reported without the value", async () => {
  const headers = { "x-token": "ab12", "x-tenant": "blue", "x-key": "abc123" };
  const found = await findings({ enabled: true, targets: [{ ...target, headers }] });
  const short = found.filter(({ check }) => check === "short");
  assert.deepEqual(short.map(({ path }) => path), ['plugins.entries.remote-agent.config.targets[0].headers["x-token"]']);
  assert.ok(!JSON.stringify(short).includes("ab12"));
});

test("missing library ends the checks", async () => {
  const load = () => {
    throw new Error("no library for this platform");
  };
  assert.deepEqual(await checks({ enabled: true, targets: [target] }, { load }), ["library"]);
});

test("unreachable card is reported", async () => {
  const unreachable = { target_alias: "one", target_url: "https://one.example", last_refresh_error: { reason: "dns", message: "no such name" } };
  assert.deepEqual(await checks({ enabled: true, targets: [target] }, { listed: [unreachable] }), ["card"]);
});

test("agent that cannot be called is reported, and one without a list of tasks is not", async () => {
  const listed = (reason) => [{ target_alias: "one", target_url: "https://one.example", tasks_error: { reason, message: "no" } }];
  for (const reason of ["unsupported_transport", "unsupported_version", "auth_required", "unreachable"]) {
    assert.deepEqual(await checks({ enabled: true, targets: [target] }, { listed: listed(reason) }), ["call"], reason);
  }
  assert.deepEqual(await checks({ enabled: true, targets: [target] }, { listed: listed("rpc_error") }), []);
});

test("gateway without a token is reported", async () => assert.deepEqual(await checks({ enabled: true, gateway: { enabled: true } }), ["gateway"]));

test("clock of an agent that differs is reported", async () => {
  const slow = { target_alias: "one", target_url: "https://one.example", clock_skew_seconds: -90 };
  const [finding] = await findings({ enabled: true, targets: [target] }, { listed: [slow] });
  assert.deepEqual([finding.check, finding.severity], ["clock", "warning"]);
  assert.match(finding.message, /90 s behind/);
});

test("card at the origin of an address with a path is no fault", async () => {
  const config = { enabled: true, targets: [target] };
  const elsewhere = { target_alias: "one", target_url: "https://one.example/wrong", card_url: "https://one.example/.well-known/agent-card.json" };
  const found = await diagnose({ host: host(config), env: {}, load() {}, open: listing(), ask: gateway(config, [elsewhere]), resolve });
  const finding = found.find(({ message }) => message.includes("found at https://one.example/.well-known"));
  assert.deepEqual([finding.check, finding.severity], ["card", "info"]);
});

test("security audit knows a loopback address from a name", () => {
  const ids = (baseUrl) => auditFindings({ sourceConfig: host({ targets: [{ ...target, baseUrl, auth: { type: "bearer", token: { source: "env", id: "A" } } }] }) }).map(({ checkId }) => checkId);
  assert.deepEqual(ids("http://127.0.0.2:8080"), []);
  assert.deepEqual(ids("http://127.evil.example"), ["remote-agent.cleartext"]);
});

test("security audit reports settings that widen the reach", () => {
  const settings = {
    targets: [{ alias: "one", baseUrl: "http://one.example", auth: { type: "bearer", token: "secret-value" }, allowPrivateNetwork: true }],
    policy: { allowTargetUrlOverride: true, allowPrivateTargetUrls: true },
    gateway: { allowRemote: true, tokenInQuery: true },
  };
  const found = auditFindings({ sourceConfig: host(settings) });
  const ids = found.map(({ checkId }) => checkId.replace("remote-agent.", ""));
  assert.deepEqual(ids, ["plaintext_secret", "private_network", "cleartext", "url_override", "private_urls", "remote_gateway", "token_in_query"]);
  assert.ok(!JSON.stringify(found).includes("secret-value"));
});

test("security audit and doctor read settings that no schema has checked", async () => {
  const auth = { type: "bearer", token: { source: "env", id: "A" } };
  const ids = (targets) => auditFindings({ sourceConfig: host({ targets }) }).map(({ checkId }) => checkId);
  assert.deepEqual(ids([null, 5, { alias: "x", baseUrl: "http://", auth }, { alias: "y", baseUrl: " HTTP://y.example", auth }]), ["remote-agent.cleartext", "remote-agent.cleartext"]);
  for (const targets of [{}, "x", 5, null]) assert.deepEqual(ids(targets), []);
  assert.deepEqual(await checks({ enabled: true, targets: [null, target] }), []);
});

test("times of a token that no calendar has are no error", async () => {
  const token = (exp) => `x.${Buffer.from(JSON.stringify({ exp })).toString("base64url")}.y`;
  const settings = (exp) => ({ enabled: true, targets: [{ ...target, auth: { type: "bearer", token: token(exp) } }] });
  assert.deepEqual(await checks(settings(-1e300)), ["plaintext"]);
  assert.deepEqual(await checks(settings(0)), ["plaintext", "token"]);
});

const secured = { ...target, auth: { type: "bearer", token: { source: "env", provider: "default", id: "ONE_TOKEN" } } };
const sound = { enabled: true, targets: [secured] };
const refused = { target_alias: "one", target_url: "https://one.example", tasks_error: { reason: "auth_required", message: "the agent requires a token." } };
const unresolved = { unresolved: [{ path: "targets[0].auth.token", alias: "one", variable: "ONE_TOKEN" }] };

test("variable that the gateway lacks is one finding, with its file", async () => {
  const error = { reason: "credential_unresolved", message: "not resolved" };
  const found = await findings(sound, { env: { ONE_TOKEN: "in-the-shell" }, ask: gateway(sound, [{ ...refused, last_refresh_error: error }], unresolved) });
  assert.deepEqual(found.map(({ check }) => check), ["secret"]);
  assert.match(found[0].message, /^the gateway does not have ONE_TOKEN for `.*targets\[0\]\.auth\.token`, and this shell does$/);
  assert.equal(found[0].fixHint, "Add it to /state/.env and restart the gateway (`openclaw gateway restart`).");
});

test("variable that its file already has needs a restart only", async () => {
  const envFile = join(mkdtempSync(join(tmpdir(), "env-")), ".env");
  writeFileSync(envFile, "# x\nexport ONE_TOKEN=value\n");
  const [{ message, fixHint }] = await findings(sound, { ask: gateway(sound, [], { ...unresolved, envFile }) });
  assert.ok(message.endsWith(`${envFile} has it`), message);
  assert.equal(fixHint, "Restart the gateway: `openclaw gateway restart`.");
});

test("token of the gateway is compared with that of the shell", async () => {
  const ask = gateway(sound, [refused]);
  const answers = { ...refused, tasks_error: undefined, tasks: [] };
  for (const [here, message] of [
    [answers, /refuses ONE_TOKEN of the gateway, and accepts that of this shell/],
    [refused, /the agent requires a token, also with the token of this shell$/],
    [{ ...refused, tasks_error: { reason: "credential_unresolved", message: "" } }, /the agent requires a token$/],
  ]) {
    const found = await findings(sound, { ask, open: listing(here) });
    assert.deepEqual(found.map(({ check }) => check), ["call"]);
    assert.match(found[0].message, message);
    assert.match(found[0].fixHint, here === answers ? /Write the value to \/state\/\.env, in place of an earlier line, then end the gateway and start it again/ : /Check the token in the environment variable `ONE_TOKEN` of the gateway: the agent refused it\./);
  }
});

test("agent that requires a credential and has none is reported with the option", async () => {
  const [{ fixHint }] = await findings({ enabled: true, targets: [target] }, { listed: [refused] });
  assert.match(fixHint, /`--bearer-env VAR`/);
});

test("check without a gateway says so, and uses the shell", async () => {
  const found = await findings({ enabled: true, targets: [target] }, { ask: async () => undefined, open: listing(refused) });
  assert.deepEqual(found.map(({ check, severity }) => [check, severity]), [["running", "warning"], ["call", "error"]]);
  assert.match(found[0].message, /no gateway is running\. This was checked with the environment and the secrets of this shell only$/);
});

test("gateway that refuses is reported, and the shell is checked", async () => {
  const ask = async () => {
    throw new GatewayRefusal("the running gateway refuses: no");
  };
  assert.deepEqual(await checks({ enabled: true, targets: [target] }, { ask }), ["running"]);
});

test("gateway with other settings is reported", async () => {
  assert.deepEqual(await checks({ enabled: true, targets: [target] }, { ask: gateway({}), applyMs: 0 }), ["running"]);
});

test("gateway without the tool is reported with the place in the settings that the library refuses", async () => {
  const ask = gateway({ targets: [target] }, [], { isReady: false });
  const open = async () => {
    throw new Error('the settings are not valid at "/targets/1/alias"');
  };
  const [refused] = await findings({ enabled: true, targets: [target] }, { ask, open });
  assert.equal(refused.check, "settings");
  assert.match(refused.message, /targets\/1\/alias/);
  assert.deepEqual(await checks({ enabled: true, targets: [target] }, { ask }), ["running"]);
});

test("edit of the targets is checked once the gateway has applied it", async () => {
  const config = { enabled: true, targets: [target] };
  const answers = [gateway({}), gateway(config)];
  assert.deepEqual(await checks(config, { ask: () => (answers.length > 1 ? answers.shift() : answers[0])() }), []);
});

test("local gateway that does not answer is one error", async () => {
  const config = { enabled: true, gateway: { enabled: true, token: "a-long-token" } };
  const local = { target_alias: "gateway:main", target_url: "ws://127.0.0.1:9", status: "unknown", last_refresh_error: { reason: "connection_refused", message: "refused" } };
  const summary = { targets: [local], gateway: { url: "ws://127.0.0.1:9", state: "CLOSED", last_error: "refused." } };
  const ask = async () => ({ ...(await gateway(config)()), run: async () => ({ ok: true, summary }) });
  const found = (await findings(config, { ask })).filter(({ check }) => check === "gateway");
  assert.deepEqual(found.map(({ severity, message }) => [severity, message]), [["error", "the local gateway at ws://127.0.0.1:9 does not answer: refused"]]);
});

test("agent of the local gateway that is offline is a warning", async () => {
  const found = await findings({ enabled: true, targets: [target] }, { listed: [{ target_alias: "gateway:main", target_url: "ws://127.0.0.1:9", status: "offline" }] });
  assert.deepEqual(found.map(({ severity, message }) => [severity, message]), [["warning", "`gateway:main` at ws://127.0.0.1:9 is offline"]]);
});

test("operator sees which agents may use a target", async () => {
  const found = await diagnose({ host: host({ enabled: true, targets: [target] }), env: {}, load() {}, ask: gateway({ targets: [target] }, [{ target_alias: "one", target_url: "https://one.example", allowed_agents: ["writer"] }]) });
  assert.deepEqual(found.map(({ message }) => message), ["`one` at https://one.example answers (only for: writer)"]);
});
