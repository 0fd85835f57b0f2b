// Approval of sends, per target: OpenClaw requests an operator's decision before the tool runs.
import { mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

import { argumentCleaner } from "./arguments.js";
import { line } from "./report.js";

/** The modes of `targets[].approval`, the strictest last. */
const MODES = ["auto", "first", "always", "deny"];
const MAX_TITLE_CHARS = 80;
const MAX_DESCRIPTION_CHARS = 512;
const MAX_PREVIEW_CHARS = 300;
const MAX_ITEM_CHARS = 80;
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
    mkdirSync(dirname(this.#path), { recursive: true, mode: 0o700 });
    const written = `${this.#path}.new`;
    writeFileSync(written, JSON.stringify([...known]), { mode: 0o600 });
    renameSync(written, this.#path);
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
 * Creates the hook that OpenClaw runs before each call of the tool. Returns undefined if no target of `config` needs
 * approval, so that calls have no overhead. `tasks` maps handles and task ids to targets.
 */
export function approvalHook(config, parameters, { grants, tasks, log = () => {} }) {
  const targets = Array.isArray(config.targets) ? config.targets : [];
  if (!targets.some((target) => modeOf(target) !== "auto")) return undefined;
  const clean = argumentCleaner(parameters);
  return ({ params }, { agentId } = {}) => {
    const request = clean(params ?? {});
    const found = candidates(request, targets, tasks);
    if (!carriesText(request, found, tasks)) return undefined;
    const grantKey = (target) => JSON.stringify([agentId ?? null, target.alias, originOf(target.baseUrl)]);
    const needed = (target) => modeOf(target) !== "auto" && !(modeOf(target) === "first" && grants.has(grantKey(target)));
    const strictest = found.filter(needed).reduce((best, target) => (rank(target) > rank(best) ? target : best), undefined);
    if (strictest === undefined) return undefined;
    if (modeOf(strictest) === "deny") return { block: true, blockReason: `The operator does not allow sending to ${line(strictest.alias)}. Choose another target, or do the work yourself.` };
    const aliases = found.map(({ alias }) => line(alias));
    const origins = [...new Set(found.map(({ baseUrl }) => originOf(baseUrl)))].join(" or ");
    const names = shortened(aliases.join(" or "));
    const message = `Agent ${shortened(line(agentId ?? "unknown"))} sends to ${names} at ${shortened(origins)}: `;
    const canLast = modeOf(strictest) === "first" && found.length === 1;
    return {
      requireApproval: {
        title: `Send to ${names}`.slice(0, MAX_TITLE_CHARS),
        description: message + preview(request, MAX_DESCRIPTION_CHARS - message.length),
        severity: "warning",
        scope: { kind: "message-send", target: origins, recipientCount: aliases.length, recipients: aliases, audience: "external" },
        allowedDecisions: canLast ? ["allow-once", "allow-always", "deny"] : ["allow-once", "deny"],
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
}

function modeOf(target) {
  return MODES.includes(target?.approval) ? target.approval : "auto";
}

function rank(target) {
  return MODES.indexOf(modeOf(target));
}

/** Returns the targets that a request may reach. */
function candidates(request, targets, tasks) {
  const { target_alias: alias, target_url: url, task_handle: handle, continuation } = request;
  const handles = given(handle, continuation?.task?.task_handle);
  const isNamed = given(alias, url, continuation).length > 0;
  const found = [];
  if (alias !== undefined) found.push(...targets.filter((target) => target.alias === alias));
  else if (url !== undefined) found.push(...routed({ target_url: url }, targets));
  if (continuation) found.push(...routed(continuation.target ?? {}, targets));
  for (const handle of handles) {
    const target = tasks?.targetOf(handle);
    if (target) found.push(...routed(target, targets));
    // The library refuses a handle of another target than the named one. An unknown handle without a target may reach any
    // target.
    else if (!isNamed) return targets;
  }
  if (isNamed || handles.length > 0) return [...new Set(found)];
  const defaults = targets.filter((target) => target.default === true);
  return defaults.length > 0 ? defaults : targets;
}

/**
 * Returns the targets of a continuation by the rule of the library: by URL, and by alias if several targets share the URL.
 */
function routed({ target_url: url, target_alias: alias, preferred_transports: transports }, targets) {
  // Agents of a local gateway have no approval mode, and the library considers no other targets here.
  if (Array.isArray(transports) && transports.includes("GATEWAY")) return [];
  const there = targets.filter((target) => sameUrl(target.baseUrl, url));
  const named = there.filter((target) => target.alias === alias);
  if (there.length > 0) return named.length > 0 ? named : there;
  const isDenied = targets.some((target) => modeOf(target) === "deny" && originOf(target.baseUrl) === originOf(url));
  return [{ alias: url, baseUrl: url, approval: isDenied ? "deny" : "always" }];
}

/**
 * Returns whether the request contains text of the agent. A task id counts as text, unless an earlier result from the same
 * URL contains it.
 */
function carriesText(request, found, tasks) {
  if (request?.action === "list_targets") return false;
  if (request?.action === "send" || request?.service_parameters !== undefined) return true;
  const isSeen = (id, { baseUrl }) => tasks?.urlsOf(id).some((url) => sameUrl(url, baseUrl));
  return taskIds(request).some((id) => !found.every((target) => isSeen(id, target)));
}

function taskIds({ task_id: id, continuation }) {
  return given(id, continuation?.task?.task_id);
}

function originOf(url) {
  return URL.canParse(url) ? new URL(url).origin : line(url);
}

/** Returns whether both URLs are the same target. Like the library, ignores the query and trailing slashes. */
function sameUrl(one, other) {
  if (!URL.canParse(one) || !URL.canParse(other)) return false;
  const [a, b] = [new URL(one), new URL(other)];
  return a.origin === b.origin && a.pathname.replace(/\/+$/, "") === b.pathname.replace(/\/+$/, "");
}

/**
 * Returns a preview of the request: its files and fields, then the beginning of its message, with at most `room` characters
 * in total.
 */
function preview(request, room) {
  const parts = Array.isArray(request.parts) ? request.parts : [];
  const { action, message_id: messageId, context_id: contextId, continuation, push_notification_config: push } = request;
  const items = [
    ...(action === "send" ? [] : [action]),
    ...parts.filter((part) => part?.kind === "file").map(fileItem),
    ...given(push?.url).map((url) => `callback ${originOf(url)}`),
    ...given(request.service_parameters).map((value) => `service_parameters ${keysOf(value)}`),
    ...given(request.metadata, ...parts.map((part) => part?.metadata)).map((value) => `metadata ${keysOf(value)}`),
    ...taskIds(request).map((id) => `task ${id}`),
    ...given(contextId, continuation?.conversation?.context_id).map((id) => `context ${id}`),
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
