// The commands that change the configured agents: `add`, `remove` and `migrate`.
import { existsSync } from "node:fs";
import { isDeepStrictEqual } from "node:util";

import { askGateway, callGateway, noGateway } from "./ask-gateway.js";
import { CommandError, edit, positive } from "./command-support.js";
import { LEGACY_ID, settings, targetsIn } from "./config.js";
import { aliasFor, isSameAgent, merged, migrateSettings, putTarget, removeAll, removeTarget, targetIn, toolIsAllowed } from "./configuration.js";
import { CREDENTIAL_OPTIONS, REPEATABLE, credentialsIn, fieldOf, nameOf } from "./credential-options.js";
import { findTarget } from "./find-agents.js";
import { openInstance } from "./instance.js";
import { ANSWER_REASONS } from "./listing.js";
import { reviewNew } from "./pin.js";
import { missingVariable, newValue, repairFor, variablesOf } from "./repair.js";
import { OK, TIMEOUT, USAGE, exitOf, printError } from "./report.js";
import { isLoopback } from "./security-audit.js";
import { line, note, print, word } from "./text.js";
/** @import {Api, CallRequest, Caller, Envelope, EnvelopeError, HostConfig, OAuthFlow, Target} from "./types.d.ts" */

/** @typedef {{ api: Api, host: HostConfig, options: Record<string, any>, args: string[] }} Context */
/** @typedef {{ run(request: CallRequest, onUpdate?: null, more?: Caller): Promise<Envelope> }} Runner */

/**
 * Changes OpenClaw's configuration file, which may become much smaller. Without the option OpenClaw refuses a change that
 * halves the file.
 * @param {(draft: any) => void} mutate
 */
async function shrink(mutate) {
  const { mutateConfigFile } = await import("openclaw/plugin-sdk/config-mutation");
  return await mutateConfigFile({ afterWrite: { mode: "auto" }, writeOptions: { allowConfigSizeDrop: true, skipOutputLogs: true }, mutate });
}

/** The library, the file and the gateway that the commands use; the tests have others. */
const SURROUNDINGS = { open: openInstance, shrink, ask: askGateway, call: callGateway };

const POLL_MS = 250;
const APPLY_SECONDS = 30;
const CHECK_TIMEOUT_MS = 10_000;

/** The id of a task that no agent has. */
const CHECK_TASK = "openclaw-remote-agent-check";

/** The error reasons of a server without an agent card. */
const NO_AGENT = new Set(["card_malformed", "card_unavailable"]);

const MISSING_CREDENTIAL =
  "The agent requires a credential. Give `--bearer-env VAR`, `--api-key-env NAME=VAR`, `--basic-env USER=VAR`, `--oauth2-env ID=VAR` or `--header-env NAME=VAR`; VAR is an environment variable.";

const ADD_OPTIONS = [
  ["--alias <alias>", "The alias of the agent; by default from the host"],
  ...CREDENTIAL_OPTIONS,
  ["--endpoint <url>", "Call the agent at this URL, in place of the one in its card"],
  ["--description <text>", "The purpose of the agent"],
  ["--default", "Use it for requests without a target"],
  ["--answers <who>", "Who answers its questions: model, person or person-then-model"],
  ["--allow-private", "Allow an address that is not public"],
];

/** The options that find the agent. */
const FIND_OPTIONS = [
  ["--search <text>", "Ask the registry of --registry for agents that fit this text"],
  ["--registry <url>", "The search endpoint (ARD) for --search"],
  ["--pick <agent>", "Add the listed agent with this number, name or identifier"],
  ["--yes", "Accept a card that is part of a catalog, or a credential for an agent at another origin than the place: only the catalog vouches for the address"],
];

/** Registers the commands. `command(words, description, run)` creates one. */
export function registerTargetCommands(command) {
  let added = command("add [place]", "Add an agent, or change the one at this address: check it, configure it and allow the tool. The place is a domain, a URL or a file with a card", (context, place) => add(context, place));
  for (const [flags, description] of [...ADD_OPTIONS, ...FIND_OPTIONS]) {
    const collect = (value, before = []) => [...before, value];
    added = REPEATABLE.has(nameOf(flags)) ? added.option(flags, description, collect) : added.option(flags, description);
  }
  added.option("--force", "Add it although a check fails").option("--wait [seconds]", `How long to wait until the running gateway has applied the change (default: ${APPLY_SECONDS})`);
  command("remove [alias]", "Remove an agent", (context, alias) => remove(context, alias)).option("--all", "Remove every agent, and the tool from the policy");
  command("migrate", `Move the settings of ${LEGACY_ID} to this plugin`, (context) => migrate(context));
}

