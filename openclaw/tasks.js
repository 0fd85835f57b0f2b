// The tasks that calls of the gateway delegated, from their latest results. They outlive the instance that ran the call: an edit
// of the settings starts another one. A gateway stores them, so that its successor can show them.
import { join } from "node:path";

import { readSmall, replaceFile } from "./state-files.js";
import { usageOf } from "./usage.js";
/** @import {CallRequest, Continuation, Envelope, Route, Summary, Usage} from "./types.d.ts" */

/** The states of a task that waits for its caller, of one that failed, and of one that is over. */
export const INTERRUPTED_STATES = ["input-required", "auth-required"];
export const FAILED_STATES = ["failed", "rejected"];
export const TERMINAL_STATES = ["completed", "canceled", ...FAILED_STATES];

/** The maximum number of tasks whose handles stay valid, and of those that are listed and stored. */
const MAX_TASKS = 1000;
const MAX_LISTED = 200;
/** The maximum number of handles of a task: each instance gives it one. */
const MAX_HANDLES = 8;
const MAX_TEXT_CHARS = 200;
const MAX_ID_CHARS = 1024;
const MAX_ROUTE_CHARS = 8192;
const MAX_FILE_BYTES = 4 * 1024 * 1024;
const SAVE_DELAY_MS = 1000;
/** The fields of a request that refer to a task, beside its handle. */
const REFERENCES = ["continuation", "task_id", "context_id", "target_url"];

/**
 * A delegated task. A stored task of an earlier gateway has no continuation.
 * @typedef {{ target: string, taskId: string, state?: string, action?: string, since: number, updated: number, lastWord?: string, session?: string, usage?: Usage, handles?: Map<string, number>, continuation?: Continuation }} DelegatedTask
 */

/**
 * A bounded list of delegated tasks. The least recently updated task is evicted first, and a task with a very long id is left
 * out.
 */
export class DelegatedTasks {
  /** @type {Map<string, DelegatedTask>} */
  #tasks = new Map();
  #now;
  /** @type {string | undefined} */
  #file;
  /** @type {NodeJS.Timeout | undefined} */
  #saving;
  #warn = (/** @type {string} */ _line) => {};

  constructor(now = Date.now) {
    this.#now = now;
  }

