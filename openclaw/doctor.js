// Checks the settings, the library and the agents: in the running gateway, where agents run, or else in this process.
import { readFileSync } from "node:fs";
import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";

import { GatewayRefusal, askGateway } from "./ask-gateway.js";
import { settings, targetsIn, withOwnGateway } from "./config.js";
import { allowTool, misnamedTargets, toolIsAllowed } from "./configuration.js";
import { openInstance } from "./instance.js";
import { addressesOf } from "./gateway-methods.js";
import { faultOf, isOfGateway, problemOf } from "./listing.js";
import { loadLibrary } from "./native.js";
import { pinState } from "./pin.js";
import { REFUSALS, envFileName, newValue, repairFor, variablesOf } from "./repair.js";
import { hintFor } from "./report.js";
import { plaintextSecrets, resolveSecrets, secretPlaces, shortSecrets } from "./secrets.js";
import { checkSubagents } from "./subagent-commands.js";
import { line, withOwnCommand } from "./text.js";
/** @import {CallPlace} from "./repair.js" */
/** @import {Finding, ListedTarget, Settings} from "./types.d.ts" */
/** @import {Gateway} from "./ask-gateway.js" */

const PIN_REPAIR = "Look at the changes, and accept them with `--accept` if they are those of the agent's operator.";
const CLOCK_REPAIR = "Synchronize the clock of this machine, for example with `timedatectl set-ntp true`; if it is right, the agent's operator has to. Tokens with an expiry fail until then.";

/** @typedef {(check: string, severity: Finding["severity"], message: string, fixHint?: string, path?: string) => void} AddFinding */

