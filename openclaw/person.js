// Questions of remote agents to the people of a session, through OpenClaw's questions, and their answers.
//
// A question lives in the memory of the gateway, which waits for open questions before it stops, and then accepts no new
// connection. So each question has a connection of its own, over which a signal to stop withdraws it.
import { createHash } from "node:crypto";
import process from "node:process";

import { REFERENCE, chatMessage, gatewayQuestion, nameOf, quoted, quotedReference, readAnswer } from "./question.js";
import { line } from "./text.js";
/** @import {Answer, CallAsker, GatewayConnection, PersonHost, Question} from "./types.d.ts" */

/** The longest time that OpenClaw keeps a question open. Then it is asked again. */
const MAX_OPEN_MS = 900_000;
/** How long a question stays open for the next call that asks it: a call asks again, and a follower goes on after a call. */
const LINGER_MS = 15_000;
/** How much a call may overlap the one that it follows: each has its own clock. */
const OVERLAP_MS = 1000;
/** How long an agent may take to go on after an answer. Until then only the call that has the answer may ask the same again. */
const SETTLE_MS = 10_000;
/** How long a connection waits for the gateway's own answer. */
const EXCHANGE_MS = 10_000;
/** How long a gateway may take to stop. After that, the signal was none to stop. */
const STOP_MS = 330_000;
const STOP_SIGNALS = ["SIGTERM", "SIGINT", "SIGUSR1"];
/** OpenClaw's channel for agents, where no person reads and writes. */
const AGENT_CHANNEL = "a2a";
const MAX_ENDED = 200;
const MAX_NAME_CHARS = 100;

/** @type {Answer} */
const UNREACHABLE = { action: "unreachable" };
/** @type {Answer} */
const TIMEOUT = { action: "timeout" };

/** How a question ended, for a person whose answer comes later. */
const ENDED = {
  answer: "was answered already",
  model: "was left to the agent of the chat",
  decline: "was declined",
  unreachable: "is not open any more",
};
const WITHDRAWN = "is not open any more: its time is over, or the task went on without an answer";

/**
 * A question that is open. `id` is OpenClaw's question about the field `index`; `heardUntil` is when the call that waits for the
 * answer ends, and 0 without such a call.
 * @typedef {{ question: Question, reference: string, sessionKey: string, agentId?: string, connection?: GatewayConnection, id?: string, index: number, isWithdrawn: boolean, outcome: Promise<Answer>, call?: AbortSignal, listener?: object, heardUntil: number, linger?: NodeJS.Timeout }} Asked
 */

/** The questions of one process. */
export class People {
  /** @type {PersonHost | undefined} */
  #host;
  /** @type {Map<string, Asked>} */
  #asked = new Map();
  /** How the latest questions ended. @type {Map<string, { how: string, isAnswered: boolean, call?: AbortSignal, at: number }>} */
  #ended = new Map();
  #count = 0;
  /** @type {NodeJS.Timeout | undefined} */
  #stopping;

  /** Whether the gateway is about to stop, so that it asks no one. */
  get isStopping() {
    return this.#stopping !== undefined;
  }

