import assert from "node:assert/strict";
import { test } from "node:test";

import { diagnose, repair } from "../doctor.js";
import { auditFindings } from "../security-audit.js";

const host = (config, more = {}) => ({ tools: { alsoAllow: ["remote_agent"] }, plugins: { entries: { "remote-agent": { enabled: true, config } } }, ...more });
const target = { alias: "one", baseUrl: "https://one.example" };
const listing = (...targets) => async () => ({ run: async () => ({ ok: true, summary: { targets } }), close() {} });
const checks = async (config, options = {}) => {
  const found = await diagnose({ host: host(config), env: {}, load() {}, open: listing(), ...options });
  return found.filter(({ severity }) => severity !== "info").map(({ check }) => check);
};

test("sound settings have no finding", async () => assert.deepEqual(await checks({ enabled: true, targets: [target] }), []));

test("missing target is reported", async () => assert.deepEqual(await checks({ enabled: true }), ["targets"]));

test("tool outside the policy is reported and repaired", async () => {
  const config = host({ enabled: true, targets: [target] }, { tools: {} });
  const found = await diagnose({ host: config, env: {}, load() {}, open: listing() });
  assert.deepEqual(found.map(({ check }) => check), ["tool"]);
  assert.equal(repair(config, found).length, 1);
  assert.deepEqual(config.tools.alsoAllow, ["remote_agent"]);
});

test("plain-text secret and expired token are reported without the value", async () => {
  const token = `x.${Buffer.from(JSON.stringify({ exp: 1 })).toString("base64url")}.y`;
  const settings = { enabled: true, targets: [{ ...target, auth: { type: "bearer", token } }] };
  const found = await diagnose({ host: host(settings), env: {}, load() {}, open: listing() });
  assert.deepEqual(found.map(({ check }) => check), ["plaintext", "token"]);
  assert.ok(!JSON.stringify(found).includes(token));
});

test("credential too short for redaction is reported without the value", async () => {
  const headers = { "x-token": "ab12", "x-tenant": "blue", "x-key": "abc123" };
  const found = await diagnose({ host: host({ enabled: true, targets: [{ ...target, headers }] }), env: {}, load() {}, open: listing() });
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
  assert.deepEqual(await checks({ enabled: true, targets: [target] }, { open: listing(unreachable) }), ["card"]);
});

test("agent that cannot be called is reported, and one without a list of tasks is not", async () => {
  const listed = (reason) => listing({ target_alias: "one", target_url: "https://one.example", tasks_error: { reason, message: "no" } });
  for (const reason of ["unsupported_transport", "unsupported_version", "auth_required", "unreachable"]) {
    assert.deepEqual(await checks({ enabled: true, targets: [target] }, { open: listed(reason) }), ["call"], reason);
  }
  assert.deepEqual(await checks({ enabled: true, targets: [target] }, { open: listed("rpc_error") }), []);
});

test("gateway without a token is reported", async () => assert.deepEqual(await checks({ enabled: true, gateway: { enabled: true } }), ["gateway"]));

test("clock of an agent that differs is reported", async () => {
  const slow = { target_alias: "one", target_url: "https://one.example", clock_skew_seconds: -90 };
  const found = await diagnose({ host: host({ enabled: true, targets: [target] }), env: {}, load() {}, open: listing(slow) });
  const [finding] = found.filter(({ severity }) => severity !== "info");
  assert.deepEqual([finding.check, finding.severity], ["clock", "warning"]);
  assert.match(finding.message, /90 s behind/);
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