// ---- add ----------------------------------------------------------------------------------------------------------------

/**
 * @param {Context} context
 * @param {string | undefined} given
 */
export async function add({ api, host, options }, given, surroundings = SURROUNDINGS) {
  const seconds = typeof options.wait === "string" ? positive(options.wait, "--wait") : APPLY_SECONDS;
  const found = await findTarget({ api, host, options, args: [] }, given, surroundings);
  if (!found) return USAGE;
  const url = found.baseUrl;
  const named = given?.startsWith(`${url}/`) ? url : given;
  const { config, place } = settings({ pluginConfig: api.pluginConfig, config: host });
  const known = targetsIn(config);
  const before = knownTarget(known, url, options);
  const isFromCatalog = (found.card || found.cardUrl) && found.cardUrl !== given && !(given && existsSync(given));
  if (before && isFromCatalog && !options.yes && (before.auth || before.headers)) {
    throw new CommandError(`\`${line(before.alias)}\` is at this address already, and its credential would go where the catalog says; accept that with \`--yes\`. Nothing was changed`);
  }
  // The card of an agent on this machine changes with the work of its developer, and one in the settings is the person's.
  const pinned = isLoopback(url) || found.card !== undefined ? {} : { pins: /** @type {const} */ ("enforce") };
  const target = changed(before ?? { alias: options.alias ?? aliasFor(url, known.map(({ alias }) => alias)), baseUrl: url, ...pinned }, found, options);
  if (named !== given) note(`\`${line(given)}\` is the address of a card; the agent is at ${line(url)}`);
  const isChanged = !isDeepStrictEqual(target, before);
  if (before) note(`${line(url)} is already \`${line(before.alias)}\`${isChanged ? "; this changes it" : ""}`);
  for (const { alias } of known.filter((other) => other.alias !== target.alias && isSameAgent(other.baseUrl, url))) note(`\`${line(alias)}\` is at the same address; \`openclaw remote-agent remove ${word(alias)}\` removes it`);

  const pins = before ? undefined : await reviewNew({ api, host }, target, surroundings);
  const { name, problem, flows } = await checkHere({ api, host }, target, surroundings);
  for (const flow of flows ?? []) proposeFlow(flow);
  if (problem) {
    printProblem(problem, target);
    if (!options.force) {
      if (NO_AGENT.has(problem.reason ?? "")) note(`nothing was changed; there is no agent at ${line(url)}: give the address before \`/.well-known/agent-card.json\`, the domain of the agent, or a file with its card`);
      else note(`nothing was changed; \`openclaw remote-agent add${named ? ` ${word(named)}` : ""}${givenOptions(options)} --force\` adds the agent all the same`);
      pins?.close();
      return exitOf(problem.reason);
    }
  }
  // Before the settings are written: a running gateway calls the agent at once.
  const refusal = problem ? undefined : await pins?.accept();
  pins?.close();
  if (refusal && !options.force) throw new CommandError(`cannot accept the agent card: ${refusal}. Nothing was added`, exitOf());
  if (refusal) note(`warn: the agent card is not accepted: ${refusal}`);

  const isInherited = place.includes(LEGACY_ID);
  const isUnchanged = !isChanged && config.enabled === true && toolIsAllowed(host) && !isInherited;
  const change = !before ? "added" : isUnchanged ? "unchanged" : "changed";
  // Without the settings of the target, which contain resolved secrets.
  const shown = { alias: target.alias, baseUrl: target.baseUrl, default: target.default === true };
  const printChange = (/** @type {string | undefined} */ found) => options.json && print(JSON.stringify({ target: shown, name: name ?? null, change, ...(found && { problem: found }) }));
  const gateway = await runningGateway(surroundings);
  if (!isUnchanged) {
    /** @type {string[] | undefined} */
    let moved;
    const written = await edit(api, (draft) => {
      if (isInherited) moved = migrateSettings(draft);
      // The file may have `${VARIABLE}` where the settings have its value.
      const inFile = before && targetIn(draft, target.alias);
      putTarget(draft, inFile ? changed(inFile, found, options) : before ? changed({ alias: target.alias, baseUrl: target.baseUrl }, found, options) : target);
    });
    if (moved) note(movedText(moved));
    if (moved) noteKeptEntry(written);
    try {
      if (gateway.generation !== undefined) await applied(gateway.generation, seconds, surroundings);
    } catch (error) {
      printChange("timeout");
      throw error;
    }
  }
  const outcome = await checkThere({ api, host }, target, gateway, problem, surroundings);
  if (options.json) printChange(outcome);
  else print(`${change} \`${line(target.alias)}\`: ${line(name ?? "an agent that does not answer now")} at ${line(url)}`);
  if (outcome) return exitOf(outcome);
  if (!options.json) note(`next: openclaw remote-agent send --target ${word(target.alias)} 'Hello'`);
  return OK;
}