  /**
   * Starts to ask through a gateway. Returns a function that withdraws the open questions and stops, unless a later evaluation
   * of the plugin has opened it again.
   * @param {PersonHost} host
   */
  open(host) {
    this.#host = host;
    clearTimeout(this.#stopping);
    this.#stopping = undefined;
    const stop = () => {
      this.#stopping ??= setTimeout(() => (this.#stopping = undefined), STOP_MS).unref();
      this.#withdrawAll();
    };
    // Before OpenClaw's own listener, which closes the gateway for new requests.
    for (const signal of STOP_SIGNALS) process.prependListener(signal, stop);
    return () => {
      for (const signal of STOP_SIGNALS) process.off(signal, stop);
      if (this.#host !== host) return;
      this.#host = undefined;
      this.#withdrawAll();
    };
  }

  /**
   * Returns what a call of the session needs to ask a person.
   * @param {{ sessionKey: string, agentId?: string }} session
   * @returns {CallAsker}
   */
  forCall(session) {
    const call = new AbortController();
    /** @type {CallAsker} */
    const asker = {
      isOpen: false,
      ask: async (json) => {
        const question = JSON.parse(json);
        const answer = await this.#ask(question, session, call.signal);
        asker.isOpen = answer.action === "timeout" && question.may_pass_to_model !== true;
        return JSON.stringify(answer);
      },
      end: (isFollowed) => call.abort({ isFollowed }),
    };
    return asker;
  }

  /**
   * Asks a person, unless another call asks the same question. When `signal` aborts, the question is withdrawn, or stays open
   * for a moment if another call follows.
   * @param {Question} question
   * @param {{ sessionKey: string, agentId?: string }} session
   * @param {AbortSignal} signal
   * @returns {Promise<Answer>}
   */
  async #ask(question, { sessionKey, agentId }, signal) {
    const host = this.#host;
    if (!host || this.isStopping || signal.aborted) return UNREACHABLE;
    const reference = createHash("sha256").update(question.id).digest("hex").slice(0, 6);
    const ended = this.#ended.get(reference);
    if (ended?.isAnswered && ended.call !== signal && Date.now() - ended.at < SETTLE_MS) return TIMEOUT;
    const known = this.#asked.get(reference);
    if (known && (known.sessionKey !== sessionKey || known.heardUntil > Date.now() + OVERLAP_MS)) return UNREACHABLE;
    const asked = known ?? this.#start(host, { question, reference, sessionKey, agentId, index: 0, isWithdrawn: false, heardUntil: 0, outcome: Promise.resolve(UNREACHABLE) });
    clearTimeout(asked.linger);
    const listener = (asked.listener = {});
    asked.call = signal;
    asked.heardUntil = Date.now() + question.timeout_ms;
    const answer = await outcomeWithin(asked.outcome, question.timeout_ms, signal);
    // The next call waits for the answer already.
    if (asked.listener !== listener) return TIMEOUT;
    asked.heardUntil = 0;
    if (answer) {
      this.#drop(asked);
      return answer;
    }
    asked.linger = setTimeout(() => this.#withdraw(asked), LINGER_MS).unref();
    const end = () => void (asked.listener === listener && !signal.reason.isFollowed && this.#withdraw(asked));
    if (signal.aborted) end();
    else signal.addEventListener("abort", end, { once: true });
    return TIMEOUT;
  }

  /** @param {Asked} asked */
  #start(host, asked) {
    this.#asked.set(asked.reference, asked);
    // Outside of the turn that starts this, whose authority in OpenClaw ends with it.
    const run = () => this.#askFields(host, asked);
    const failed = (error) => {
      if (!asked.isWithdrawn) host.warn(`cannot ask a person about a task of ${nameOf(asked.question)}: ${line(error?.message ?? error)}`);
      return UNREACHABLE;
    };
    asked.outcome = host.outside(run).catch(failed).then((answer) => {
      asked.connection?.stop();
      if (!asked.isWithdrawn) this.#remember(asked, ENDED[answer.action], answer.action !== "unreachable");
      return answer;
    });
    return asked;
  }

  /**
   * Asks for one field after the other, and for a field again after an answer that does not fit.
   * @param {PersonHost} host
   * @param {Asked} asked
   * @returns {Promise<Answer>}
   */
  async #askFields(host, asked) {
    const { question, reference, sessionKey, agentId } = asked;
    const connection = (asked.connection = await host.connect());
    /** @type {Record<string, unknown>} */
    const content = {};
    /** @type {string | undefined} */
    let by;
    // The library names the field, with the agent's word for it.
    let complaint = question.error && quoted(question.error);
    for (let isPosted = false; asked.index < question.fields.length; ) {
      if (asked.isWithdrawn) return UNREACHABLE;
      const id = (asked.id = `ra_${reference}_${(this.#count += 1)}`);
      const questions = [gatewayQuestion(question, asked.index, complaint)];
      await connection.request("question.request", { id, sessionKey, agentId, timeoutMs: MAX_OPEN_MS, questions }, EXCHANGE_MS);
      // The call may have ended while the gateway registered its question.
      if (asked.isWithdrawn) this.#withdraw(asked);
      else if (!isPosted) await this.#post(host, asked, complaint);
      isPosted = true;
      const { status, answers } = await connection.request("question.waitAnswer", { id, timeoutMs: MAX_OPEN_MS }, MAX_OPEN_MS + EXCHANGE_MS);
      if (asked.isWithdrawn || status === "expired" || status === "pending") continue;
      by = (await resolverOf(connection, id)) ?? by;
      if (status === "cancelled") return { action: "decline", by };
      const read = readAnswer(question, asked.index, String(answers?.answers?.answer?.[0] ?? ""));
      isPosted = false;
      complaint = "problem" in read ? read.problem : undefined;
      if ("problem" in read) continue;
      if (read.action !== "answer") return { action: read.action, by };
      if (read.value !== undefined) content[question.fields[asked.index].name] = read.value;
      asked.index += 1;
    }
    return { action: "answer", content, by };
  }

  /** Posts the question where the session has its chat. Control UI and other clients of the gateway show it by themselves. */
  async #post(host, asked, complaint) {
    const text = chatMessage(asked.question, asked.index, fieldReference(asked), complaint);
    await host.post(asked, text).catch((error) => host.warn(`cannot post a question in the chat of its session: ${line(error?.message ?? error)}`));
  }

  #withdrawAll() {
    for (const asked of this.#asked.values()) this.#withdraw(asked);
  }

