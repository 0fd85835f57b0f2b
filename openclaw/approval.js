// Approval of sends, per target: OpenClaw asks a person before the tool runs.
import { mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

import { argumentCleaner } from "./arguments.js";
import { line } from "./report.js";

/** The modes of `targets[].approval`, the strictest last. */
const MODES = ["auto", "first", "always", "deny"];
const MAX_TITLE_CHARS = 80;
const MAX_DESCRIPTION_CHARS = 512;
const MAX_PREVIEW_CHARS = 300;
const MAX_GRANTS = 1000;

/** The grants of people, in a file: an agent may send to a target at an origin without another question. */
export class Grants {
  #path;
  #known;

  constructor(stateDir) {
    this.#path = stateDir && join(stateDir, "remote-agent", "approvals.json");
  }

  has(key) {
    return this.#read().has(key);
  }

  add(key) {
    const known = this.#read().add(key);
    while (known.size > MAX_GRANTS) known.delete(known.values().next().value);
    if (!this.#path) return;
    mkdirSync(dirname(this.#path), { recursive: true, mode: 0o700 });
    const written = `${this.#path}.new`;
    writeFileSync(written, JSON.stringify([...known]), { mode: 0o600 });
    renameSync(written, this.#path);
  }

  #read() {
    if (this.#known) return this.#known;
    this.#known = new Set();
    try {
      const stored = JSON.parse(readFileSync(this.#path, "utf8"));
      if (Array.isArray(stored)) this.#known = new Set(stored.filter((key) => typeof key === "string"));
    } catch {
      // Without a readable file every question is asked again.
    }
    return this.#known;
  }
}

/**
 * The hook that OpenClaw runs before each call of the tool. Returns undefined when no target of `config` needs approval, so that
 * calls cost nothing. `tasks` knows the targets of handles.
 */
export function approvalHook(config, parameters, { grants, tasks, log = () => {} }) {
  const targets = Array.isArray(config.targets) ? config.targets : [];
  if (!targets.some((target) => modeOf(target) !== "auto")) return undefined;
  const clean = argumentCleaner(parameters);
  return ({ params }, { agentId } = {}) => {
    const request = clean(params ?? {});
    if (request?.action !== "send") return undefined;
    const target = strictest(candidates(request, targets, tasks));
    const mode = modeOf(target);
    if (mode === "auto") return undefined;
    const alias = line(target.alias);
    if (mode === "deny") return { block: true, blockReason: `The operator does not allow sending to ${alias}. Choose another target, or do the work yourself.` };
    const origin = originOf(target.baseUrl);
    const key = JSON.stringify([agentId ?? null, target.alias, origin]);
    if (mode === "first" && grants.has(key)) return undefined;
    const message = `Agent ${line(agentId ?? "unknown")} sends to ${alias} at ${origin}: ${preview(request.parts)}`;
    return {
      requireApproval: {
        title: `Send to ${alias}`.slice(0, MAX_TITLE_CHARS),
        description: message.slice(0, MAX_DESCRIPTION_CHARS),
        severity: "warning",
        scope: { kind: "message-send", target: origin, recipientCount: 1, recipients: [alias], audience: "external" },
        allowedDecisions: mode === "first" ? ["allow-once", "allow-always", "deny"] : ["allow-once", "deny"],
        onResolution(decision) {
          if (decision !== "allow-always") return;
          try {
            grants.add(key);
          } catch (error) {
            log("warn", `cannot store the approval of ${alias}: ${error.message}`);
          }
        },
      },
    };
  };
}

function modeOf(target) {
  return MODES.includes(target?.approval) ? target.approval : "auto";
}

/** The targets that a request may lead to. A handle of another process may lead to any. */
function candidates(request, targets, tasks) {
  const named = (alias) => targets.filter((target) => target.alias === alias);
  const at = (url) => targets.filter((target) => sameUrl(target.baseUrl, url));
  const { target_alias: alias, target_url: url, task_handle: handle, continuation } = request;
  const handles = [handle, continuation?.task?.task_handle].filter((handle) => handle !== undefined);
  const found = [
    ...(alias === undefined ? [] : named(alias)),
    ...(url === undefined ? [] : at(url)),
    ...named(continuation?.target?.target_alias),
    ...at(continuation?.target?.target_url),
    ...handles.flatMap((handle) => named(tasks?.targetOf(handle))),
  ];
  if (found.length > 0) return found;
  if (handles.length > 0 || continuation !== undefined) return targets;
  // Another spelling of a target's URL reaches that target, too.
  if (url !== undefined) return [{ alias: url, baseUrl: url, approval: "always" }];
  if (alias !== undefined) return [];
  const defaults = targets.filter((target) => target.default === true);
  return defaults.length > 0 ? defaults : targets;
}

function strictest(targets) {
  return targets.reduce((best, target) => (MODES.indexOf(modeOf(target)) > MODES.indexOf(modeOf(best)) ? target : best), undefined);
}

function originOf(url) {
  return URL.canParse(url) ? new URL(url).origin : line(url);
}

function sameUrl(one, other) {
  if (!URL.canParse(one) || !URL.canParse(other)) return false;
  return new URL(one).href.replace(/\/$/, "") === new URL(other).href.replace(/\/$/, "");
}

/** The first words of the message, and its files by name. */
function preview(parts) {
  const words = (Array.isArray(parts) ? parts : []).map((part) => {
    if (part?.kind === "text") return line(part.text);
    if (part?.kind === "file") return `[file ${line(part.name ?? part.path ?? part.uri ?? "")}]`;
    return `[${line(part?.kind)}]`;
  });
  const text = words.join(" ");
  return text.length > MAX_PREVIEW_CHARS ? `${text.slice(0, MAX_PREVIEW_CHARS)}…` : text;
}
