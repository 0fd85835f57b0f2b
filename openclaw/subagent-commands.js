// `openclaw remote-agent subagent …`: which targets OpenClaw runs as sub-agents (`sessions_spawn` with the runtime `acp`).
import { CommandError, edit } from "./command-support.js";
import { settings, targetsIn } from "./config.js";
import { OK } from "./report.js";
import { BACKEND, agentIdOf } from "./subagent.js";
import { table } from "./table.js";
import { line, note, print, word } from "./text.js";
/** @import {Api, HostConfig, Target} from "./types.d.ts" */

/** @typedef {{ api: Api, host: HostConfig, options: Record<string, any> }} Context */

/** The form of an agent's id in OpenClaw. */
const AGENT_ID = /^[a-z0-9][a-z0-9_-]{0,63}$/;
/** The agent of an OpenClaw whose settings name none. */
const SOLE_AGENT = "main";

const UNSET_BACKEND = "OpenClaw then runs all turns there. Give the agents of that backend `runtime.acp.backend`, then run `openclaw config unset acp.backend`";

/** Registers the commands. `command(words, description, run)` creates one. */
export function registerSubagentCommands(command) {
  command("subagent <action> [target]", "Let OpenClaw run an agent as a sub-agent: `add TARGET`, `remove TARGET`, or `list`", (context, action, target) => subagent(context, action, target));
}

/**
 * @param {Context} context
 * @param {string} action
 * @param {string} [given]
 */
async function subagent(context, action, given) {
  if (action === "list" && given === undefined) return list(context);
  if (action !== "add" && action !== "remove") throw new CommandError("write `subagent add TARGET`, `subagent remove TARGET` or `subagent list`");
  if (given === undefined) throw new CommandError(`name the agent: \`openclaw remote-agent subagent ${action} TARGET\`; \`openclaw remote-agent targets\` lists them`);
  return action === "add" ? add(context, given) : remove(context, given);
}

/**
 * @param {Context} context
 * @param {string} given
 */
export async function add({ api, host, options }, given) {
  const { config } = settings({ pluginConfig: api.pluginConfig, config: host });
  const target = targetsIn(config).find(({ alias }) => alias === given);
  if (!target) throw new CommandError(`no agent is called \`${line(given)}\`; \`openclaw remote-agent targets\` lists them`);
  const id = agentIdOf(given);
  if (!AGENT_ID.test(id)) throw new CommandError(`\`${line(given)}\` cannot be the id of an agent of OpenClaw; add the target with another alias of letters, digits, \`-\` and \`_\``);
  const entry = entriesOf(host)[id];
  if (id === SOLE_AGENT || (entry && !isOurs(entry))) throw new CommandError(`OpenClaw has an agent \`${id}\` already; add the target with another alias. Nothing was changed`);
  const backend = host.acp?.backend;
  if (backend && backend !== BACKEND) throw new CommandError(`\`acp.backend\` is \`${line(backend)}\`. ${UNSET_BACKEND}. Nothing was changed`);
  /** @type {string[]} */
  let changes = [];
  await edit(api, (draft) => void (changes = addSubagent(draft, target)));
  for (const change of changes) note(change);
  const change = changes.length > 0 ? "added" : "unchanged";
  if (options.json) print(JSON.stringify({ subagent: id, target: given, change }));
  else print(`${change} the sub-agent \`${id}\`: an agent of OpenClaw spawns it with sessions_spawn {"runtime": "acp", "agentId": "${id}", "task": "…"}`);
  return OK;
}

/**
 * @param {Context} context
 * @param {string} given
 */
export async function remove({ api, host, options }, given) {
  const id = agentIdOf(given);
  if (!isOurs(entriesOf(host)[id])) throw new CommandError(`no sub-agent is called \`${line(given)}\`; \`openclaw remote-agent subagent list\` lists them`);
  await edit(api, (draft) => removeSubagent(draft, id));
  if (options.json) print(JSON.stringify({ subagent: id, change: "removed" }));
  else print(`removed the sub-agent \`${id}\`; the target stays`);
  return OK;
}

/** @param {Context} context */
function list({ api, host, options }) {
  const { config } = settings({ pluginConfig: api.pluginConfig, config: host });
  const rows = subagentsOf(host).map(({ id, alias }) => ({ subagent: id, target: alias, url: targetOf(targetsIn(config), alias)?.baseUrl }));
  if (options.json) print(JSON.stringify({ subagents: rows }));
  else if (rows.length === 0) note("no target is a sub-agent; `openclaw remote-agent subagent add TARGET` makes one");
  else print(table([["SUB-AGENT", "TARGET", "ADDRESS"], ...rows.map(({ subagent, target, url }) => [subagent, target, url ?? "no such target"])]));
  return OK;
}

/** @type {(config: any) => Record<string, any>} */
const entriesOf = (config) => config?.agents?.entries ?? {};

const isOurs = (/** @type {any} */ entry) => entry?.runtime?.type === "acp" && entry.runtime.acp?.backend === BACKEND;

