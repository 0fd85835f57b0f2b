import assert from "node:assert/strict";
import { test } from "node:test";

import { add, addSubagent, checkSubagents, remove, removeSubagent } from "../subagent-commands.js";

const target = { alias: "Support", baseUrl: "https://support.example" };
const entry = { name: "Support (remote)", runtime: { type: "acp", acp: { agent: "support", backend: "remote-agent", mode: "persistent" } } };

test("the only agent stays the default one beside a sub-agent", () => {
  const draft = {};
  addSubagent(draft, target);
  assert.deepEqual(draft, { acp: { enabled: true, backend: "remote-agent" }, agents: { entries: { main: { default: true }, support: entry } } });
  assert.deepEqual(addSubagent(draft, target), []);
  removeSubagent(draft, "support");
  assert.deepEqual(draft.acp, {});
});

test("where another backend may be in use, the sub-agent alone names this one", () => {
  const acpx = { runtime: { type: "acp", acp: { agent: "codex" } } };
  for (const host of [{ acp: { enabled: true } }, { plugins: { entries: { acpx: {} } } }, { agents: { entries: { main: { default: true }, codex: acpx } } }]) {
    const draft = structuredClone(host);
    addSubagent(draft, target);
    assert.deepEqual([draft.acp, draft.agents.entries.support], [host.acp ?? {}, entry]);
  }
});

test("agents with a default, and with owners of their own, stay as they are", () => {
  for (const agents of [{ entries: { anna: { default: true }, bert: {} } }, { ownership: "explicit", entries: { anna: {}, bert: {} } }]) {
    const draft = { agents: structuredClone(agents) };
    addSubagent(draft, target);
    assert.deepEqual(draft.agents, { ...agents, entries: { ...agents.entries, support: entry } });
  }
});

test("a list of allowed agents gets the sub-agent, and loses it", () => {
  const draft = { acp: { enabled: true, allowedAgents: ["codex"] } };
  addSubagent(draft, target);
  assert.deepEqual(draft.acp.allowedAgents, ["codex", "support"]);
  draft.acp.allowedAgents.pop();
  assert.deepEqual(addSubagent(draft, target), ["`acp.allowedAgents` has `support`"]);
  removeSubagent(draft, "support");
  assert.deepEqual([draft.acp.allowedAgents, draft.agents.entries], [["codex"], { main: { default: true } }]);
});

/** Runs a command on a configuration, which it changes. */
async function run(command, given, host = {}) {
  const plugin = { enabled: true, config: { enabled: true, targets: [target, { alias: "gateway:x", baseUrl: "https://x.example" }] } };
  const draft = { ...host, plugins: { entries: { "remote-agent": plugin } } };
  const api = { pluginConfig: plugin.config, runtime: { config: { mutateConfigFile: async ({ mutate }) => mutate(draft) } } };
  const exit = await command({ api, host: draft, options: { json: true } }, given);
  return { draft, exit };
}

test("the command adds and removes a sub-agent", async () => {
  const { draft, exit } = await run(add, "Support");
  assert.deepEqual([exit, draft.agents.entries.support], [0, entry]);
  const removed = await run(remove, "support", draft);
  assert.deepEqual(removed.draft.agents.entries, { main: { default: true } });
});

test("the command takes no place of another agent or backend", async () => {
  await assert.rejects(run(add, "billing"), /no agent is called `billing`/);
  await assert.rejects(run(add, "gateway:x"), /cannot be the id of an agent/);
  await assert.rejects(run(add, "Support", { agents: { entries: { support: { model: "x" } } } }), /has an agent `support` already; .*Nothing was changed/);
  await assert.rejects(run(add, "Support", { acp: { backend: "acpx" } }), /`acp.backend` is `acpx`\. .*config unset acp\.backend`\. Nothing was changed/);
  await assert.rejects(run(remove, "support", { agents: { entries: { support: {} } } }), /no sub-agent is called/);
});

test("the doctor names what keeps a sub-agent from running", () => {
  const findings = (acp, targets = [target]) => {
    const found = [];
    checkSubagents({ acp, agents: { entries: { main: {}, support: entry } } }, targets, (_check, severity, message) => found.push(`${severity}: ${message}`));
    return found;
  };
  assert.deepEqual(findings({ enabled: true }), ["info: the sub-agent `support` runs the target `support`"]);
  assert.deepEqual(findings({}, []), ["error: the sub-agent `support` has no target `support`"]);
  assert.deepEqual(findings({ enabled: false }), ["error: the sub-agent `support` cannot run: `acp.enabled` is false"]);
  assert.deepEqual(findings({ backend: "acpx" }), ["error: the sub-agent `support` cannot run: `acp.backend` is `acpx`"]);
  assert.deepEqual(findings({ allowedAgents: ["codex"] }), ["error: the sub-agent `support` cannot run: `acp.allowedAgents` does not have it"]);
});
