// Methods of the running gateway about targets and tasks, and for calls of operators, for the commands and Control UI.
import { join } from "node:path";

import { targetsIn } from "./config.js";
import { CallError, gatewayCalls } from "./gateway-calls.js";
import { unresolvedIn } from "./repair.js";
import { keyOf } from "./tasks.js";
import { line } from "./text.js";

/** @import {Api, GatewaySettings, Lease, Settings} from "./types.d.ts" */

/** @typedef {NonNullable<ReturnType<typeof import("./approval.js").approvalHook>>} Ask */

/** The scopes of operators who may decide about approvals. */
const APPROVER_SCOPES = ["operator.approvals", "operator.admin"];
const MAX_NAME_CHARS = 100;

/**
 * Registers the methods, and returns functions that compute the results of `remoteAgent.targets` and `remoteAgent.tasks`.
 * `lease()` returns the instance, or undefined while the tool is disabled; `ask()` the approval hook, if a target needs
 * approval.
 * @param {Api} api
 * @param {Settings} config
 * @param {() => Lease | undefined} lease
 * @param {() => Ask | undefined} ask
 */
export function registerGatewayMethods(api, config, lease, ask = () => undefined, calls = gatewayCalls()) {
  const tasks = () => {
    const instance = lease();
    const own = instance ? withFollowed(instance.tasks.list(), instance.followers.list()) : [];
    return withOperators(own, calls.tasks.list());
  };
  const targets = () => {
    const health = JSON.parse(lease()?.agent.health() ?? "{}");
    return targetsOf(config).map((target) => ({ ...target, ...(health[target.alias] && { health: health[target.alias] }) }));
  };
  const rows = { targets, tasks };
  /** @type {(name: string, scope: "operator.read" | "operator.write", run: (params: any, client: any) => unknown) => void} */
  const method = (name, scope, run) => {
    const handler = async ({ params, client, respond }) => {
      try {
        respond(true, await run(params ?? {}, client));
      } catch (error) {
        respond(false, undefined, { code: error instanceof CallError ? "INVALID_REQUEST" : "UNAVAILABLE", message: line(error?.message ?? error) });
      }
    };
    api.registerGatewayMethod?.(`remoteAgent.${name}`, handler, { scope });
  };
  const ready = () => {
    const instance = lease();
    if (!instance) throw new CallError("the tool is switched off in the gateway, or its settings are not valid: see the gateway's log, or `openclaw remote-agent doctor`");
    return instance;
  };
  const newsOf = async ({ id, after = 0, offset = 0, wait = true }) => (await calls.news(id, count(after), count(offset), wait === false ? 0 : undefined)) ?? { unknownTo: calls.gatewayId, wasStarted: calls.wasStarted(id) };
  const stateDir = () => api.runtime?.state?.resolveStateDir?.();

  method("targets", "operator.read", () => ({ targets: rows.targets() }));
  method("tasks", "operator.read", () => ({ tasks: rows.tasks() }));
  method("settings", "operator.read", () => ({ gatewayId: calls.gatewayId, ...settingsOf(config, lease() !== undefined, stateDir()) }));
  method("list", "operator.read", async ({ agent, listTasks }, client) => {
    const { agent: library, CancelToken } = ready();
    const caller = { operator: operatorOf(client), agent_id: textIn(agent), list_tasks: listTasks === true };
    return { envelope: JSON.parse(await library.execute('{"action":"list_targets"}', JSON.stringify(caller), new CancelToken(), null)) };
  });
  method("call", "operator.write", async ({ id, request, agent, updates, byPerson }, client) => {
    const instance = ready();
    if (typeof id !== "string" || typeof request !== "object" || request === null) throw new CallError("`remoteAgent.call` needs `id` and `request`");
    const approves = APPROVER_SCOPES.some((scope) => client?.connect?.scopes?.includes(scope));
    if (!approves && ask()?.({ params: request })) throw new CallError(`an operator approves messages to this target, and this connection has none of the scopes ${APPROVER_SCOPES.join(", ")}; nothing was sent`);
    // Who may not approve may not answer either.
    const caller = { operator: operatorOf(client), agent_id: textIn(agent), state_dir: stateDir(), ...(approves && byPerson === true && { by_person: true }) };
    calls.start(id, request, caller, updates === true, instance);
    return await newsOf({ id });
  });
  method("news", "operator.write", newsOf);
  method("stop", "operator.write", ({ id }) => (calls.stop(id), {}));
  return rows;
}

const textIn = (value) => (typeof value === "string" ? value : undefined);
const count = (value) => (Number.isSafeInteger(value) && value > 0 ? value : 0);

/** Returns the name of an operator for the audit log. */
function operatorOf(client) {
  const { authenticatedUserId, connect } = client ?? {};
  return line(authenticatedUserId ?? connect?.client?.displayName ?? connect?.client?.id ?? "operator").slice(0, MAX_NAME_CHARS);
}

/**
 * Returns the settings as this gateway has them, without values of credentials.
 * @param {Settings} config
 * @param {boolean} isReady
 * @param {string} [stateDir]
 * @returns {Omit<GatewaySettings, "gatewayId">}
 */
function settingsOf(config, isReady, stateDir) {
  return { isReady, targets: addressesOf(config), unresolved: unresolvedIn(config), envFile: stateDir && join(stateDir, ".env") };
}

/**
 * Returns the alias and the address of each target.
 * @param {Settings} config
 */
export function addressesOf(config) {
  return targetsIn(config).map(({ alias, baseUrl }) => ({ alias, url: withoutSecrets(baseUrl) }));
}

/** @param {Settings} config */
function targetsOf(config) {
  return targetsIn(config).map(({ alias, baseUrl, description, default: isDefault }) => ({ alias, url: withoutSecrets(baseUrl), description, default: isDefault === true }));
}

/** Returns a URL without user, password, query and fragment. The library refuses such a URL, but the settings may contain one. */
function withoutSecrets(url) {
  if (!URL.canParse(url)) return "";
  const { origin, pathname } = new URL(url);
  return pathname === "/" && !url.endsWith("/") ? origin : origin + pathname;
}

/** Adds the tasks of operators to those of agents. A task of both has the state of the latest result. */
function withOperators(tasks, ofOperators) {
  const all = new Map(tasks.map((task) => [keyOf(task), task]));
  for (const task of ofOperators) {
    const known = all.get(keyOf(task)) ?? task;
    const isNewer = task.updatedMs <= (known.updatedMs ?? Infinity);
    all.set(keyOf(task), isNewer ? { ...task, ...known, state: task.state, updatedMs: task.updatedMs, lastWord: task.lastWord ?? known.lastWord } : known);
  }
  return [...all.values()];
}

/** Marks the tasks that wake a session when they end, and adds those that an earlier gateway started. */
function withFollowed(tasks, followed) {
  const marked = new Map(tasks.map((task) => [keyOf(task), task]));
  for (const { target, taskId, state, since } of followed) {
    const key = keyOf({ target, taskId });
    const ageMs = Date.now() - Date.parse(since);
    marked.set(key, { target, taskId, ageMs, ...marked.get(key), ...(state ? { state } : {}), notify: true });
  }
  return [...marked.values()];
}