  /**
   * Adds the tasks that an earlier gateway stored below `stateDir`, and stores later changes there. Returns a function that
   * stores the last ones.
   * @param {string | undefined} stateDir
   * @param {(line: string) => void} warn
   */
  open(stateDir, warn) {
    this.#warn = warn;
    if (!this.#file && stateDir) {
      this.#file = join(stateDir, "remote-agent", "tasks.json");
      const own = [...this.#tasks];
      this.#tasks = new Map([...this.#stored(), ...own]);
    }
    return () => this.#save();
  }

  /**
   * Records the task of `envelope`, a result of the instance with this number for this session.
   * @param {Envelope} envelope
   * @param {number} [instance]
   * @param {string} [session]
   */
  observe({ ok, action, summary, error }, instance = 0, session = undefined) {
    const latest = ok ? summary : error?.details?.latest_event_summary;
    for (const { summary, error } of latest?.group?.results ?? []) this.observe(summary ? { ok: true, action, summary } : { ok: false, action, error: error ?? {} }, instance, session);
    const continuation = latest?.continuation;
    const { target, task } = continuation ?? {};
    if (!target || !task?.task_id || task.task_id.length > MAX_ID_CHARS) return;
    const name = target.target_alias ?? target.target_url ?? "";
    const key = keyOf({ target: name, taskId: task.task_id });
    const now = this.#now();
    const { since = now, handles = new Map(), session: first = session, usage: before } = this.#tasks.get(key) ?? {};
    if (task.task_handle) handles.set(task.task_handle, instance);
    if (handles.size > MAX_HANDLES) handles.delete(handles.keys().next().value);
    const isSmall = JSON.stringify(continuation).length <= MAX_ROUTE_CHARS;
    this.#tasks.delete(key);
    this.#tasks.set(key, { target: name, taskId: task.task_id, state: task.status, action, since, updated: now, lastWord: lastWord(latest ?? {}), session: first, usage: usageOf(latest?.usage) ?? before, handles, continuation: isSmall ? continuation : undefined });
    if (this.#tasks.size > MAX_TASKS) this.#tasks.delete(/** @type {string} */ (this.#tasks.keys().next().value));
    if (this.#file) this.#saving ??= setTimeout(() => this.#save(), SAVE_DELAY_MS).unref();
  }

  /**
   * Returns the request with the continuation of its task in place of a handle that another instance than this one gave out,
   * which the instance does not know.
   * @param {CallRequest} request
   * @param {number} instance
   * @returns {CallRequest}
   */
  resumed(request, instance) {
    const { task_handle: handle, target_alias: alias, ...rest } = request ?? {};
    // A request with another reference, or to another target, is for the library to judge.
    if (typeof handle !== "string" || REFERENCES.some((name) => Object.hasOwn(rest, name))) return request;
    const { handles, continuation } = this.#withHandle(handle) ?? {};
    if (!continuation || handles?.get(handle) === instance || (alias ?? continuation.target.target_alias) !== continuation.target.target_alias) return request;
    return { ...rest, continuation };
  }

  /**
   * Returns the target of a task handle, in the form of a continuation.
   * @param {string} handle
   * @returns {Route | undefined}
   */
  targetOf(handle) {
    return this.#withHandle(handle)?.continuation?.target;
  }

  /** @param {string} handle */
  #withHandle(handle) {
    return this.#tasks.values().find((task) => task.handles?.has(handle));
  }

  /**
   * Returns whether an earlier result has a target at this URL, and with this card path.
   * @param {Route} route
   */
  hasRoute({ target_url: url, card_path: path }) {
    return this.#tasks.values().some(({ continuation }) => continuation?.target.target_url === url && (path === undefined || continuation?.target.card_path === path));
  }

  /** Returns the URLs of the targets that have a task with this id. */
  urlsOf(taskId) {
    return [...this.#tasks.values()].filter((task) => task.taskId === taskId).map(({ continuation }) => continuation?.target.target_url);
  }

  /** Returns the latest tasks, the latest first, with their age and the time since the last result in milliseconds. */
  list() {
    const now = this.#now();
    const latest = [...this.#tasks.values()].slice(-MAX_LISTED).reverse();
    return latest.map(({ handles, continuation, since, updated, ...task }) => ({ ...task, since, ageMs: now - since, updatedMs: now - updated, handle: handles && [...handles.keys()].at(-1) }));
  }

  /** Returns the stored tasks, the latest last. */
  #stored() {
    /** @type {Map<string, DelegatedTask>} */
    const tasks = new Map();
    let stored;
    try {
      stored = JSON.parse(readSmall(/** @type {string} */ (this.#file), MAX_FILE_BYTES));
    } catch (error) {
      // The error of a parser quotes the file.
      if (error.code !== "ENOENT") this.#warn(`the tasks of an earlier gateway cannot be read from "${this.#file}": ${error instanceof SyntaxError ? "it is not JSON" : error.message}`);
      return tasks;
    }
    for (const { target, taskId, state, action, since, updated, lastWord, session, usage } of Array.isArray(stored) ? stored.filter(isTask) : []) tasks.set(keyOf({ target, taskId }), { target, taskId, state, action, since, updated, lastWord, session, usage: usageOf(usage) });
    return tasks;
  }

  /** Stores the tasks, with those that another gateway with this state directory has stored since. */
  #save() {
    clearTimeout(this.#saving);
    if (!this.#file || !this.#saving) return;
    this.#saving = undefined;
    const all = this.#stored();
    for (const [key, task] of this.#tasks) if (!((all.get(key)?.updated ?? 0) > task.updated)) all.set(key, task);
    const latest = [...all.values()].sort((a, b) => a.updated - b.updated).slice(-MAX_LISTED);
    try {
      replaceFile(this.#file, JSON.stringify(latest.map(({ handles, continuation, ...task }) => task)));
    } catch (error) {
      this.#warn(`the delegated tasks cannot be stored, so a restart of the gateway forgets them: ${error.message}`);
    }
  }
}

/** Returns the same key for the same task. */
export const keyOf = (/** @type {{ target?: string, taskId: string }} */ { target, taskId }) => JSON.stringify([target, taskId]);

/** Returns whether a stored value has the fields of a task. */
function isTask(value) {
  const { target, taskId, since, updated, state, action, lastWord, session } = value ?? {};
  return [target, taskId].every((text) => typeof text === "string") && [since, updated].every(Number.isFinite) && [state, action, lastWord, session].every((text) => text === undefined || typeof text === "string");
}

/** Merges `tasks` with the tasks in `targets`, which agents listed. A state from an agent's list takes precedence. */
export function withAgentTasks(tasks, targets, now = Date.now()) {
  const all = new Map(tasks.map((task) => [keyOf(task), task]));
  for (const { target_alias: target, tasks: listed = [] } of targets) {
    for (const { task_id: taskId, status: state, status_message: said, updated_at: updated } of listed) {
      const task = { target, taskId, state, lastWord: excerpt(said) };
      // The time of the state. A2A has no time for the beginning of a task.
      const updatedMs = Math.max(0, now - Date.parse(updated));
      if (Number.isFinite(updatedMs)) task.updatedMs = updatedMs;
      const known = all.get(keyOf(task));
      all.set(keyOf(task), known ? { ...known, state, ...(Number.isFinite(updatedMs) && { updatedMs }) } : task);
    }
  }
  return [...all.values()];
}

/**
 * Returns the tasks that a listing asks for, the latest first: those of a target, in one of the states, and with a result or a
 * state of the last `sinceMs`; at most `limit`. A task whose times are unknown counts as one of now.
 * @template {{ target?: string, state?: string, ageMs?: number, updatedMs?: number }} T
 * @param {T[]} tasks
 * @param {{ target?: string, states?: string[], sinceMs?: number, limit?: number }} wanted
 */
export function selected(tasks, { target, states, sinceMs = Infinity, limit = Infinity }) {
  const idle = (/** @type {T} */ task) => task.updatedMs ?? task.ageMs ?? 0;
  const found = tasks.filter((task) => (target === undefined || task.target === target) && (states === undefined || states.includes(task.state ?? "unknown")) && idle(task) <= sinceMs);
  return found.sort((a, b) => idle(a) - idle(b)).slice(0, limit);
}

/**
 * Returns the beginning of the last text in a result.
 * @param {Summary} summary
 */
export function lastWord({ status_message: said, message_text: message, artifacts = [] }) {
  const text = artifacts.at(-1)?.parts?.find((part) => part.kind === "text")?.text;
  return excerpt(said ?? text ?? message);
}

/** Returns the beginning of a text as a copy, because a slice would keep the whole text in memory. */
function excerpt(text) {
  return text && Buffer.from(text.slice(0, MAX_TEXT_CHARS), "utf16le").toString("utf16le");
}
