// Checks the settings, the library and the agents. OpenClaw's doctor and the commands print the findings.
import process from "node:process";

import { settings, targetsIn, withOwnGateway } from "./config.js";
import { allowTool, misnamedTargets, toolIsAllowed } from "./configuration.js";
import { openInstance } from "./instance.js";
import { loadLibrary } from "./native.js";
import { hintFor, line } from "./report.js";
import { plaintextSecrets, resolveSecrets, secretPlaces, shortSecrets } from "./secrets.js";
/** @import {EnvelopeError, Finding, HostConfig, ListedTarget} from "./types.d.ts" */

const CLOCK_REPAIR = "Synchronize the clock of this machine, for example with `timedatectl set-ntp true`; if it is right, the agent's operator has to. Tokens with an expiry fail until then.";

/** @typedef {(check: string, severity: Finding["severity"], message: string, fixHint?: string, path?: string) => void} AddFinding */

/** The errors that are normal when the doctor lists the tasks of a working agent: task lists are optional. */
const OPTIONAL_LIST_REASONS = new Set(["rpc_error", "http_status", "invalid_response", "too_large"]);

/** The latest time of a `Date`. */
const MAX_TIME_MS = 8.64e15;

/** The repairs of the configuration, by the id of the check. */
const REPAIRS = {
  tool: (draft) => (allowTool(draft), "Added remote_agent to the tools that agents may use."),
};

/**
 * Checks the plugin with the host's configuration `host`. Returns `[{ check, severity, message, fixHint, path }]`, where
 * `severity` is "info", "warning" or "error". An "info" reports a passed check.
 */
export async function diagnose({ host, api = {}, env = process.env, load = loadLibrary, open = openInstance, now = Date.now }) {
  /** @type {Finding[]} */
  const found = [];
  /** @type {AddFinding} */
  const add = (check, severity, message, fixHint, path) => void found.push({ check, severity, message, fixHint, path });
  const pluginConfig = host?.plugins?.entries?.["remote-agent"]?.config;
  const { config, place } = settings({ pluginConfig, config: host });

  if (config.enabled !== true) {
    add("enabled", "warning", "the tool is switched off", `Run \`openclaw config set ${place}.enabled true --strict-json\`.`, `${place}.enabled`);
  }
  const targets = targetsIn(config);
  if (targets.length === 0 && config.gateway?.enabled !== true) {
    add("targets", "warning", "no agent is configured", "Run `openclaw remote-agent add URL`.", `${place}.targets`);
  }
  for (const target of misnamedTargets(config)) {
    add("targets", "error", `target \`${line(target.alias)}\` has \`url\` and no \`baseUrl\``, "Run `openclaw doctor --fix`.", `${place}.targets`);
  }
  if (!toolIsAllowed(host)) {
    add("tool", "warning", "agents do not have the tool: `tools.alsoAllow` does not name `remote_agent`", "Run `openclaw remote-agent doctor --fix`.", "tools.alsoAllow");
  }
  for (const { path } of plaintextSecrets(config)) {
    const at = `${place}.${path}`;
    add("plaintext", "warning", `\`${at}\` is a secret in plain text`, `Run \`openclaw config set '${at}' --ref-provider default --ref-source env --ref-id NAME\`.`, at);
  }
  const { resolved, unresolved } = await resolveSecrets(config, { host, env, place });
  for (const path of shortSecrets(config, resolved)) {
    const at = `${place}.${path}`;
    add("short", "warning", `\`${at}\` has less than 6 bytes, and answers that repeat it show it`, "Use a longer secret.", at);
  }
  for (const { path, reason } of unresolved) {
    add("secret", "error", `\`${path}\` is a reference without a value: ${line(reason)}`, "Set the secret where the gateway runs, or correct the reference.", path);
  }
  for (const { path, value } of secretPlaces(resolved)) {
    const expired = typeof value === "string" ? expiry(value) : undefined;
    if (expired !== undefined && expired <= now()) add("token", "error", `the token of \`${place}.${path}\` expired at ${new Date(expired).toISOString()}`, "Get a new token.", `${place}.${path}`);
  }
  if (config.gateway?.enabled === true && withOwnGateway(config, host, env).gateway?.token === undefined) {
    add("gateway", "warning", "the local gateway has no token", `Set \`gateway.auth.token\` of OpenClaw, or \`${place}.gateway.token\` to a reference to \`gateway.auth.token\`.`, `${place}.gateway.token`);
  }

  try {
    load();
  } catch (error) {
    add("library", "error", line(error.message), "Run `openclaw plugins install` with a package for this machine.");
    return found;
  }
  let instance;
  try {
    instance = await open({ ...api, pluginConfig }, host);
  } catch (error) {
    add("settings", "error", line(error.message), "Correct the value.", place);
    return found;
  }
  try {
    const { ok, error, summary } = await instance.run({ action: "list_targets" }, null, { list_tasks: true });
    if (!ok) add("cards", "error", line(error?.message), hintFor(error?.reason, error?.details));
    for (const target of summary?.targets ?? []) checkCard(add, target);
    const gateway = summary?.gateway;
    if (gateway?.last_error) add("gateway", "error", `the gateway at ${line(gateway.url)}: ${line(gateway.last_error)}`, "Start the gateway, or correct the address and the token.", `${place}.gateway`);
  } finally {
    instance.close();
  }
  return found;
}

/**
 * @param {AddFinding} add
 * @param {ListedTarget} target
 */
function checkCard(add, { target_alias: alias, target_url: url, last_refresh_error: error, tasks_error: refusal, clock_skew_seconds: skew }) {
  const who = `\`${line(alias)}\` at ${line(url)}`;
  const problem = (/** @type {string} */ check, /** @type {EnvelopeError} */ { message, reason, details }) => add(check, "error", `${who}: ${line(message)}`, hintFor(reason, details) ?? "Check the address.");
  if (error) problem("card", error);
  else if (refusal && !OPTIONAL_LIST_REASONS.has(refusal.reason ?? "")) problem("call", refusal);
  else add("card", "info", `${who} answers`);
  if (skew) {
    const side = skew > 0 ? "ahead of" : "behind";
    add("clock", "warning", `${who}: its clock is ${Math.abs(skew)} s ${side} the clock of this machine`, CLOCK_REPAIR);
  }
}

/** Returns the expiry of a JSON Web Token in milliseconds; undefined for any other token. */
function expiry(token) {
  try {
    const { exp } = JSON.parse(Buffer.from(token.split(".")[1], "base64url").toString());
    return Number.isFinite(exp) && Math.abs(exp * 1000) <= MAX_TIME_MS ? exp * 1000 : undefined;
  } catch {
    return undefined;
  }
}

/** Applies the repairs for the findings `found` to `draft`. Returns descriptions of the changes. */
export function repair(draft, found) {
  const checks = new Set(found.filter(({ severity }) => severity !== "info").map(({ check }) => check));
  return Object.entries(REPAIRS).flatMap(([check, apply]) => (checks.has(check) ? [apply(draft)] : []));
}