  /** @param {Asked} asked */
  #withdraw(asked) {
    if (!asked.isWithdrawn) this.#remember(asked, WITHDRAWN);
    asked.isWithdrawn = true;
    this.#drop(asked);
    // Its end may have been faster.
    if (asked.id) asked.connection?.request("question.resolve", { id: asked.id, cancel: true, resolvedBy: "remote-agent" }, EXCHANGE_MS).catch(() => {});
  }

  #drop(asked) {
    clearTimeout(asked.linger);
    if (this.#asked.get(asked.reference) === asked) this.#asked.delete(asked.reference);
  }

  /** @param {Asked} asked */
  #remember({ reference, call }, how, isAnswered = false) {
    this.#ended.delete(reference);
    this.#ended.set(reference, { how, isAnswered, call, at: Date.now() });
    if (this.#ended.size > MAX_ENDED) this.#ended.delete(/** @type {string} */ (this.#ended.keys().next().value));
  }

  /**
   * Answers an open question of the session with a message of a person. Returns the reply to the person. An operator may
   * answer the questions of every session.
   * @param {string} reference
   * @param {string} text
   * @param {{ sessionKey?: string, by: string, isOperator?: boolean }} person
   */
  async answer(reference, text, { sessionKey, by, isOperator }) {
    const [name] = reference.split("-");
    const asked = this.#asked.get(name);
    if (!asked?.connection || !asked.id || !(isOperator || asked.sessionKey === sessionKey)) return `The question ${reference} ${(!asked && this.#ended.get(name)?.how) || "is not open here"}. Your answer was not sent.`;
    const late = `The question ${reference} was answered already. Your answer was not sent.`;
    if (fieldReference(asked) !== reference) return late;
    const read = readAnswer(asked.question, asked.index, text);
    if ("problem" in read) return `Your answer was not accepted: ${read.problem}. Answer again.`;
    const answers = read.action === "decline" ? { cancel: true } : { answers: { answers: { answer: [read.answer] } } };
    try {
      await asked.connection.request("question.resolve", { id: asked.id, ...answers, resolvedBy: by }, EXCHANGE_MS);
    } catch (error) {
      if (/already|not found/i.test(error?.message)) return late;
      return `Your answer was not sent: ${line(error?.message ?? error)}. Answer again.`;
    }
    if (read.action === "decline") return "Declined: the agent receives no answer.";
    return read.action === "model" ? "The agent of this chat answers." : `Passed on to ${nameOf(asked.question)}.`;
  }

  /**
   * Handles a message in a chat: a reply to a question is its answer. Returns undefined for any other message. In a group only
   * the command counts, because OpenClaw checks who may use a command.
   * @param {{ content: string, channel?: string, sessionKey?: string, senderId?: string, replyToBody?: string, isGroup?: boolean }} event
   * @param {{ channelId?: string, sessionKey?: string, senderId?: string, replyToBody?: string }} context
   */
  async onMessage(event, context) {
    const reference = quotedReference(event.replyToBody ?? context.replyToBody ?? "");
    const channel = event.channel ?? context.channelId;
    if (!reference || event.isGroup || channel === AGENT_CHANNEL) return undefined;
    const by = senderOf(channel, event.senderId ?? context.senderId);
    return { handled: true, text: await this.answer(reference, event.content, { sessionKey: event.sessionKey ?? context.sessionKey, by }) };
  }

  /**
   * Handles the command `/remote-answer`. Without an answer it lists the open questions.
   * @param {{ args?: string, channel?: string, senderId?: string, sessionKey?: string, gatewayClientScopes?: string[] }} context
   */
  async onCommand({ args = "", channel, senderId, sessionKey, gatewayClientScopes }) {
    if (channel === AGENT_CHANNEL) return { text: "Only a person answers, in another chat or in Control UI." };
    const isOperator = gatewayClientScopes?.includes("operator.admin") === true;
    const [, reference = "", text = ""] = /^\s*(\S*)\s*([^]*)$/.exec(args) ?? [];
    if (REFERENCE.test(reference) && text) return { text: await this.answer(reference, text, { sessionKey, by: senderOf(channel, senderId), isOperator }) };
    const open = [...this.#asked.values()].filter((asked) => isOperator || asked.sessionKey === sessionKey);
    const lines = open.map((asked) => `${fieldReference(asked)}: ${nameOf(asked.question)} asks a person`);
    return { text: lines.length > 0 ? `${lines.join("\n")}\nAnswer with \`/remote-answer REFERENCE YOUR ANSWER\`.` : "No remote agent waits for an answer in this chat." };
  }
}

/** Waits for the answer of a person. Resolves to undefined after `ms`, and when `signal` aborts. */
async function outcomeWithin(outcome, ms, signal) {
  const { promise, resolve } = Promise.withResolvers();
  const end = () => resolve(undefined);
  const timer = setTimeout(end, ms);
  signal.addEventListener("abort", end, { once: true });
  const answer = await Promise.race([outcome, promise]);
  clearTimeout(timer);
  signal.removeEventListener("abort", end);
  return answer;
}

/** Returns who answered, as far as the client says so with which the person answered. */
async function resolverOf(connection, id) {
  const found = await connection.request("question.get", { id }, EXCHANGE_MS).catch(() => undefined);
  return found?.question?.resolvedBy && line(found.question.resolvedBy).slice(0, MAX_NAME_CHARS);
}

/** Returns the reference of the field that is asked for: an answer to an earlier field must not count for this one. */
function fieldReference({ question, reference, index }) {
  return question.fields.length > 1 ? `${reference}-${index + 1}` : reference;
}

function senderOf(channel = "chat", sender = "unknown") {
  return `${line(channel)}:${line(sender)}`.slice(0, MAX_NAME_CHARS);
}