const targetOf = (/** @type {Target[]} */ targets, /** @type {string} */ agent) => targets.find(({ alias }) => agentIdOf(alias) === agentIdOf(agent));

/** Returns the sub-agents in OpenClaw's configuration, with the aliases of their targets. */
const subagentsOf = (/** @type {HostConfig} */ host) => Object.entries(entriesOf(host)).flatMap(([id, entry]) => (isOurs(entry) ? [{ id, alias: String(entry.runtime.acp.agent ?? id) }] : []));

/**
 * Adds a sub-agent to a draft of OpenClaw's configuration. Returns what changed.
 *
 * The agent names its own backend. `acp.backend` precedes it, so it stays unset where another backend may be in use. With
 * `acp.enabled` and without `acp.backend`, OpenClaw installs acpx.
 * @param {any} draft
 * @param {Target} target
 */
export function addSubagent(draft, { alias, description }) {
  const id = agentIdOf(alias);
  const changes = [];
  const acp = (draft.acp ??= {});
  const hasOther = acp.enabled === true || draft.plugins?.entries?.acpx !== undefined || Object.values(entriesOf(draft)).some((entry) => entry?.runtime?.type === "acp" && !isOurs(entry));
  if (acp.enabled === false) {
    acp.enabled = true;
    changes.push("`acp.enabled` was false, and is true now");
  }
  if (!acp.backend && !hasOther) {
    Object.assign(acp, { enabled: true, backend: BACKEND });
    changes.push(`\`acp.backend\` is \`${BACKEND}\``);
  }
  // Without a list, all agents are allowed.
  if (!isAllowed(acp, id)) {
    acp.allowedAgents.push(id);
    changes.push(`\`acp.allowedAgents\` has \`${id}\``);
  }
  const agents = (draft.agents ??= {});
  const entries = (agents.entries ??= {});
  const others = Object.keys(entries).filter((other) => other !== id);
  // With a second agent, OpenClaw needs to know which one is the default.
  const isMarked = agents.ownership === "explicit" || Object.values(entries).some((entry) => entry?.default === true);
  if (!isMarked && others.length <= 1) {
    const [first = SOLE_AGENT] = others;
    entries[first] = { ...entries[first], default: true };
    changes.push(`\`agents.entries.${first}\` is marked as the default agent, which it was as the only one`);
  }
  if (!isOurs(entries[id])) {
    entries[id] = { name: `${alias} (remote)`, ...(description && { description }), runtime: { type: "acp", acp: { agent: id, backend: BACKEND, mode: "persistent" } } };
    changes.push(`\`agents.entries.${id}\` runs the target \`${line(alias)}\``);
  }
  return changes;
}

/**
 * @param {any} draft
 * @param {string} id
 */
export function removeSubagent(draft, id) {
  delete draft.agents?.entries?.[id];
  const { acp } = draft;
  const others = acp?.allowedAgents?.filter((/** @type {string} */ other) => agentIdOf(other) !== id) ?? [];
  // An empty list allows all agents.
  if (others.length > 0) acp.allowedAgents = others;
  if (acp?.backend !== BACKEND || subagentsOf(draft).length > 0) return;
  delete acp.backend;
  delete acp.enabled;
}

/** OpenClaw knows no pattern here. */
const isAllowed = (acp, id) => !(acp?.allowedAgents?.length > 0) || acp.allowedAgents.some((/** @type {string} */ name) => agentIdOf(name) === id);

/**
 * Checks the sub-agents of a configuration.
 * @param {HostConfig} host
 * @param {Target[]} targets
 * @param {import("./doctor.js").AddFinding} report
 */
export function checkSubagents(host, targets, report) {
  const acp = /** @type {any} */ (host?.acp);
  for (const { id, alias } of subagentsOf(host)) {
    const place = `agents.entries.${id}`;
    const who = `the sub-agent \`${line(id)}\``;
    if (!targetOf(targets, alias)) report("subagent", "error", `${who} has no target \`${line(alias)}\``, `Run \`openclaw remote-agent subagent remove ${word(id)}\`, or add the target again.`, place);
    else if (acp?.enabled === false) report("subagent", "error", `${who} cannot run: \`acp.enabled\` is false`, `Run \`openclaw remote-agent subagent add ${word(alias)}\`.`, "acp.enabled");
    else if (acp?.backend && acp.backend !== BACKEND) report("subagent", "error", `${who} cannot run: \`acp.backend\` is \`${line(acp.backend)}\``, `${UNSET_BACKEND}.`, "acp.backend");
    else if (!isAllowed(acp, agentIdOf(alias))) report("subagent", "error", `${who} cannot run: \`acp.allowedAgents\` does not have it`, `Run \`openclaw remote-agent subagent add ${word(alias)}\`.`, "acp.allowedAgents");
    else report("subagent", "info", `${who} runs the target \`${line(alias)}\``, undefined, place);
  }
}
