// Follows tasks beyond the turn that started them, and wakes the session once when the task ends or requires input.
//
// Each followed task is a file below the state directory, so a restarted gateway continues to follow it. A gateway renames
// the file before it wakes the session. If two gateways share the directory, only one of the renames succeeds.
import { createHash } from "node:crypto";
import { existsSync, readdirSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";

import { readSmall, replaceFile } from "./state-files.js";
import { INTERRUPTED_STATES, TERMINAL_STATES } from "./tasks.js";
import { line } from "./text.js";
/** @import {Flows} from "./flows.js" */
/** @import {CallAsker, CallRequest, Caller, Continuation, Envelope, FollowHost, FollowedRecord} from "./types.d.ts" */

const FOLDER = ["remote-agent", "followed"];
const CLAIMED = /^(.+\.json)\.(\d+)\.waking$/;

/** The first and the maximum interval between two requests to a peer, and the maximum interval after failures. */
const PAUSE_MS = { first: 1000, longest: 15_000, failing: 300_000 };
/** The delay before another attempt to wake a session. */
const WAKE_RETRY_MS = 60_000;
/** The maximum size of the file of a followed task, in bytes, and the maximum number of files that are read. */
const MAX_FILE_BYTES = 64 * 1024;
const MAX_FILES = 1000;
const MAX_LOGGED_CHARS = 200;
/** The latest time of a `Date`. */
const MAX_TIME_MS = 8.64e15;
/** The maximum length of the text for a woken session, in characters. */
const TEXT_CHARS = 4000;

const TERMINAL_OR_INTERRUPTED = [...TERMINAL_STATES, ...INTERRUPTED_STATES];

/** Returns the directory of the followed tasks below a state directory. */
export function followedFolder(stateDir) {
  return join(stateDir, ...FOLDER);
}

/** The followed tasks of one gateway. */
export class Followers {
  #host;
  #settings;
  #folder;
  /** @type {Pick<Flows, "sync" | "isCanceled"> | undefined} */
  #flows;
  #opened;
  #followed = new Map();
  #reserved = 0;

  /**
   * `host` has these functions:
   * `ask(request, caller, askPerson)`, `render(envelope, maxChars)`, `wake(record, text)`, `warn(line)`, `now()`,
   * `later(ms, run)`, and, where a person can be asked, `asker(caller)` and `isStopping()`.
   *
   * `ask` resolves to the envelope as JSON. `later` schedules `run` and returns a function that cancels it. `settings` are
   * those of `notify`, and `byDefault`: whether a target has `notify`.
   * @param {FollowHost} host
   * @param {{ maxTasks: number, maxAgeMs: number, byDefault?: boolean }} settings
   */
  constructor(host, settings) {
    this.#host = host;
    this.#settings = settings;
  }

  /**
   * Starts to follow tasks, beginning with those of an earlier gateway below `stateDir`, and keeps their `flows` in step. Returns a
   * function that stops, unless a later evaluation of the plugin has opened it again.
   * @param {string} stateDir
   * @param {Pick<Flows, "sync" | "isCanceled">} [flows]
   */
  open(stateDir, flows) {
    const opened = (this.#opened = {});
    this.#flows = flows;
    if (!this.#folder) this.#resume(stateDir);
    return () => {
      if (this.#opened === opened) this.close();
    };
  }

  #resume(stateDir) {
    this.#folder = followedFolder(stateDir);
    releaseClaims(this.#folder, this.#host.warn);
    for (const record of readRecords(this.#folder, this.#settings.maxTasks, this.#host.warn)) this.#follow(record, true);
  }

  /** Stops without waking a session. Keeps the files. */
  close() {
    for (const followed of this.#followed.values()) followed.cancel();
    this.#followed.clear();
    this.#folder = undefined;
  }

  /**
   * Reserves a slot for the task of a request, so that parallel calls do not exceed `maxTasks`. Returns a function to call
   * after `saw`, which releases the slot. Returns undefined if no slot is free or the request needs none.
   * @param {CallRequest} request
   * @returns {(() => void) | undefined}
   */
  reserve({ action, notify = this.#settings.byDefault }) {
    if (action !== "send" || notify !== true || !this.#folder || this.#followed.size + this.#reserved >= this.#settings.maxTasks) return undefined;
    this.#reserved += 1;
    return () => void (this.#reserved -= 1);
  }

  /** Returns the followed tasks: `{ target, taskId, sessionKey, agentId, since, state }`. */
  list() {
    return [...this.#followed.values()].map(({ record }) => described(record));
  }

  /**
   * Handles a result that a session has received: starts to follow its task, or stops because the task has ended. Returns
   * whether it follows the task. A task whose question to a person `isOpen` waits for more than the session.
   * @param {Envelope} envelope
   * @param {Caller} caller
   */
  observe(envelope, caller, isOpen = false) {
    const members = envelope.ok === true ? envelope.summary?.continuation?.group?.members : undefined;
    if (members) return this.#observeMembers(envelope, members, caller, isOpen);
    const continuation = envelope.ok === true ? envelope.summary?.continuation : undefined;
    if (!this.#folder || !continuation?.task) return false;
    const { target, task } = continuation;
    const key = keyOf({ target, task }, caller);
    const known = this.#followed.get(key);
    if (envelope.summary?.notify || isOpen) {
      this.#forget(key);
      this.#follow({ key, continuation, caller, since: this.#host.now(), state: task.status }, false);
      return true;
    }
    const isAsking = (known?.isHeld || known?.asker !== undefined) && INTERRUPTED_STATES.includes(task.status ?? "");
    if ((TERMINAL_OR_INTERRUPTED.includes(task.status ?? "") && !isAsking) || envelope.action === "cancel") {
      if (known) this.#flows?.sync({ ...known.record, state: task.status }, true);
      this.#forget(key);
    }
    return this.#followed.has(key);
  }

  /**
   * Handles the tasks of a group, of which those are followed for which the call asked a person. Returns whether one still is.
   * @param {Envelope} envelope
   * @param {(Continuation & { state?: string })[]} members
   * @param {Caller} caller
   * @param {boolean} isOpen
   */
  #observeMembers({ action }, members, caller, isOpen) {
    const observed = members.map(({ target, task, state }) => {
      if (!task || !this.#followed.has(keyOf({ target, task }, caller))) return false;
      const status = state ?? task.status ?? "";
      return this.observe({ ok: true, action, summary: { continuation: { target, task: { ...task, status } } } }, caller, isOpen && INTERRUPTED_STATES.includes(status));
    });
    return observed.includes(true);
  }

  /**
   * Saves the task of a call that asks a person, so that the next gateway asks again if this one is killed. The call follows the
   * task itself, until it calls the function that this returns, which returns whether the task is followed from then on.
   * @param {Continuation | undefined} continuation that of the question
   * @param {Caller} caller
   * @returns {(() => boolean) | undefined}
   */
  hold(continuation, caller) {
    if (!this.#folder || !continuation?.task) return undefined;
    const { target, task } = continuation;
    const key = keyOf({ target, task }, caller);
    this.#forget(key);
    const followed = this.#follow({ key, continuation: { target, task }, caller, since: this.#host.now(), state: task.status }, false, true);
    return () => {
      const isCurrent = this.#followed.get(key) === followed;
      if (isCurrent && followed.isHeld) this.#pollLater(followed, PAUSE_MS.first);
      followed.isHeld = false;
      return isCurrent;
    };
  }

  #follow(record, saved, isHeld = false) {
    /** @type {{ record: FollowedRecord, saved: boolean, isHeld: boolean, cancel(): void, asker?: CallAsker }} */
    const followed = { record, saved: saved || this.#save(record), isHeld, cancel() {} };
    this.#followed.set(record.key, followed);
    this.#flows?.sync(record);
    if (!isHeld) this.#pollLater(followed, PAUSE_MS.first);
    return followed;
  }

  #forget(key) {
    this.#followed.get(key)?.cancel();
    this.#followed.get(key)?.asker?.end(false);
    this.#followed.delete(key);
    rmSync(this.#file(key), { force: true });
  }

  #pollLater(followed, pause) {
    const failed = (error) => this.#host.warn(`the task "${taskOf(followed.record)}" is no longer followed: ${line(error?.message ?? error)}`);
    followed.cancel = this.#host.later(pause, () => this.#ask(followed, pause).catch(failed));
  }

  async #ask(followed, pause) {
    const { record, saved } = followed;
    const isCurrent = () => this.#followed.get(record.key) === followed;
    if (saved && !existsSync(this.#file(record.key))) {
      // Another gateway woke the session or canceled the task.
      this.#followed.delete(record.key);
      return;
    }
    let envelope, asker;
    try {
      envelope = await this.#request((await this.#flows?.isCanceled(record)) ? "cancel" : "status", record);
      asker = INTERRUPTED_STATES.includes(stateOf(envelope)) && isCurrent() ? this.#host.asker?.(record.caller) : undefined;
      // Other than `status`, `watch` lets a person answer.
      if (asker) envelope = await this.#request("watch", record, (followed.asker = asker));
    } catch (error) {
      this.#host.warn(`the task "${taskOf(record)}" cannot be followed: ${line(error?.message ?? error)}`);
    }
    followed.asker = undefined;
    if (!isCurrent() || envelope?.error?.reason === "shutting_down") return;
    this.#flows?.sync(record);
    const state = stateOf(envelope);
    const failed = !envelope || (envelope.ok === false && envelope.error.retryable);
    const over = TERMINAL_OR_INTERRUPTED.includes(state) || (envelope?.ok === false && !failed);
    const tooOld = this.#host.now() - record.since >= this.#settings.maxAgeMs;
    // Another call may ask. After a stop, the next gateway asks again.
    const isBusy = envelope?.summary?.person?.outcome === "busy" || this.#host.isStopping?.();
    if (INTERRUPTED_STATES.includes(state) && (isBusy || asker?.isOpen) && !tooOld) return this.#pollLater(followed, isBusy ? PAUSE_MS.longest : PAUSE_MS.first);
    if (over || (tooOld && envelope)) return this.#wake(followed, envelope, over);
    this.#pollLater(followed, Math.min(pause * (failed ? 2 : 1.5), failed ? PAUSE_MS.failing : PAUSE_MS.longest));
  }

  /**
   * @param {string} action
   * @param {FollowedRecord} record
   * @param {CallAsker} [asker]
   * @returns {Promise<Envelope>}
   */
  async #request(action, record, asker) {
    const { target, task } = record.continuation;
    /** @type {Envelope | undefined} */
    let envelope;
    try {
      envelope = /** @type {Envelope} */ (JSON.parse(await this.#host.ask({ action, continuation: { target, task } }, record.caller, asker?.ask)));
      record.state = stateOf(envelope) || record.state;
      return envelope;
    } finally {
      asker?.end(asker.isOpen, envelope);
    }
  }

  #wake(followed, envelope, over) {
    const { record, saved } = followed;
    const claimed = `${this.#file(record.key)}.${process.pid}.waking`;
    if (saved && !renamed(this.#file(record.key), claimed)) return this.#followed.delete(record.key);
    try {
      this.#host.wake(record, wakeText(record, this.#host.render(JSON.stringify(envelope), TEXT_CHARS), over));
    } catch (error) {
      this.#host.warn(`the session of a remote task cannot be woken, and is tried again: ${line(error?.message ?? error)}`);
      if (saved) renamed(claimed, this.#file(record.key));
      return this.#pollLater(followed, WAKE_RETRY_MS);
    }
    this.#followed.delete(record.key);
    this.#flows?.sync(record, true);
    rmSync(claimed, { force: true });
  }

  #save(record) {
    try {
      replaceFile(this.#file(record.key), JSON.stringify(record));
      return true;
    } catch (error) {
      this.#host.warn(`a followed task cannot be saved, so a restart of the gateway forgets it: ${error.message}`);
      return false;
    }
  }

  #file(key) {
    return join(this.#folder, `${key}.json`);
  }
}

/**
 * Returns the same key for the same task in the same session, whatever its handle.
 * @param {Pick<FollowedRecord["continuation"], "target" | "task">} continuation
 * @param {Caller} caller
 */
function keyOf({ target, task }, caller) {
  const name = JSON.stringify([target.target_alias ?? target.target_url, task.task_id, caller.session_key]);
  return createHash("sha256").update(name).digest("hex").slice(0, 32);
}

/**
 * @param {FollowedRecord} record
 * @param {string} result
 * @param {boolean} over
 */
function wakeText(record, result, over) {
  const { target, task } = record.continuation;
  const peer = line(target.target_alias ?? target.target_url);
  const news = over ? "has news" : "is not done; it is no longer followed";
  const handle = result.includes("task_handle:") ? "" : `\ntask_handle: ${line(task.task_handle)}`;
  return `remote_agent: the task that you handed to ${peer} ${news}. Tell the user, or go on with the work that it is for.${handle}\n${result}`;
}

/** @param {FollowedRecord} record */
function described({ continuation, caller, since, state }) {
  const { target, task } = continuation;
  return {
    target: target.target_alias ?? target.target_url,
    taskId: task.task_id,
    sessionKey: caller.session_key,
    agentId: caller.agent_id,
    since: new Date(since).toISOString(),
    state,
  };
}

const stateOf = (/** @type {Envelope | undefined} */ envelope) => envelope?.summary?.continuation?.task?.status ?? "";

/** Returns the id of a task for a line of the log. The agent chose it. */
function taskOf(record) {
  return line(record.continuation.task.task_id).slice(0, MAX_LOGGED_CHARS);
}

/**
 * Reads up to `limit` followed tasks.
 * @param {string} folder
 * @param {number} limit
 * @param {(line: string) => void} warn
 */
function readRecords(folder, limit, warn = () => {}) {
  /** @type {FollowedRecord[]} */
  const records = [];
  const names = namesIn(folder).filter((name) => name.endsWith(".json"));
  for (const [index, name] of names.entries()) {
    if (records.length >= limit || index >= MAX_FILES) {
      warn(`${names.length - index} files of followed tasks in "${folder}" are not read: at most ${limit} tasks are followed at a time (\`notify.maxTasks\`)`);
      break;
    }
    const file = join(folder, name);
    try {
      const record = parsedRecord(readSmall(file, MAX_FILE_BYTES));
      if (`${record.key}.json` !== name) throw new Error("its name is not that of its task");
      records.push(record);
    } catch (error) {
      // The error of a parser quotes the file, which may be another than that of a task.
      warn(`"${file}" cannot be read and is skipped: ${error instanceof SyntaxError ? "it is not JSON" : error.message}`);
    }
  }
  return records;
}

/**
 * Parses a record. Checks the type of each field that is used, and computes the key, which is part of a path.
 * @param {string} text
 * @returns {FollowedRecord}
 */
function parsedRecord(text) {
  const { continuation, caller, since, state } = JSON.parse(text) ?? {};
  const { target, task } = continuation ?? {};
  const isText = (value) => typeof value === "string";
  const isTextOrMissing = (value) => value === undefined || value === null || isText(value);
  const isRecord =
    [target?.target_url, task?.task_id, caller?.session_key].every(isText) &&
    [target.target_alias, task.task_handle, caller.agent_id, caller.user, caller.state_dir, state].every(isTextOrMissing) &&
    caller.session_key !== "" &&
    Number.isFinite(since) &&
    Math.abs(since) <= MAX_TIME_MS;
  if (!isRecord) throw new Error("it is not a followed task");
  const { agent_id, user, session_key, state_dir } = caller;
  return { key: keyOf({ target, task }, caller), continuation: { target, task }, caller: { agent_id, ...(user && { user }), session_key, state_dir }, since, state };
}

/** Restores the files of gateways that stopped before they woke the session. */
function releaseClaims(folder, warn) {
  for (const name of namesIn(folder)) {
    const [, file, pid] = CLAIMED.exec(name) ?? [];
    if (file && (Number(pid) === process.pid || !isRunning(Number(pid))) && !renamed(join(folder, name), join(folder, file))) warn(`"${name}" cannot be renamed`);
  }
}

function namesIn(folder) {
  return existsSync(folder) ? readdirSync(folder) : [];
}

function renamed(from, to) {
  try {
    renameSync(from, to);
    return true;
  } catch {
    return false;
  }
}

function isRunning(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error.code === "EPERM";
  }
}
