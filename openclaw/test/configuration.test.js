import assert from "node:assert/strict";
import { test } from "node:test";

import { addTarget, aliasFor, allowTool, disallowTool, removeTarget } from "../configuration.js";

const target = (alias, more = {}) => ({ alias, baseUrl: `https://${alias}.example`, ...more });

test("first target is the default and allows the tool", () => {
  const draft = {};
  addTarget(draft, target("one"));
  addTarget(draft, target("two"));
  const { config, enabled } = draft.plugins.entries["remote-agent"];
  assert.deepEqual([enabled, config.enabled], [true, true]);
  assert.deepEqual(config.targets.map((one) => [one.alias, one.default]), [["one", true], ["two", undefined]]);
  assert.deepEqual(draft.tools.alsoAllow, ["remote_agent"]);
});

test("alias is added once", () => {
  const draft = {};
  addTarget(draft, target("one"));
  assert.throws(() => addTarget(draft, target("one")), /has that alias/);
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

test("alias comes from the host name and is unique", () => {
  assert.equal(aliasFor("https://www.support.example/a", []), "support");
  assert.equal(aliasFor("https://support.example", ["support"]), "support-2");
  assert.equal(aliasFor("http://127.0.0.1:9000", []), "agent");
  assert.equal(aliasFor("http://[::1]:9000", []), "agent");
});
