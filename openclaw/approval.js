// Approval of sends, per target: OpenClaw requests an operator's decision before the tool runs.
import { readFileSync } from "node:fs";
import { join } from "node:path";

import { argumentCleaner } from "./arguments.js";
import { sameUrl, targetsIn } from "./config.js";
import { replaceFile } from "./state-files.js";
import { line } from "./text.js";
/** @import {CallRequest, Route, Schema, Settings, Target} from "./types.d.ts" */
/** @import {DelegatedTasks} from "./tasks.js" */

/** The modes of `targets[].approval`, the strictest last. */
const MODES = ["auto", "first", "always", "deny"];
/** @type {("allow-once" | "allow-always" | "deny")[]} */
const DECISIONS = ["allow-once", "allow-always", "deny"];
/** The path of a card where no setting has another. */
const CARD_PATH = "/.well-known/agent-card.json";
const MAX_TITLE_CHARS = 80;
const MAX_DESCRIPTION_CHARS = 512;
const MAX_PREVIEW_CHARS = 300;
const MAX_ITEM_CHARS = 80;
/** The room for the targets of a message. */
const MAX_ADDRESSES_CHARS = 320;
const MAX_GRANTS = 1000;

/**
 * Approvals that operators granted permanently, stored in a file. An agent with a grant may send to a target at an origin
 * without another approval. Every lookup reads the file, so deleting the file revokes all grants.
 */
export class Grants {
  #path;

  constructor(stateDir) {
    this.#path = stateDir && join(stateDir, "remote-agent", "approvals.json");
  }

  has(key) {
    return this.#read().has(key);
  }

