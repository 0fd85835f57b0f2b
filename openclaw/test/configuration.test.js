import assert from "node:assert/strict";
import { test } from "node:test";

import { aliasFor, allowTool, disallowTool, isSameAgent, merged, migrateSettings, putTarget, removeTarget } from "../configuration.js";

const target = (alias, more = {}) => ({ alias, baseUrl: `https://${alias}.example`, ...more });

test("first target is the default and allows the tool", () => {
  const draft = {};
  putTarget(draft, target("one"));
  putTarget(draft, target("two"));
  const { config, enabled } = draft.plugins.entries["remote-agent"];
  assert.deepEqual([enabled, config.enabled], [true, true]);
  assert.deepEqual(config.targets.map((one) => [one.alias, one.default]), [["one", true], ["two", undefined]]);
  assert.deepEqual(draft.tools.alsoAllow, ["remote_agent"]);
});

test("target replaces the one with its alias and remains the default", () => {
  const draft = {};
  for (const alias of ["one", "two"]) putTarget(draft, target(alias));
  putTarget(draft, target("one", { description: "changed" }));
  assert.deepEqual(draft.plugins.entries["remote-agent"].config.targets, [target("one", { description: "changed", default: true }), target("two")]);
});

test("unknown alias is not removed", () => assert.throws(() => removeTarget({}, "one"), /no target has that alias/));

test("tool joins an existing allow list and leaves it again", () => {
  const draft = { tools: { allow: ["read"] } };
  allowTool(draft);
  assert.deepEqual(draft.tools, { allow: ["read", "remote_agent"] });
  disallowTool(draft);
  assert.deepEqual(draft.tools, { allow: ["read"] });
});

test("tool of a wildcard policy is not added", () => {
  const draft = { tools: { alsoAllow: ["*"] } };
  allowTool(draft);
  assert.deepEqual(draft.tools.alsoAllow, ["*"]);
});

test("alias comes from the host and is unique", () => {
  for (const [url, taken, alias] of [
    ["https://www.support.example/a", [], "support"],
    ["https://support.example", ["support"], "support-2"],
    ["http://127.0.0.1:9000", [], "127.0.0.1-9000"],
    ["http://127.0.0.1:9000/a", ["127.0.0.1-9000"], "127.0.0.1-9000-2"],
    ["http://10.0.0.7", [], "10.0.0.7"],
    ["http://[::1]:9000", [], "1-9000"],
    ["http://[fd00::1]:9000", [], "fd00-1-9000"],
    ["http://localhost:9000", [], "localhost-9000"],
  ])
    assert.equal(aliasFor(url, taken), alias, url);
});

test("agent is the same at the same origin and path", () => {
  for (const [left, right, same] of [
    ["https://a.example", "https://A.example:443/", true],
    ["https://a.example/x/", "https://a.example/x", true],
    ["https://a.example/x", "https://a.example/y", false],
    ["https://a.example", "http://a.example", false],
    ["${AGENT_URL}", "https://a.example", false],
  ])
    assert.equal(isSameAgent(left, right), same, `${left} ${right}`);
});

test("settings of the predecessor move with their policy, and its entry goes", () => {
  const config = { enabled: true, targets: [target("old", { default: true })], limits: { waitMs: 1 } };
  const draft = { plugins: { entries: { "openclaw-a2a-outbound": { enabled: true, config }, other: {} } } };
  assert.deepEqual(migrateSettings(draft), ["old"]);
  assert.deepEqual(draft.plugins.entries, { other: {}, "remote-agent": { enabled: true, config } });
  assert.deepEqual(draft.tools.alsoAllow, ["remote_agent"]);
  assert.equal(migrateSettings(draft), undefined);
});

test("own settings precede those of the predecessor", () => {
  const own = { enabled: true, targets: [target("a", { default: true })] };
  const legacy = { limits: { waitMs: 1 }, targets: [target("a", { baseUrl: "https://b.example" }), { alias: "c", baseUrl: "https://a.example/" }, target("d", { default: true })] };
  assert.deepEqual(merged(own, legacy), { enabled: true, limits: { waitMs: 1 }, targets: [target("a", { default: true }), target("d")] });
});
