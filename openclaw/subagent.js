// Remote agents as sub-agents of OpenClaw: a backend for its ACP sessions, without a process of its own.
//
// A session is a conversation with a target, a turn is a message or the answer to a question. What continues a session is a file
// below the state directory, so after a restart the gateway follows the task of a turn that had no end: nothing is sent twice.
import { createHash } from "node:crypto";
import { existsSync, readdirSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

import { AnswerWriter } from "./answer-writer.js";
import { targetsIn } from "./config.js";
import { NO_FILES, save } from "./files.js";
import { isShared } from "./person.js";
import { readSmall, replaceFile } from "./state-files.js";
import { FAILED_STATES, INTERRUPTED_STATES, TERMINAL_STATES } from "./tasks.js";
import { line, safe, withOwnCommand } from "./text.js";
/** @import {CallRequest, Caller, Continuation, Envelope, Lease, Part, SubagentEvent, SubagentHandle, SubagentHost, SubagentTurn, Target} from "./types.d.ts" */

/** The name of the backend in OpenClaw's settings. */
export const BACKEND = "remote-agent";

const FOLDER = ["remote-agent", "subagents"];
/** How many sessions are stored. Those that were used least recently are forgotten first. */
const MAX_SESSIONS = 500;
const MAX_FILE_BYTES = 65_536;
/** A session of a session of a session…: OpenClaw limits the depth of sub-agents itself. */
const MAX_DEPTH = 16;
/** The first and the maximum pause after a failure to follow a task, and how many failures in a row end the turn. */
const RETRY_MS = { first: 1000, longest: 60_000, attempts: 10 };
const APPROVAL_MS = 300_000;
/** The gateway accepts no connection until it is ready. */
const RESUME = { pauseMs: 2000, attempts: 60, startMs: 60_000 };
const EXCHANGE_MS = 10_000;

const RESUME_TEXT = "The gateway was restarted. Go on with the task that ran before.";

/** The id of an agent of OpenClaw for a target: OpenClaw writes ids in lower case. */
export const agentIdOf = (/** @type {string} */ alias) => alias.toLowerCase();

/** An error for OpenClaw's record of the turn. */
class TurnError extends Error {}

/**
 * What continues a session. `owner` is the agent that uses the target, and null for a session that no agent spawned. `turn` is the id
 * of the turn that has no end yet.
 * @typedef {{ sessionKey: string, alias: string, owner: string | null, continuation?: Continuation, turn?: string }} Conversation
 */
/** @typedef {{ isCanceled: boolean, ended: Promise<void> }} RunningTurn */
/** @typedef {(event: SubagentEvent) => void} Emit */
/**
 * A turn with what it works on. `root` is the session for which it works, `agentId` the agent that uses the target.
 * @typedef {{ host: SubagentHost, lease: Lease, conversation: Conversation, root: string, agentId?: string, signal: AbortSignal, stopping: AbortSignal, running: RunningTurn, emit: Emit, workspace?: string }} TurnContext
 */

/**
 * The sessions of one process. Later evaluations of the plugin take them over, while turns of the earlier one go on.
 *
 * Without `ownerAwareSessions` OpenClaw passes only sessions whose key has their agent, such as "agent:main:…".
 */
export class Subagents {
  /** The latest host. It stays for the turns that go on after a stop. @type {SubagentHost | undefined} */
  #host;
  isOpen = false;
  /** @type {Map<string, RunningTurn>} */
  #running = new Map();
  /** The sessions whose turns were started again, with what to do when they run. @type {Map<string, () => void>} */
  #awaited = new Map();

  /**
   * Takes over the sessions, and goes on with the turns that an earlier process did not end. Returns a function that stops,
   * unless a later evaluation of the plugin has opened them again.
   * @param {SubagentHost} host
   */
  open(host) {
    this.#host = host;
    this.isOpen = true;
    this.#resume(host).catch((error) => host.warn(`the turns of sub-agents cannot go on: ${line(error?.message ?? error)}`));
    return () => {
      if (this.#host === host) this.isOpen = false;
    };
  }

  get #opened() {
    if (!this.#host) throw new TurnError("the plugin remote-agent is not running; see the gateway's log");
    return this.#host;
  }

  /** @param {SubagentHost} host */
  #isCurrent(host) {
    return this.#host === host && this.isOpen;
  }

  // ---- the backend --------------------------------------------------------------------------------------------------------

  /**
   * @param {{ sessionKey: string, agent: string, mode?: string, cwd?: string, resumeSessionId?: string }} session
   * @returns {Promise<SubagentHandle>}
   */
  async ensureSession({ sessionKey, agent, cwd, resumeSessionId }) {
    const host = this.#opened;
    const { alias } = this.#target(agent, sessionKey);
    const id = idOf(sessionKey);
    const known = this.#read(id);
    if (known?.alias !== alias) {
      const before = resumeSessionId && resumeSessionId !== id ? this.#read(resumeSessionId) : undefined;
      if (resumeSessionId && !before && resumeSessionId !== id) throw new TurnError(`the conversation ${line(resumeSessionId)} is not on record any more; start another one without \`resumeSessionId\``);
      const owner = this.#origin(sessionKey).agentId ?? null;
      if (before && before.owner !== owner) throw new TurnError(`the conversation ${line(resumeSessionId)} belongs to another agent; start another one without \`resumeSessionId\``);
      if (before && before.alias !== alias) throw new TurnError(`the conversation ${line(resumeSessionId)} is one with \`${line(before.alias)}\`, not with \`${line(alias)}\``);
      this.#write({ sessionKey, alias, owner, continuation: before?.continuation });
      prune(join(host.stateDir, ...FOLDER));
    }
    return { sessionKey, backend: BACKEND, runtimeSessionName: id, agent, agentSessionId: id, cwd };
  }

  /**
   * @param {SubagentTurn} turn
   * @returns {AsyncIterable<SubagentEvent>}
   */
  runTurn(turn) {
    let isLeft = false;
    return new ReadableStream({
      start: async (controller) => {
        const { handle } = turn;
        const emit = (/** @type {SubagentEvent} */ event) => void (isLeft || controller.enqueue(event));
        const { promise: ended, resolve } = Promise.withResolvers();
        const running = { isCanceled: false, ended: /** @type {Promise<void>} */ (ended) };
        this.#running.set(handle.sessionKey, running);
        this.#awaited.get(handle.sessionKey)?.();
        try {
          await this.#turn(turn, running, emit);
        } catch (error) {
          emit({ type: "error", code: "ACP_TURN_FAILED", message: withOwnCommand(line(error?.message ?? error)) });
        } finally {
          if (this.#running.get(handle.sessionKey) === running) this.#running.delete(handle.sessionKey);
          resolve(undefined);
          if (!isLeft) controller.close();
        }
      },
      cancel: () => void (isLeft = true),
    });
  }

  /**
   * Cancels the task of the turn that runs, or the one that the session left.
   * @param {{ handle: SubagentHandle, reason?: string }} request
   */
  async cancel({ handle }) {
    const host = this.#host;
    // A gateway that stops ends its turns. The task goes on, and the next gateway follows it.
    if (!host || host.lease.people.isStopping) return;
    const running = this.#running.get(handle.sessionKey);
    if (running) {
      running.isCanceled = true;
      await running.ended;
      return;
    }
    const conversation = this.#read(idOf(handle.sessionKey));
    if (conversation && isOpenTask(conversation)) await this.#cancelTask(host, conversation);
  }

  /** @param {{ handle: SubagentHandle, reason?: string, discardPersistentState?: boolean }} request */
  async close({ handle, reason = "", discardPersistentState }) {
    // OpenClaw cleans up a finished sub-agent soon, whose conversation `resumeSessionId` continues.
    if (discardPersistentState && !reason.endsWith("-cleanup")) this.prepareFreshSession(handle);
  }

  /** @param {{ sessionKey: string }} session */
  prepareFreshSession({ sessionKey }) {
    rmSync(this.#file(idOf(sessionKey)), { force: true });
  }

  /** @param {{ handle: SubagentHandle }} request */
  async getStatus({ handle }) {
    const { alias, continuation } = this.#read(idOf(handle.sessionKey)) ?? {};
    const state = continuation?.task?.status ?? (continuation ? "idle" : "new");
    const isRunning = this.#running.has(handle.sessionKey);
    return {
      agentSessionId: idOf(handle.sessionKey),
      summary: `${line(alias)}: ${isRunning ? "running" : line(state)}`,
      details: { target: alias, state, task: continuation?.task?.task_id, context: continuation?.conversation?.context_id },
    };
  }

  getCapabilities() {
    return { controls: ["session/status"] };
  }

  async doctor() {
    const targets = targetsIn(this.#host?.lease.settings).map(({ alias }) => line(alias));
    return this.isOpen ? { ok: true, message: `targets: ${targets.join(", ") || "none"}` } : { ok: false, code: "ACP_BACKEND_UNAVAILABLE", message: "the plugin remote-agent is not running" };
  }

  // ---- a turn -------------------------------------------------------------------------------------------------------------

  /**
   * @param {SubagentTurn} turn
   * @param {RunningTurn} running
   * @param {Emit} emit
   */
  async #turn({ handle, text, attachments = [], requestId, signal: own }, running, emit) {
    const host = this.#opened;
    // The settings may change while the turn runs.
    const lease = host.lease.share();
    // OpenClaw waits for its turns before it stops, and the task may take longer.
    const stopping = new AbortController();
    const stop = () => stopping.abort();
    lease.people.stopListeners.add(stop);
    const signal = AbortSignal.any([stopping.signal, ...(own ? [own] : [])]);
    try {
      const conversation = this.#read(idOf(handle.sessionKey));
      if (!conversation) throw new TurnError("the conversation is not on record any more; start another one");
      const { alias } = this.#target(conversation.alias, handle.sessionKey);
      const { root, agentId } = this.#origin(handle.sessionKey);
      // Files are saved in the workspace, and not in a directory that the model chose for the spawn.
      /** @type {TurnContext} */
      const context = { host, lease, conversation, root, agentId, signal, stopping: stopping.signal, running, emit, workspace: host.workspaceOf(agentOf(root)) };
      const isSameTurn = conversation.turn === requestId || text.includes(RESUME_TEXT);
      // A task that runs without a turn is one whose turn was cut off, or failed to follow it.
      if (isOpenTask(conversation) && (conversation.turn !== undefined || !isWaiting(conversation))) {
        const ended = await this.#run(context, { action: "watch", continuation: continuationOf(conversation) });
        // The turn that the restart cut off ends with its task. Another one has a message of its own, which answers no question that
        // no one has seen.
        const isAsked = ended.ok && isWaiting(conversation);
        if (isAsked && !isSameTurn && !signal.aborted) emit({ type: "text_delta", text: "This message was not sent: the task before it asks first.\n\n", stream: "output" });
        if (isSameTurn || ended.ok === false || signal.aborted || isAsked) return this.#end(context, ended);
      } else if (isSameTurn) {
        this.#write(Object.assign(conversation, { turn: undefined }));
        throw new TurnError(`the gateway was restarted before \`${line(alias)}\` confirmed the message, which it may have received; it was not sent again`);
      }
      /** @type {CallRequest} */
      const request = { action: "send", ...(conversation.continuation ? { continuation: continuationOf(conversation) } : { target_alias: alias }), parts: partsOf(text, attachments), follow_updates: true, notify: false };
      await this.#approve(context, request);
      if (signal.aborted) return emit({ type: "done", stopReason: "cancelled" });
      this.#write(Object.assign(conversation, { turn: requestId }));
      this.#end(context, await this.#run(context, request));
    } finally {
      lease.people.stopListeners.delete(stop);
      lease.release();
    }
  }

  /**
   * Runs a request, and follows its task until it ends or waits for the agent that spawned this one.
   * @param {TurnContext} context
   * @param {CallRequest} request
   * @returns {Promise<Envelope>}
   */
  async #run(context, request) {
    const { host, lease, conversation, root, agentId, signal, running, emit, workspace } = context;
    const caller = { ...callerOf(host, root, agentId), ...(isShared(root) && { no_sign_in: true }), traceparent: await host.traceparent?.().catch(() => undefined) };
    const writer = new AnswerWriter((text) => emit({ type: "text_delta", text, stream: "output" }), (text) => emit({ type: "status", text }));
    let failures = 0;
    for (;;) {
      const token = new lease.CancelToken();
      const cancel = () => token.cancel();
      if (signal.aborted) cancel();
      else signal.addEventListener("abort", cancel, { once: true });
      const call = lease.people.forCall({ sessionKey: root, agentId: agentOf(root) });
      /** @type {Envelope | undefined} */
      let envelope;
      try {
        const onUpdate = (/** @type {string} */ json) => {
          const update = JSON.parse(json);
          this.#keep(conversation, update.summary?.continuation);
          writer.update(update);
        };
        const ask = async (/** @type {string} */ question) => {
          // The next gateway asks again if this one is killed meanwhile.
          this.#keep(conversation, JSON.parse(question).continuation);
          emit({ type: "status", text: "waits for a person" });
          return await call.ask(question);
        };
        envelope = /** @type {Envelope} */ (JSON.parse(await lease.agent.execute(JSON.stringify(request), JSON.stringify(caller), token, onUpdate, ask)));
      } finally {
        signal.removeEventListener("abort", cancel);
        call.end(!signal.aborted && call.isOpen, envelope);
      }
      const latest = latestOf(envelope);
      this.#keep(conversation, latest?.continuation);
      lease.tasks.observe(envelope, lease.number, root);
      if (signal.aborted) {
        if (running.isCanceled && isOpenTask(conversation)) await this.#cancelTask(host, conversation, lease);
        return envelope;
      }
      failures = envelope.ok === false ? failures + 1 : 0;
      // A message whose sending failed after the agent had begun its task lost only the connection to it.
      const isCut = envelope.ok === false && (request.action === "watch" ? envelope.error.retryable === true : latest?.continuation?.task !== undefined) && failures <= RETRY_MS.attempts;
      const isAsked = call.isOpen || latest?.person?.outcome === "busy";
      if (isOpenTask(conversation) && (isCut || (envelope.ok && (isAsked || !isWaiting(conversation))))) {
        if (isCut || isAsked) await pause(Math.min(RETRY_MS.first * 2 ** Math.max(failures - 1, 0), RETRY_MS.longest), signal);
        request = { action: "watch", continuation: continuationOf(conversation) };
        continue;
      }
      writer.finish(envelope);
      const { saved, failed } = workspace ? await save(envelope, workspace) : NO_FILES;
      for (const { path, mediaType, size } of saved) emit({ type: "text_delta", text: `\n[saved file] ${path} (${mediaType}, ${size} bytes)\n`, stream: "output" });
      for (const text of failed) emit({ type: "text_delta", text: `\n[file] ${line(text)}\n`, stream: "output" });
      return envelope;
    }
  }

  /**
   * Ends a turn with its result. A task that waits for an answer ends the turn with its question: the next message is the answer.
   * @param {TurnContext} context
   * @param {Envelope} envelope
   */
  #end({ lease, host, conversation, signal, stopping, running, emit }, envelope) {
    if ((stopping.aborted && !running.isCanceled && (isOpenTask(conversation) || envelope.ok === false)) || envelope.error?.reason === "shutting_down") {
      // OpenClaw forgets the session of a turn that failed, so the next gateway follows the task as one of the tool.
      const isFollowed = this.#leave(lease, host, conversation) !== undefined;
      throw new TurnError(`the gateway stops${isFollowed ? "; the task goes on, and the next gateway wakes this session when it has news" : ""}`);
    }
    this.#write(Object.assign(conversation, { turn: undefined }));
    if (signal.aborted) return emit({ type: "done", stopReason: "cancelled" });
    if (envelope.ok === false) throw new TurnError(errorText(envelope));
    const { continuation, status_message: said } = envelope.summary;
    const state = continuation?.task?.status ?? "";
    if (FAILED_STATES.includes(state)) throw new TurnError(`the task at ${line(conversation.alias)} ${state === "failed" ? "failed" : "was rejected"}${said ? `: ${line(said)}` : ""}`);
    if (INTERRUPTED_STATES.includes(state)) {
      const how = `The task ${line(continuation?.task?.task_id)} of ${line(conversation.alias)} waits (${state}). The next message of this session answers it, and so does remote_agent with {"action": "send", "target_alias": ${JSON.stringify(conversation.alias)}, "task_id": ${JSON.stringify(line(continuation?.task?.task_id))}}.`;
      emit({ type: "text_delta", text: `${said ? `${safe(said)}\n\n` : ""}${how}\n`, stream: "output" });
    }
    emit({ type: "done", stopReason: state === "canceled" ? "cancelled" : "end_turn" });
  }

  /**
   * Asks an operator about the message as the tool does.
   * @param {TurnContext} context
   * @param {CallRequest} request
   */
  async #approve({ host, root, agentId, conversation, signal, emit }, request) {
    const decision = host.approval?.({ params: request }, { agentId });
    if (!decision) return;
    if ("block" in decision) throw new TurnError(decision.blockReason);
    const { onResolution, timeoutReason, ...approval } = decision.requireApproval;
    emit({ type: "status", text: "waits for an approval" });
    const answer = await host.approve({ ...approval, agentId: agentOf(root), sessionKey: root, toolName: "remote_agent", timeoutMs: APPROVAL_MS }, APPROVAL_MS + EXCHANGE_MS, signal).catch((error) => {
      if (!signal.aborted) throw error;
    });
    if (signal.aborted) return;
    onResolution(answer);
    if (answer === "deny") throw new TurnError(`an operator denied the message to \`${line(conversation.alias)}\`; it was not sent`);
    if (answer !== "allow-once" && answer !== "allow-always") throw new TurnError(`the message to \`${line(conversation.alias)}\` needs an approval, and no operator decided; it was not sent. Ask again while Control UI or another client that may approve is open`);
  }

  /**
   * @param {SubagentHost} host
   * @param {Conversation} conversation
   */
  async #cancelTask(host, conversation, lease = host.lease) {
    const { root, agentId } = this.#origin(conversation.sessionKey);
    const request = { action: "cancel", continuation: continuationOf(conversation) };
    const envelope = JSON.parse(await lease.agent.execute(JSON.stringify(request), JSON.stringify(callerOf(host, root, agentId)), new lease.CancelToken(), null));
    lease.tasks.observe(envelope, lease.number, root);
    this.#keep(conversation, envelope.summary?.continuation);
    this.#write(Object.assign(conversation, { turn: undefined }));
    if (envelope.ok === false) host.warn(`cannot cancel the task of a sub-agent at ${line(conversation.alias)}: ${line(envelope.error.message)}`);
  }

  /**
   * Leaves the task of a turn to the followers, which wake the session for which it works. Returns a function that makes those of this
   * process follow it, and undefined if they cannot: then the next message of the session follows it first.
   * @param {Lease} lease
   * @param {SubagentHost} host
   * @param {Conversation} conversation
   */
  #leave(lease, host, conversation) {
    const { root, agentId } = this.#origin(conversation.sessionKey);
    if (!isOpenTask(conversation) || root === conversation.sessionKey) return undefined;
    const follow = lease.followers.hold(conversation.continuation, { ...callerOf(host, root, agentId), session_key: root });
    if (follow) this.#write(Object.assign(conversation, { turn: undefined }));
    return follow;
  }

  // ---- sessions -----------------------------------------------------------------------------------------------------------

  /**
   * Returns the target of an agent of OpenClaw, which the agent that spawned the session may use.
   * @param {string} agent
   * @param {string} sessionKey
   * @returns {Target}
   */
  #target(agent, sessionKey) {
    const targets = targetsIn(this.#opened.lease.settings);
    const target = targets.find(({ alias }) => alias === agent) ?? targets.find(({ alias }) => agentIdOf(alias) === agentIdOf(agent));
    if (!target) throw new TurnError(`no remote agent is called \`${line(agent)}\`; \`openclaw remote-agent targets\` lists them, and \`openclaw remote-agent subagent add ALIAS\` makes one a sub-agent`);
    const { agentId } = this.#origin(sessionKey);
    const { alias, allowedAgents = [] } = target;
    if (allowedAgents.length > 0 && !(agentId && allowedAgents.includes(agentId))) throw new TurnError(`the agent \`${line(agentId ?? "unknown")}\` may not use the target \`${line(alias)}\`: its \`allowedAgents\` does not have it`);
    return target;
  }

  /**
   * Returns the session for which this one works: the one that spawned it, or that spawned the one that did. Its people see the
   * questions, because they read and write there. `agentId` is the agent that uses the target; a session that no agent spawned has none.
   * @param {string} sessionKey
   */
  #origin(sessionKey) {
    let root = sessionKey;
    for (let depth = 0; depth < MAX_DEPTH; depth += 1) {
      const parent = this.#opened.parentOf({ sessionKey: root, agentId: agentOf(root) });
      if (!parent || parent === root) break;
      root = parent;
    }
    const parent = this.#opened.parentOf({ sessionKey, agentId: agentOf(sessionKey) });
    return { root, agentId: parent && agentOf(parent) };
  }

  /**
   * Stores how the conversation goes on.
   * @param {Conversation} conversation
   * @param {Continuation} [continuation]
   */
  #keep(conversation, continuation) {
    if (!continuation) return;
    // A result without a task, or without a conversation, does not end the other one.
    const { target, task, conversation: talk = conversation.continuation?.conversation } = continuation;
    const next = { target, ...(task && { task }), ...(talk && { conversation: talk }) };
    if (JSON.stringify(next) === JSON.stringify(conversation.continuation)) return;
    this.#write(Object.assign(conversation, { continuation: next }));
  }

  /** @param {Conversation} conversation */
  #write(conversation) {
    try {
      replaceFile(this.#file(idOf(conversation.sessionKey)), JSON.stringify(conversation));
    } catch (error) {
      this.#opened.warn(`the conversation of a sub-agent cannot be saved, so a restart of the gateway forgets it: ${error.message}`);
    }
  }

  #file(id) {
    return join(this.#opened.stateDir, ...FOLDER, `${id}.json`);
  }

  /**
   * @param {string} id
   * @returns {Conversation | undefined}
   */
  #read(id) {
    return /^[0-9a-f]{32}$/.test(id) ? readConversation(this.#file(id), this.#opened.warn) : undefined;
  }

  /**
   * Goes on with the turns that an earlier process did not end, as turns of the same runs, so that OpenClaw records their ends.
   * @param {SubagentHost} host
   */
  async #resume(host) {
    const folder = join(host.stateDir, ...FOLDER);
    const cut = namesIn(folder).flatMap((name) => readConversation(join(folder, name), host.warn) ?? []);
    await Promise.all(cut.filter(({ turn, sessionKey }) => turn !== undefined && !this.#running.has(sessionKey)).map((conversation) => this.#runAgain(host, conversation)));
  }

  /**
   * @param {SubagentHost} host
   * @param {Conversation} conversation
   */
  async #runAgain(host, conversation) {
    const { sessionKey, turn } = conversation;
    // The next message of a chat follows the task first.
    if (this.#origin(sessionKey).root === sessionKey) return;
    const { promise: started, resolve } = Promise.withResolvers();
    this.#awaited.set(sessionKey, () => resolve(true));
    for (let attempt = 1; attempt <= RESUME.attempts && this.#isCurrent(host); attempt += 1) {
      try {
        await host.runAgain({ sessionKey, agentId: agentOf(sessionKey), message: RESUME_TEXT, idempotencyKey: turn });
        break;
      } catch (error) {
        if (attempt === RESUME.attempts) host.warn(`the turn of the sub-agent ${line(sessionKey)} cannot go on: ${line(error?.message ?? error)}`);
        await sleep(RESUME.pauseMs, undefined, { ref: false });
      }
    }
    // OpenClaw may have ended the run meanwhile, and forgotten the session.
    const isStarted = await Promise.race([started, sleep(RESUME.startMs, false, { ref: false })]);
    this.#awaited.delete(sessionKey);
    if (!isStarted && this.#isCurrent(host)) this.#leave(host.lease, host, conversation)?.();
  }
}

/** Returns the same id for the same session; it is the name of its file, and the one by which `resumeSessionId` continues it. */
const idOf = (/** @type {string} */ sessionKey) => createHash("sha256").update(sessionKey).digest("hex").slice(0, 32);

const agentOf = (/** @type {string} */ sessionKey) => /^agent:([^:]+):/.exec(sessionKey)?.[1];

const namesIn = (/** @type {string} */ folder) => (existsSync(folder) ? readdirSync(folder).filter((name) => name.endsWith(".json")) : []);

/** @returns {Conversation | undefined} */
function readConversation(file, warn) {
  try {
    const { sessionKey, alias, owner, continuation, turn } = JSON.parse(readSmall(file, MAX_FILE_BYTES)) ?? {};
    const isText = (value) => typeof value === "string" && value !== "";
    const isContinuation = continuation === undefined || (typeof continuation?.target === "object" && continuation.target !== null);
    if (![sessionKey, alias].every(isText) || !(owner === null || isText(owner)) || !isContinuation || (turn !== undefined && !isText(turn))) throw new Error("it is not the conversation of a sub-agent");
    return { sessionKey, alias, owner, continuation, turn };
  } catch (error) {
    if (error.code !== "ENOENT") warn(`"${file}" cannot be read and is skipped: ${error instanceof SyntaxError ? "it is not JSON" : error.message}`);
    return undefined;
  }
}

/** Forgets the conversations that were used least recently. */
function prune(folder) {
  const names = namesIn(folder);
  if (names.length <= MAX_SESSIONS) return;
  const age = (/** @type {string} */ name) => statSync(join(folder, name), { throwIfNoEntry: false })?.mtimeMs ?? 0;
  const oldest = names.map((name) => ({ name, at: age(name) })).sort((a, b) => a.at - b.at);
  for (const { name } of oldest.slice(0, names.length - MAX_SESSIONS)) rmSync(join(folder, name), { force: true });
}

/** Returns what a request continues: the task while it waits or runs, and the conversation. */
function continuationOf(/** @type {Conversation} */ conversation) {
  const { target, task, conversation: talk } = /** @type {Continuation} */ (conversation.continuation);
  return { target, ...(task && isOpenTask(conversation) && { task }), ...(talk && { conversation: talk }) };
}

function isOpenTask(/** @type {Conversation} */ { continuation }) {
  const task = continuation?.task;
  return task !== undefined && !TERMINAL_STATES.includes(task.status ?? "");
}

const isWaiting = (/** @type {Conversation} */ { continuation }) => INTERRUPTED_STATES.includes(continuation?.task?.status ?? "");

const latestOf = (/** @type {Envelope} */ { ok, summary, error }) => (ok ? summary : error?.details?.latest_event_summary);

/** @returns {Caller} */
const callerOf = (host, root, agentId) => ({ agent_id: agentId, session_key: root, state_dir: host.stateDir });

/** @returns {Part[]} */
function partsOf(text, attachments) {
  const files = attachments.map(({ mediaType, data, name }, index) => ({ kind: "file", bytes: data, mime_type: mediaType, name: name ?? `attachment-${index + 1}` }));
  return [...(text || files.length === 0 ? [{ kind: "text", text }] : []), ...files];
}

function errorText({ error }) {
  const message = line(error.message ?? "the call failed").replace(/\.$/, "");
  return error.details?.hint ? `${message}. ${line(error.details.hint)}` : message;
}

const pause = (ms, signal) => sleep(ms, undefined, { signal, ref: false }).catch(() => {});