  add(key) {
    if (!this.#path) throw new Error("OpenClaw has no state directory");
    const known = this.#read().add(key);
    while (known.size > MAX_GRANTS) known.delete(known.values().next().value);
    replaceFile(this.#path, JSON.stringify([...known]));
  }

  #read() {
    try {
      const stored = JSON.parse(readFileSync(this.#path, "utf8"));
      if (Array.isArray(stored)) return new Set(stored.filter((key) => typeof key === "string"));
    } catch {
      // Without a readable file, the hook requests approval again.
    }
    return new Set();
  }
}

/**
 * Creates the hook that OpenClaw runs before each call of the tool. Returns undefined if no target of `config`, the settings
 * as the library parses them, needs approval, so that calls have no overhead. `tasks` maps handles and task ids to targets.
 * @param {Settings} config
 * @param {Schema} parameters
 * @param {{ grants: Grants, tasks?: DelegatedTasks, log?: (level: string, text: string) => void }} context
 */
export function approvalHook(config, parameters, { grants, tasks, log = () => {} }) {
  const targets = targetsIn(config);
  const routed = router(config, targets);
  if (!targets.some((target) => modeOf(target) !== "auto")) return undefined;
  const clean = argumentCleaner(parameters);
  const decide = (/** @type {{ params?: CallRequest }} */ { params }, /** @type {{ agentId?: string }} */ { agentId } = {}) => {
    // As the library receives it: without what a prototype adds.
    const request = clean(JSON.parse(JSON.stringify(params ?? {})));
    const each = singles(request).map((one) => ({ one, reached: candidates(one, targets, routed, tasks) }));
    if (!each.some(({ one, reached }) => carriesText(one, reached, tasks))) return undefined;
    const found = [...new Set(each.flatMap(({ reached }) => reached))];
    const grantKey = (target) => JSON.stringify([agentId ?? null, target.alias, originOf(target.baseUrl)]);
    const needed = (target) => modeOf(target) !== "auto" && !(modeOf(target) === "first" && grants.has(grantKey(target)));
    const strictest = found.filter(needed).reduce((/** @type {Target | undefined} */ best, target) => (rank(target) > rank(best) ? target : best), undefined);
    if (strictest === undefined) return undefined;
    if (modeOf(strictest) === "deny") return { block: true, blockReason: `The operator does not allow sending to ${line(strictest.alias)}. Choose another target, or do the work yourself.` };
    const aliases = found.map(({ alias }) => line(alias));
    // One question for all that a message goes to.
    const between = each.length > 1 ? ", " : " or ";
    const origins = [...new Set(found.map(({ baseUrl }) => originOf(baseUrl)))].join(between);
    const names = shortened(aliases.join(between));
    const title = found.length > 1 && aliases.join(between).length > MAX_TITLE_CHARS - "Send to ".length ? countOf(found, between) : names;
    const addresses = addressesOf(found, between);
    if (addresses === undefined) return { block: true, blockReason: `The question to the operator has no room for the names of all ${found.length} targets, so the message was not sent. Send it to fewer targets at a time, or name one.` };
    const message = `Agent ${shortened(line(agentId ?? "unknown"))} sends to ${addresses}`;
    const canLast = modeOf(strictest) === "first" && found.length === 1;
    return {
      requireApproval: {
        title: `Send to ${title}`.slice(0, MAX_TITLE_CHARS),
        description: message + preview(request, found, MAX_DESCRIPTION_CHARS - message.length),
        severity: /** @type {const} */ ("warning"),
        scope: { kind: /** @type {const} */ ("message-send"), target: origins, recipientCount: aliases.length, recipients: aliases, audience: /** @type {const} */ ("external") },
        allowedDecisions: DECISIONS.filter((decision) => canLast || decision !== "allow-always"),
        timeoutReason: `The message to ${names} was not sent: the question about it expired without a decision. Tell the user, and send it again when they can answer the question.`,
        onResolution(decision) {
          if (decision !== "allow-always" || !canLast) return;
          try {
            grants.add(grantKey(strictest));
          } catch (error) {
            log("warn", `cannot store the approval of ${names}: ${error.message}`);
          }
        },
      },
    };
  };
  return (/** @type {Parameters<typeof decide>} */ ...call) => {
    try {
      return decide(...call);
    } catch {
      // A request with fields of other types than those of the tool. OpenClaw might run the tool after an error of a hook.
      return { block: true, blockReason: "The request is not one of the tool, so it was not sent." };
    }
  };
}

/**
 * Returns the requests for one target each that a request stands for: one for each target of a group.
 * @param {CallRequest} request
 * @returns {CallRequest[]}
 */
function singles(request) {
  const { target_aliases: aliases, continuation } = request;
  if (aliases !== undefined) return aliases.map((alias) => ({ ...request, target_alias: alias }));
  const members = continuation?.group?.members;
  if (members === undefined) return [request];
  return members.map(({ target, task, conversation }) => ({ ...request, continuation: { target: target ?? {}, task, conversation } }));
}

function modeOf(target) {
  return MODES.includes(target?.approval) ? target.approval : "auto";
}

function rank(target) {
  return MODES.indexOf(modeOf(target));
}

/**
 * A target of a request. `route` is its place in the request if no target is configured there: all of it is the agent's text.
 * @typedef {Target & { route?: Route }} Candidate
 */

/**
 * Returns the targets that a request may reach.
 * @param {CallRequest} request
 * @param {Target[]} targets
 * @param {ReturnType<typeof router>} routed
 * @param {DelegatedTasks} [tasks]
 * @returns {Candidate[]}
 */
function candidates(request, targets, routed, tasks) {
  const { target_alias: alias, target_url: url, task_handle: handle, continuation } = request;
  const handles = given(handle, continuation?.task?.task_handle);
  const isNamed = given(alias, url, continuation).length > 0;
  /** @type {Candidate[]} */
  const found = [];
  if (alias !== undefined) found.push(...targets.filter((target) => target.alias === alias));
  else if (url !== undefined) found.push(...routed({ target_url: url }));
  if (continuation) found.push(...routed(continuation.target ?? {}));
  for (const handle of handles) {
    const target = tasks?.targetOf(handle);
    if (target) found.push(...routed(target));
    // The library refuses a handle of another target than the named one. An unknown handle without a target may reach any
    // target.
    else if (!isNamed) return targets;
  }
  if (isNamed || handles.length > 0) return [...new Set(found)];
  const defaults = targets.filter((target) => target.default === true);
  return defaults.length > 0 ? defaults : targets;
}

/**
 * Returns a function that finds the targets of a URL or a continuation by the rule of the library: the target at the URL with
 * the alias, or else those at the URL with the card path. The library calls any other place only if the policy allows it.
 * @param {Settings} config
 * @param {Target[]} targets
 * @returns {(route: Route) => Candidate[]}
 */
function router({ policy, defaults }, targets) {
  const isAt = policy?.normalizeBaseUrl === false ? (/** @type {string} */ base, /** @type {unknown} */ url) => base === url : sameUrl;
  const cardOf = (/** @type {Target} */ { cardUrl, cardPath }) => cardUrl ?? cardPath ?? defaults?.cardPath ?? CARD_PATH;
  return (route) => {
    const { target_url: url, target_alias: alias, card_path: path, preferred_transports: transports } = route;
    // Agents of a local gateway have no approval mode, and the library considers no other targets here.
    if (Array.isArray(transports) && transports.includes("GATEWAY")) return [];
    const there = targets.filter((target) => isAt(target.baseUrl, url));
    const named = there.filter((target) => target.alias === alias);
    if (named.length > 0) return named;
    const sameCard = there.filter((target) => path === undefined || path === cardOf(target));
    if (sameCard.length > 0) return sameCard;
    const isDenied = targets.some((target) => modeOf(target) === "deny" && addressOf(target.baseUrl) === addressOf(url));
    const name = line(url);
    return [{ alias: name, baseUrl: name, approval: isDenied ? "deny" : "always", route }];
  };
}

/**
 * Returns whether the request contains text of the agent. A task id counts as text, unless an earlier result from the same
 * URL contains it. So does the place of a target that is not configured, unless an earlier result contains it.
 * @param {CallRequest} request
 * @param {Candidate[]} found
 * @param {DelegatedTasks} [tasks]
 */
function carriesText(request, found, tasks) {
  if (request?.action === "list_targets") return false;
  if (request?.action === "send" || request?.service_parameters !== undefined) return true;
  if (found.some(({ route }) => route && !tasks?.hasRoute(route))) return true;
  const isSeen = (/** @type {string} */ id, /** @type {Candidate} */ { baseUrl }) => tasks?.urlsOf(id).some((url) => sameUrl(url, baseUrl));
  return taskIds(request).some((id) => !found.every((target) => isSeen(id, target)));
}

/** @param {CallRequest} request */
function taskIds({ task_id: id, continuation }) {
  return given(id, continuation?.task?.task_id);
}

/** @param {CallRequest} request */
function contextIds({ context_id: id, continuation }) {
  return given(id, continuation?.conversation?.context_id);
}

/**
 * Returns the origin of a URL with one spelling for each host: without the final dot of a name, with the IPv4 address in an
 * IPv6 address (mapped, NAT64), and with one name for all addresses of this machine.
 */
function addressOf(url) {
  if (!URL.canParse(url)) return line(url);
  const { protocol, hostname, port } = new URL(url);
  return `${protocol}//${hostOf(hostname.replace(/\.$/, ""))}:${port}`;
}

function hostOf(name) {
  const [, high, low] = /^\[(?:::(?:ffff:)?|64:ff9b::)([0-9a-f]+):([0-9a-f]+)\]$/.exec(name) ?? [];
  if (low === undefined) return /^(.+\.)?localhost$|^127\.\d+\.\d+\.\d+$|^0\.0\.0\.0$|^\[::1?\]$/.test(name) ? "localhost" : name;
  const [a, b] = [parseInt(high, 16), parseInt(low, 16)];
  return hostOf([a >> 8, a & 255, b >> 8, b & 255].join("."));
}

function originOf(url) {
  return URL.canParse(url) ? new URL(url).origin : line(url);
}

/**
 * Returns the targets for the question: each with its origin, or, without the room for that, all of their names. Returns undefined
 * if the names have no room either, because none may be hidden.
 * @param {Candidate[]} found
 * @param {string} between
 */
function addressesOf(found, between) {
  // The name of a target that is not configured is a URL of the agent.
  const names = found.map(({ alias, route }) => (route || found.length === 1 ? shortened(line(alias)) : line(alias)));
  const origins = found.map(({ baseUrl }) => originOf(baseUrl));
  const [name, origin] = [names.join(between), [...new Set(origins)].join(between)];
  if (found.length === 1 || Math.max(name.length, origin.length) <= MAX_ITEM_CHARS) return `${name} at ${shortened(origin)}: `;
  const items = names.map((name, index) => `[to ${name} at ${shortened(origins[index])}] `);
  const count = countOf(found, between);
  const forms = [`${count}: ${items.join("")}`, `${count}: ${name} at ${shortened(origin)}: `];
  return forms.find((form) => form.length <= MAX_ADDRESSES_CHARS);
}

const countOf = (/** @type {Candidate[]} */ { length }, /** @type {string} */ between) => (between === " or " ? `one of ${length} targets` : `${length} targets`);

/**
 * Returns a preview of the request: its files and fields, then the beginning of its message, with at most `room` characters
 * in total.
 */
function preview(request, found, room) {
  const parts = Array.isArray(request.parts) ? request.parts : [];
  const { action, message_id: messageId, push_notification_config: push } = request;
  const each = singles(request);
  const items = [
    ...(action === "send" ? [] : [action]),
    ...parts.filter((part) => part?.kind === "file").map(fileItem),
    ...given(push?.url).map((url) => `callback ${originOf(url)}`),
    ...given(request.service_parameters).map((value) => `service_parameters ${keysOf(value)}`),
    ...given(request.metadata, ...parts.map((part) => part?.metadata)).map((value) => `metadata ${keysOf(value)}`),
    ...found.flatMap(({ route }) => (route ? given(route.target_url, route.card_path) : [])).map((place) => `at ${line(place)}`),
    ...new Set(each.flatMap(taskIds).map((id) => `task ${id}`)),
    ...new Set(each.flatMap(contextIds).map((id) => `context ${id}`)),
    ...given(messageId).map((id) => `message ${id}`),
    ...given(request.reference_task_ids, request.accepted_output_modes).map((list) => JSON.stringify(list)),
  ].map((item) => `[${shortened(line(item))}]`);
  let shown = "";
  for (const [index, item] of items.entries()) {
    // The remaining characters are for the number of hidden items and the size of the message.
    if (shown.length + item.length > room - 80) {
      shown += `[and ${items.length - index} more] `;
      break;
    }
    shown += `${item} `;
  }
  const words = parts.filter((part) => part?.kind !== "file").map((part) => line(part?.kind === "data" ? JSON.stringify(part.data) : part?.text));
  const text = words.join(" ");
  const length = Math.max(0, Math.min(MAX_PREVIEW_CHARS, room - shown.length - 30));
  return (shown + (text.length > length ? `${text.slice(0, length)}… (${text.length - length} more characters)` : text)).trim();
}

function fileItem({ path, uri, bytes, name }) {
  const file = path ?? uri ?? `of ${String(bytes ?? "").length} characters in Base64`;
  return name === undefined || name === file ? `file ${file}` : `file ${file} as ${name}`;
}

function keysOf(value) {
  return `${Object.keys(value).join(", ")} (${JSON.stringify(value).length} characters)`;
}

function given(...values) {
  return values.filter((value) => value !== undefined && value !== null);
}

/** Shortens a long text in the middle, because both ends of a path or a name are informative. */
function shortened(text) {
  const half = MAX_ITEM_CHARS / 2;
  return text.length > MAX_ITEM_CHARS ? `${text.slice(0, half)}…${text.slice(-half)}` : text;
}