/**
 * Returns the target that `add` changes: the one of `--alias`, else the default or first one at this address.
 * @param {Target[]} known
 * @param {string} url
 * @param {Record<string, any>} options
 */
function knownTarget(known, url, { alias, force }) {
  const here = known.filter(({ baseUrl }) => isSameAgent(baseUrl, url));
  if (!alias) return here.find((target) => target.default === true) ?? here[0];
  const named = known.find((target) => target.alias === alias);
  if (named && !here.includes(named)) throw new CommandError(`cannot add \`${line(alias)}\`: it is the agent at ${line(named.baseUrl)}. Name another alias, or first run \`openclaw remote-agent remove ${word(alias)}\``);
  if (!named && here.length > 0 && !force) throw new CommandError(`${line(url)} is already \`${line(here[0].alias)}\`; without \`--alias\` this command changes it, with \`--force\` it adds a second target at this address`);
  return named;
}

/**
 * Returns a copy of the target with the place of its card, and the settings of the options. Others remain.
 * @param {Target} target
 * @param {{ cardUrl?: string, card?: unknown }} found
 * @param {Record<string, any>} options
 * @returns {Target}
 */
function changed(target, { cardUrl, card }, options) {
  const { auth, headers, tls } = credentialsIn(options);
  // The card is in one place.
  const { cardUrl: _url, cardPath: _path, card: _card, ...rest } = target;
  return {
    ...(cardUrl || card ? { ...rest, ...(cardUrl && { cardUrl }), ...(card !== undefined && { card }) } : target),
    ...(options.endpoint && { endpoint: options.endpoint }),
    ...(options.description && { description: options.description }),
    ...(options.default && { default: true }),
    ...(options.answers && { answers: options.answers }),
    ...(options.allowPrivate && { allowPrivateNetwork: true }),
    ...(auth && { auth }),
    ...(headers && { headers: { ...(target.headers ?? {}), ...headers } }),
    ...(tls && { tls }),
  };
}

/** Returns the given options as the words of a command, each with a leading space. */
function givenOptions(options) {
  const words = [...ADD_OPTIONS, ...FIND_OPTIONS].flatMap(([flags]) => {
    const value = options[fieldOf(flags)];
    if (value === undefined || value === false) return [];
    return value === true ? [nameOf(flags)] : [value].flat().flatMap((one) => [nameOf(flags), word(one)]);
  });
  return words.map((text) => ` ${text}`).join("");
}

// ---- checks -------------------------------------------------------------------------------------------------------------

/**
 * Checks a target in this process: with the environment of this shell.
 * @param {Pick<Context, "api" | "host">} context
 * @param {Target} target
 * @param {Pick<typeof SURROUNDINGS, "open">} surroundings
 */
async function checkHere({ api, host }, target, { open }) {
  // What the agent shows now is not accepted before it is added.
  const only = { ...target, allowedAgents: undefined, pins: /** @type {const} */ ("off") };
  const instance = await open(api, host, ({ gateway, audit, ...config }) => ({ ...config, enabled: true, targets: [only] }));
  try {
    return await check(instance, only);
  } finally {
    instance.close();
  }
}

/**
 * Reads the card of a target, and requests a task that does not exist: this uses the address, the transport and the
 * credential of a message, and changes nothing at the agent.
 * @param {Runner} runner
 * @param {Target} target
 * @returns {Promise<{ name?: string, problem?: EnvelopeError, flows?: OAuthFlow[] }>}
 */
