// Calls of an operator's command that run in the gateway, with its environment, secrets and settings.
//
// A method of the gateway answers once, and a restart of the gateway waits for it. So `start` returns at once, and the
// command requests news until the call is done. The calls belong to the process: another evaluation of the plugin, after a
// change of the settings, continues to answer for them.
import { randomUUID } from "node:crypto";

import manifest from "./package.json" with { type: "json" };
import { line } from "./text.js";
import { DelegatedTasks } from "./tasks.js";
/** @import {CallNews, CallRequest, Caller, Lease} from "./types.d.ts" */

const MAX_CALLS = 32;
/** How long a request for news waits. */
const WAIT_MS = 10_000;
/** How long a call continues, and its result remains, without a request for news. */
const ABANDONED_MS = 30_000;
/** The maximum length of the updates that wait for the command. After more, it gets the result only. */
const MAX_WAITING_CHARS = 4 << 20;
/** The maximum length of a piece of the result, so that each answer fits into a frame of the gateway (25 MiB). */
const PIECE_CHARS = 1 << 20;

/** The maximum number of calls with those that ended and were not yet forgotten. */
const MAX_KEPT = 256;

/** The number of ended calls whose ids are remembered, so that no call starts twice. */
const MAX_ENDED = 10_000;

const ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** An error of a request, for the command. */
export class CallError extends Error {}

/** @typedef {{ token: { cancel(): void }, updates: string[], first: number, waiting: number, envelope?: string, failure?: string, wake: PromiseWithResolvers<void>, timer?: NodeJS.Timeout }} GatewayCall */

/** The running calls of operators, and those whose result was not yet collected. */
export class GatewayCalls {
  /** @type {Map<string, GatewayCall>} */
  #calls = new Map();
  /** @type {Set<string>} */
  #ended = new Set();
  /** Identifies the process, so that a command recognizes a restart. */
  gatewayId = randomUUID();
  /** The tasks of these calls. The approval of messages does not know them: they are no results of an agent of OpenClaw. */
  tasks = new DelegatedTasks();

  /**
   * Starts a call with the id `id`, which the command chose. A repeated start with the same id starts nothing.
   * @param {string} id
   * @param {CallRequest} request
   * @param {Caller} caller
   * @param {boolean} withUpdates
   * @param {Lease} lease
   */
  start(id, request, caller, withUpdates, lease) {
    if (!ID.test(id)) throw new CallError("`id` is not a UUID");
    if (this.wasStarted(id)) return;
    const running = [...this.#calls.values()].filter((call) => call.envelope === undefined && call.failure === undefined);
    if (running.length >= MAX_CALLS || this.#calls.size >= MAX_KEPT) throw new CallError(`the gateway runs ${MAX_CALLS} calls of operators already; nothing was sent. Try again later`);
    const token = new lease.CancelToken();
    /** @type {GatewayCall} */
    const call = { token, updates: [], first: 0, waiting: 0, wake: Promise.withResolvers() };
    this.#calls.set(id, call);
    this.#expectRequest(id, call);
    const onUpdate = withUpdates ? (/** @type {string} */ update) => this.#addUpdate(call, update) : null;
    // The settings may change while the call runs.
    const shared = lease.share();
    const done = (/** @type {Partial<GatewayCall>} */ result) => {
      Object.assign(call, result);
      shared.release();
      call.wake.resolve();
    };
    shared.agent.execute(JSON.stringify(request), JSON.stringify(caller), token, onUpdate).then(
      (envelope) => {
        const result = JSON.parse(envelope);
        // Another action on a task that no call here sent does not make it one of these calls.
        const taskId = result.summary?.continuation?.task?.task_id;
        if (request.action === "send" || this.tasks.urlsOf(taskId).length > 0) this.tasks.observe(result);
        done({ envelope });
      },
      (error) => done({ failure: line(error?.message ?? error) }),
    );
  }

  #addUpdate(call, update) {
    call.waiting += update.length;
    // The result contains their text. An update after a gap would misplace its text, so none follows.
    if (call.waiting > MAX_WAITING_CHARS) call.waiting = Infinity;
    if (call.waiting === Infinity) return;
    call.updates.push(update);
    call.wake.resolve();
  }

  /** Stops a call that no command asks for, and forgets it. The task at the agent continues. */
  #expectRequest(id, call) {
    clearTimeout(call.timer);
    call.timer = setTimeout(() => {
      call.token.cancel();
      this.#calls.delete(id);
      this.#ended.add(id);
      if (this.#ended.size > MAX_ENDED) this.#ended.delete(/** @type {string} */ (this.#ended.values().next().value));
    }, ABANDONED_MS);
    call.timer.unref();
  }

  /** Returns whether a call with this id was started. */
  wasStarted(id) {
    return this.#calls.has(id) || this.#ended.has(id);
  }

  /**
   * Returns the news of a call: its updates from the one with the number `after`, or else a piece of its result from
   * `offset`. Waits up to `waitMs` for news. Returns undefined for an unknown call.
   * @param {string} id
   * @param {number} after
   * @param {number} offset
   * @returns {Promise<CallNews | undefined>}
   */
  async news(id, after, offset, waitMs = WAIT_MS) {
    const call = this.#calls.get(id);
    if (!call) return undefined;
    for (; call.first < after && call.updates.length > 0; call.first += 1) call.waiting -= call.updates.shift()?.length ?? 0;
    const isDone = () => call.envelope !== undefined || call.failure !== undefined;
    if (call.updates.length === 0 && !isDone() && waitMs > 0) {
      call.wake = Promise.withResolvers();
      clearTimeout(call.timer);
      await withTimeout(call.wake.promise, waitMs);
    }
    this.#expectRequest(id, call);
    const updates = [...call.updates];
    const next = call.first + updates.length;
    if (call.failure !== undefined) return { updates, next, failure: call.failure };
    if (call.envelope === undefined) return { updates, next };
    const piece = call.envelope.slice(offset, offset + PIECE_CHARS);
    return { updates, next, piece, isLast: offset + piece.length >= call.envelope.length };
  }

  /** Stops waiting for the task of a call. The call then ends with an error of the library. */
  stop(id) {
    this.#calls.get(id)?.token.cancel();
  }
}

/** Returns the calls of this process. */
export function gatewayCalls() {
  const slot = Symbol.for(`openclaw-remote-agent/${manifest.version}/calls`);
  return (globalThis[slot] ??= new GatewayCalls());
}

/** Waits for a promise, at most `ms`. */
async function withTimeout(promise, ms) {
  /** @type {NodeJS.Timeout | undefined} */
  let timer;
  await Promise.race([promise, new Promise((resolve) => (timer = setTimeout(resolve, ms)))]);
  clearTimeout(timer);
}