/** How long the doctor waits until the gateway has applied an edit of the targets, and the pause between two looks. */
const APPLY_MS = 5000;
const LOOK_MS = 500;

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
export async function diagnose({ host, api = /** @type {any} */ ({}), env = process.env, load = loadLibrary, open = openInstance, ask = askGateway, resolve = resolveSecrets, applyMs = APPLY_MS, now = Date.now }) {
  /** @type {Finding[]} */
  const found = [];
  /** @type {AddFinding} */
  const add = (check, severity, message, fixHint, path) => void found.push({ check, severity, message: withOwnCommand(message.replace(/\.$/, "")), fixHint, path });
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
  checkSubagents(host, targets, add);
  for (const { path } of plaintextSecrets(config)) {
    const at = `${place}.${path}`;
    add("plaintext", "warning", `\`${at}\` is a secret in plain text`, `Run \`openclaw config set '${at}' --ref-provider default --ref-source env --ref-id NAME\`.`, at);
  }
  const { resolved, unresolved } = await resolve(config, { host, env, place });
  for (const path of shortSecrets(config, resolved)) {
    const at = `${place}.${path}`;
    add("short", "warning", `\`${at}\` has less than 6 bytes, and answers that repeat it show it`, "Use a longer secret.", at);
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
  const gateway = await runningGateway(add, (absent) => ask(undefined, absent), config, applyMs);
  const shell = () => open({ ...api, pluginConfig }, host);
  if (gateway) {
    if (checkGateway(add, gateway, { config, place, env })) await checkAgents(add, gateway, { config, inGateway: true, envFile: gateway.settings().envFile }, shell);
    else if (config.enabled === true) await explainMissingTool(add, shell, place);
    return found;
  }
  for (const { path, reason } of unresolved) {
    add("secret", "error", `\`${path}\` is a reference without a value: ${line(reason)}`, "Set the secret where the gateway runs, or correct the reference.", path);
  }
  try {
    const instance = await shell();
    try {
      await checkAgents(add, instance, { config, inGateway: false });
    } finally {
      instance.close();
    }
  } catch (error) {
    add("settings", "error", line(error.message), "Correct the value.", place);
  }
  return found;
}

/**
 * Returns the running gateway, once it has the targets of the settings. Reports if there is none, or none that answers.
 * @param {AddFinding} add
 * @param {(absent?: (reason: string) => void) => ReturnType<typeof askGateway>} ask
 * @param {Settings} config
 * @param {number} applyMs
 */
async function runningGateway(add, ask, config, applyMs) {
  try {
    let reason = "no gateway is running";
    let gateway = await ask((why) => void (reason = why));
    for (const start = Date.now(); gateway && !hasTargets(gateway, config) && Date.now() - start < applyMs; gateway = await ask()) await sleep(LOOK_MS);
    if (!gateway) add("running", "warning", `${reason}. This was checked with the environment and the secrets of this shell only`, "Run this again when the gateway runs; `openclaw gateway run` starts one.");
    return gateway;
  } catch (error) {
    if (!(error instanceof GatewayRefusal)) throw error;
    add("running", "error", `${error.message}. This was checked with the environment and the secrets of this shell only`);
    return undefined;
  }
}

/**
 * Checks the settings and the credentials of the running gateway. Returns whether it has the tool.
 * @param {AddFinding} add
 * @param {Gateway} gateway
 * @param {{ config: Settings, place: string, env: Record<string, string | undefined> }} own
 */
function checkGateway(add, gateway, { config, place, env }) {
  const { isReady, unresolved, envFile } = gateway.settings();
  for (const { path, variable } of unresolved) {
    const at = `${place}.${path}`;
    const lacks = `the gateway does not have ${line(variable)} for \`${at}\``;
    if (!variable) add("secret", "error", `the gateway has no value for \`${at}\``, "Correct the reference, then run `openclaw secrets reload`.", at);
    else if (names(envFile, variable)) add("secret", "error", `${lacks}; ${line(envFile)} has it`, "Restart the gateway: `openclaw gateway restart`.", at);
    else add("secret", "error", `${lacks}${env[variable] === undefined ? "" : ", and this shell does"}`, `Add it to ${envFileName(envFile)} and restart the gateway (\`openclaw gateway restart\`).`, at);
  }
  if (!hasTargets(gateway, config)) add("running", "warning", "the gateway has not applied the targets of the settings yet", "Run this again; if it stays so, run `openclaw gateway restart`.", `${place}.targets`);
  return isReady;
}

/**
 * Reports why the running gateway does not have the tool: the library refuses the settings here too, or else the cause is the gateway's own.
 * @param {AddFinding} add
 * @param {() => Promise<{ close(): void }>} shell opens an instance with the environment of this shell
 * @param {string} place
 */
async function explainMissingTool(add, shell, place) {
  try {
    (await shell()).close();
  } catch (error) {
    return add("settings", "error", line(error.message), "Correct the value.", place);
  }
  add("running", "error", "the gateway has the plugin, but not the tool, although the settings are valid", "The gateway's log names the cause; `openclaw logs` shows it.", place);
}

const hasTargets = (/** @type {Gateway} */ gateway, /** @type {Settings} */ config) => JSON.stringify(gateway.settings().targets) === JSON.stringify(addressesOf(config));

/** Returns whether a file of environment variables has this one. */
function names(file, variable) {
  try {
    return readFileSync(file, "utf8").split("\n").some((text) => text.replace(/^\s*(export\s+)?/, "").split("=")[0].trim() === variable);
  } catch {
    // The gateway may be on another machine.
    return false;
  }
}

/**
 * Lists the agents, and checks each of them.
 * @param {AddFinding} add
 * @param {Pick<Gateway, "run">} where
 * @param {CallPlace} place
 * @param {() => Promise<Pick<Gateway, "run" | "close">>} [shell] opens an instance with the environment of this shell
 */
async function checkAgents(add, where, place, shell) {
  const list = (/** @type {Pick<Gateway, "run">} */ { run }) => run({ action: "list_targets" }, null, { list_tasks: true });
  const { ok, error, summary } = await list(where);
  if (!ok) return add("cards", "error", line(error?.message), hintFor(error?.reason, error?.details));
  if (summary.budget_error) add("budget", "error", line(summary.budget_error), "Do what the message says; no message goes to a target with a budget until then.");
  const fault = faultOf(summary.gateway);
  if (fault) add("gateway", "error", fault, "Check that it runs, and `gateway.url` and `gateway.token` of the settings.");
  const all = summary.targets ?? [];
  const isRefused = (/** @type {ListedTarget} */ target) => REFUSALS.has(problemOf(target)?.reason ?? "") && variablesIn(place.config, target).length > 0;
  const here = shell && all.some(isRefused) ? await listedHere(shell, list) : [];
  for (const target of all) {
    if (fault && isOfGateway(target)) continue;
    // The finding about the credential says it all.
    if (place.inGateway && problemOf(target)?.reason === "credential_unresolved") continue;
    const same = isRefused(target) ? here.find(({ target_alias: alias }) => alias === target.target_alias) : undefined;
    checkAgent(add, target, place, same);
  }
}

/** Returns the environment variables of a listed target. */
const variablesIn = (/** @type {Settings} */ config, /** @type {ListedTarget} */ { target_alias: alias }) => variablesOf(targetsIn(config).find((one) => one.alias === alias));

/** Lists the agents with the environment of this shell. */
async function listedHere(shell, list) {
  const instance = await shell();
  try {
    return (await list(instance)).summary?.targets ?? [];
  } finally {
    instance.close();
  }
}

/**
 * @param {AddFinding} add
 * @param {ListedTarget} target
 * @param {CallPlace} place
 * @param {ListedTarget} [here] the target, as this shell sees it
 */
function checkAgent(add, target, place, here) {
  const { target_alias: alias, target_url: url, allowed_agents: agents, clock_skew_seconds: skew } = target;
  const who = `\`${line(alias)}\` at ${line(url)}`;
  const error = problemOf(target);
  const only = agents ? ` (only for: ${agents.map(line).join(", ")})` : "";
  if (error && here && !problemOf(here)) {
    const [variable] = variablesIn(place.config, target);
    add("call", "error", `${who} refuses ${line(variable)} of the gateway, and accepts that of this shell: the gateway has another value`, newValue(place.envFile));
  } else if (error) {
    const both = here && REFUSALS.has(problemOf(here)?.reason ?? "") ? ", also with the token of this shell" : "";
    add(target.last_refresh_error ? "card" : "call", "error", `${who}: ${line(error.message).replace(/\.$/, "")}${both}`, repairFor(error, alias, place) ?? "Check the address.");
  } else if (target.status === "offline") {
    add("card", "warning", `${who} is offline`, "Start the agent and connect it to the gateway.");
  } else {
    const isGiven = targetsIn(place.config).some((one) => one.alias === alias && one.card !== undefined);
    add("card", "info", `${who} answers${isGiven ? ", and its card is in the settings" : ""}${only}`);
  }
  const [pinned, hasChanged] = pinState(target) ?? [];
  if (pinned) add("pin", hasChanged ? "warning" : "info", `${who}: ${pinned}`, hasChanged ? PIN_REPAIR : undefined);
  if (target.card_url) {
    add("card", "info", `${who}: card found at ${line(target.card_url)}, not under its address; check the path, if another agent was meant`);
  }
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