async function check(runner, { alias, allowedAgents }) {
  const caller = allowedAgents?.length ? { agent_id: allowedAgents[0] } : {};
  const listing = await runner.run({ action: "list_targets" }, null, caller);
  const seen = listing.summary?.targets?.find((target) => target.target_alias === alias);
  const name = seen?.target_name;
  const flows = seen?.oauth_flows;
  const problem = listing.ok ? seen?.last_refresh_error : listing.error;
  if (problem) return { name, problem, flows };
  const status = await runner.run({ action: "status", target_alias: alias, task_id: CHECK_TASK, timeout_ms: CHECK_TIMEOUT_MS }, null, caller);
  return status.ok || ANSWER_REASONS.has(status.error.reason ?? "") ? { name, flows } : { name, problem: status.error, flows };
}

/** The grants of the flows of a card. Others are outdated. */
const GRANTS = { authorizationCode: "authorization_code", clientCredentials: "client_credentials", deviceCode: "device_code" };

/**
 * Shows a flow of the card, and the setting for it. The plugin takes no address from a card: a person checks them.
 * @param {OAuthFlow} flow
 */
function proposeFlow({ name, authorization_url, device_authorization_url, token_url, scopes }) {
  const grant = GRANTS[name];
  if (!grant) return;
  const addresses = {
    ...(grant === "authorization_code" && { authorizationUrl: authorization_url }),
    ...(grant === "device_code" && { deviceAuthorizationUrl: device_authorization_url }),
    tokenUrl: token_url,
  };
  const auth = { type: "oauth2", grant, ...addresses, clientId: "YOUR_CLIENT_ID", scopes };
  note(`the card proposes OAuth 2 (${grant}). Check who runs these addresses before you set \`auth\` of the target: ${line(JSON.stringify(auth))}`);
}

/**
 * Checks a target in the running gateway, where agents run. Returns the reason of a problem, and prints it. Without a
 * gateway, `here` is the outcome: the problem in this shell.
 * @param {Pick<Context, "api" | "host">} context
 * @param {Target} target
 * @param {Awaited<ReturnType<typeof runningGateway>>} running
 * @param {EnvelopeError | undefined} here
 * @param {Pick<typeof SURROUNDINGS, "ask">} surroundings
 */
async function checkThere({ api, host }, target, running, here, { ask }) {
  let gateway;
  try {
    gateway = running.generation === undefined ? undefined : await ask();
  } catch (error) {
    note(`error: the settings are written; ${line(error.message)}`);
    return "error";
  }
  if (!gateway) {
    note(`${running.absent ?? "no gateway is running"}. This was checked with the environment of this shell only`);
    return here && (here.reason ?? "error");
  }
  const { unresolved, envFile } = gateway.settings();
  const missing = unresolved.filter(({ alias }) => alias === target.alias);
  for (const { path, variable } of missing) {
    note(`error: agents cannot call \`${line(target.alias)}\`: the gateway has no value for \`${line(path)}\``);
    if (variable) note(`what to do: ${missingVariable(variable, { inGateway: true, envFile })}`);
  }
  if (missing.length > 0) return "credential_unresolved";
  const { problem } = await check(gateway, target);
  if (!problem) return void note("the running gateway has the agent");
  note(`${here ? "the check failed in this shell" : "the check succeeded in this shell"}; in the gateway, where agents run:`);
  printProblem(problem, target, envFile);
  const [variable] = variablesOf(target);
  if (!here && problem.reason === "auth_required" && variable) note(newValue(envFile));
  return problem.reason ?? "error";
}

/**
 * Prints a problem of a check in this shell, or with `envFile` in the gateway.
 * @param {EnvelopeError} problem
 * @param {Target} target
 * @param {string} [envFile]
 */
function printProblem(problem, target, envFile) {
  const hasCredential = target.auth ?? Object.keys(target.headers ?? {}).length > 0;
  const place = { config: { targets: [target] }, inGateway: envFile !== undefined, envFile };
  const hint = problem.reason === "auth_required" && !hasCredential ? MISSING_CREDENTIAL : repairFor(problem, target.alias, place);
  printError(problem, hint);
}

// ---- the running gateway ------------------------------------------------------------------------------------------------

/**
 * Returns the generation of the plugins in the running gateway, or why there is no gateway.
 * @param {Pick<typeof SURROUNDINGS, "call">} surroundings
 * @returns {Promise<{ generation?: number, absent?: string }>}
 */
async function runningGateway({ call }) {
  const { answer, error, unreachable } = await call("plugins.list");
  if (unreachable) return { absent: noGateway(unreachable) };
  return answer ? { generation: answer.generation } : { absent: `the running gateway refuses this command: ${line(error)}` };
}

/**
 * Waits until the running gateway has another generation of plugins than `generation`. It asks OpenClaw itself: a request to
 * the plugin would meet an instance that is about to close.
 * @param {number} generation
 * @param {number} seconds
 * @param {Pick<typeof SURROUNDINGS, "call">} surroundings
 */
async function applied(generation, seconds, { call }) {
  const deadline = Date.now() + seconds * 1000;
  for (let hasStopped = false; ; ) {
    const { answer, error, unreachable } = await call("plugins.list");
    // A gateway that restarts counts from the start.
    if (answer && (hasStopped || answer.generation !== generation)) return;
    hasStopped ||= unreachable !== undefined;
    if (Date.now() > deadline) {
      const why = error ?? (unreachable && "it stopped");
      throw new CommandError(`the settings are written, and the running gateway has not applied them after ${seconds} s${why ? `: ${line(why)}` : ""}; run \`openclaw gateway restart\``, TIMEOUT);
    }
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

// ---- remove, migrate ----------------------------------------------------------------------------------------------------

/**
 * @param {Context} context
 * @param {string} [alias]
 */
export async function remove({ api, host, options }, alias, { shrink } = SURROUNDINGS) {
  if (!alias && !options.all) throw new CommandError("remove needs an alias, or `--all`; `openclaw remote-agent targets` lists the agents");
  const { place } = settings({ pluginConfig: api.pluginConfig, config: host });
  /** @type {string[] | undefined} */
  let moved;
  const change = (draft) => {
    if (options.all) return removeAll(draft);
    if (place.includes(LEGACY_ID)) moved = migrateSettings(draft);
    removeTarget(draft, alias);
  };
  const written = await shrink(change);
  if (moved) note(movedText(moved));
  if (moved) noteKeptEntry(written);
  if (options.json) print(JSON.stringify({ removed: alias ?? null }));
  else print(alias && !options.all ? `removed \`${line(alias)}\`` : "removed every agent, and the tool from the policy");
  return OK;
}

/** @param {Context} context */
export async function migrate({ api, host, options }, { open, shrink } = SURROUNDINGS) {
  const legacy = host.plugins?.entries?.[LEGACY_ID]?.config;
  if (!legacy) {
    if (options.json) print(JSON.stringify({ migrated: [] }));
    else print(`nothing to migrate: there are no settings of \`${LEGACY_ID}\``);
    return OK;
  }
  // The library reads the settings before anything changes.
  const instance = await open(api, host, () => merged(structuredClone(api.pluginConfig ?? {}), structuredClone(legacy)));
  instance.close();
  /** @type {string[] | undefined} */
  let moved;
  const written = await shrink((draft) => void (moved = migrateSettings(draft)));
  if (options.json) print(JSON.stringify({ migrated: moved ?? [] }));
  else print(movedText(moved ?? []));
  if (!noteKeptEntry(written) && !options.json) note(`next: openclaw plugins uninstall ${LEGACY_ID} --force, if it is installed`);
  return OK;
}

const movedText = (/** @type {string[]} */ aliases) => `the settings of \`${LEGACY_ID}\` are now those of \`remote-agent\`${aliases.length > 0 ? `, with ${aliases.map((alias) => `\`${line(alias)}\``).join(", ")}` : ""}`;

/**
 * Says how to remove the predecessor's entry if OpenClaw has kept it: it keeps the settings of a plugin that it expects to
 * upgrade them, and such a plugin has to be installed.
 * @param {any} written
 */
function noteKeptEntry(written) {
  const isKept = written?.persistedSourceConfig?.plugins?.entries?.[LEGACY_ID]?.config !== undefined;
  if (isKept) note(`OpenClaw keeps the entry \`${LEGACY_ID}\`, and warns of it, because that plugin is not installed. To end this, install it again, stop the gateway, run \`openclaw doctor --fix\`, then \`openclaw plugins uninstall ${LEGACY_ID} --force\``);
  return isKept;
}
