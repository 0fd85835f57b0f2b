// Questions of remote agents to the people of a session, through OpenClaw's questions, and their answers.
//
// A question lives in the memory of the gateway, which waits for open questions before it stops, and then accepts no new
// connection. So each question has a connection of its own, over which a signal to stop withdraws it.
import { randomBytes } from "node:crypto";
import process from "node:process";

import { REFERENCE, chatMessage, gatewayQuestion, linkOf, nameOf, parseQuestion, quoted, readAnswer } from "./question.js";
import { DEFAULT_ACCOUNT, answeredBy, isSender, shownName } from "./sender.js";
import { line } from "./text.js";
/** @import {Answer, CallAsker, Envelope, GatewayConnection, PersonHost, Posted, Question} from "./types.d.ts" */

/** The longest time that OpenClaw keeps a question open. Then it is asked again. */
const MAX_OPEN_MS = 900_000;
/** How long a question stays open for the next call that asks it: a call asks again, and a follower goes on after a call. */
const LINGER_MS = 15_000;
/** How much earlier a wait ends than the library's own: an answer between the two would be lost. */
const MARGIN_MS = 1000;
/** How much a call may overlap the one that it follows: each has its own clock. */
const OVERLAP_MS = 1000;
/** How long an agent may take to go on after an answer. Until then only the call that has the answer may ask the same again. */
const SETTLE_MS = 10_000;
/** How long a connection waits for the gateway's own answer. A busy gateway takes more than ten seconds. */
const EXCHANGE_MS = 30_000;
/** How long a gateway may take to stop. After that, the signal was none to stop. */
const STOP_MS = 330_000;
const STOP_SIGNALS = /** @type {const} */ (["SIGTERM", "SIGINT", "SIGUSR1"]);
/** OpenClaw's channel for agents, where no person reads and writes. */
const AGENT_CHANNEL = "a2a";
/** How many ended questions, and how many messages with questions, are known. */
const MAX_ENDED = 200;
const MAX_POSTS = 200;

/** In the key of a session with several people, and of a session with one person. */
const SHARED = /:(?:group|channel|room|thread|topic):/;
const PERSONAL = /^agent:[^:]+:(?:.*:)?direct:/;

/**
 * Returns whether several people may write in a session.
 * @param {string | undefined} sessionKey
 */
export const isShared = (sessionKey) => sessionKey !== undefined && SHARED.test(sessionKey);

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

/** What the chat reads of an answer that the agent does not have. Other outcomes do not concern the answer. */
const UNSENT = {
  unsent: "was not sent, or the agent did not take it: its task may have ended, or gone on without it",
  invalid: "was not sent: it does not fit the question",
  timeout: "was not sent: its time was over",
};
const FAILED_BEFORE = "was not sent: the call failed before";

/**
 * A session that can be asked, with the sender of the message that it works on.
 * @typedef {{ sessionKey: string, agentId?: string, user?: string }} Session
 */
/**
 * A call that asks. `answered` is its latest question if a person answered it.
 * @typedef {{ signal: AbortSignal, answered?: Asked }} Call
 */
/**
 * A question that is open. `id` is OpenClaw's question about the field `index` while it is registered; `answer` is set once a
 * person answered all fields; `heardUntil` is when the call that waits for the answer ends, and 0 without such a call.
 * @typedef {Session & { question: Question, reference: string, connection?: GatewayConnection, id?: string, index: number, isWithdrawn: boolean, outcome: Promise<Answer>, answer?: Answer, call?: Call, listener?: object, heardUntil: number, linger?: NodeJS.Timeout }} Asked
 */

/** The questions of one process. */
export class People {
  /** @type {PersonHost | undefined} */
  #host;
  /** The open questions by their ids. @type {Map<string, Asked>} */
  #asked = new Map();
  /** How the latest questions ended, by their references. @type {Map<string, { id: string, sessionKey: string, how: string, isAnswered: boolean, call?: Call, at: number }>} */
  #ended = new Map();
  /** The latest messages with questions. @type {(Posted & Session & { reference: string })[]} */
  #posts = [];
  #count = 0;
  /** @type {NodeJS.Timeout | undefined} */
  #stopping;
  /** What else has to end before the gateway stops. @type {Set<() => void>} */
  stopListeners = new Set();

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
      for (const listener of this.stopListeners) listener();
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
   * @param {Session} session
   * @returns {CallAsker}
   */
  forCall(session) {
    const end = new AbortController();
    /** @type {Call} */
    const call = { signal: end.signal };
    /** @type {CallAsker} */
    const asker = {
      isOpen: false,
      ask: async (json) => {
        const question = parseQuestion(json);
        if (question.withdrawn) return this.#withdrawId(question.id, session);
        call.answered = undefined;
        const answer = await this.#ask(question, session, call);
        // A sign-in is over before the task begins.
        asker.isOpen = answer.action === "timeout" && !question.sign_in && question.may_pass_to_model !== true;
        return JSON.stringify(answer);
      },
      end: (isFollowed, envelope) => {
        end.abort({ isFollowed });
        const what = call.answered && unsentBy(call.answered, envelope);
        if (call.answered && what) this.#postUnsent(call.answered, what);
      },
    };
    return asker;
  }

  /**
   * Asks a person, unless another call asks the same question. When the call ends, the question is withdrawn, or stays open
   * for a moment if another call follows.
   * @param {Question} question
   * @param {Session} session
   * @param {Call} call
   * @returns {Promise<Answer>}
   */
  async #ask(question, session, call) {
    const host = this.#host;
    const { signal } = call;
    if (!host || this.isStopping || signal.aborted) return UNREACHABLE;
    // The error has the command. Where several people write, any of them could sign in with an account of their own.
    if (question.sign_in && (isShared(session.sessionKey) || !linkOf(question))) return UNREACHABLE;
    const ms = Math.max(question.timeout_ms - MARGIN_MS, 0);
    const known = this.#asked.get(question.id);
    const settled = known ? undefined : [...this.#ended.values()].find(({ id, isAnswered, call: other }) => id === question.id && isAnswered && other !== call);
    const settling = settled ? settled.at + SETTLE_MS - Date.now() : 0;
    if (settling > 0) {
      // The task may have gone on by then, which the next call sees.
      await outcomeWithin(Promise.withResolvers().promise, Math.min(settling, ms), signal);
      return TIMEOUT;
    }
    if (known && (known.sessionKey !== session.sessionKey || known.heardUntil > Date.now() + OVERLAP_MS)) return UNREACHABLE;
    const asked = known ?? this.#start(host, { ...session, question, reference: this.#newReference(), index: 0, isWithdrawn: false, heardUntil: 0, outcome: Promise.resolve(UNREACHABLE) });
    clearTimeout(asked.linger);
    const listener = (asked.listener = {});
    asked.call = call;
    asked.heardUntil = Date.now() + ms;
    const answer = await outcomeWithin(asked.outcome, ms, signal);
    // The next call waits for the answer already.
    if (asked.listener !== listener) return TIMEOUT;
    asked.heardUntil = 0;
    if (answer) {
      this.#drop(asked);
      if (!asked.isWithdrawn) this.#remember(asked, ENDED[answer.action], answer.action !== "unreachable");
      // A sign-in says by itself what became of it.
      if (answer.action === "answer" && !question.sign_in) call.answered = asked;
      return answer;
    }
    asked.linger = setTimeout(() => this.#withdraw(asked), LINGER_MS).unref();
    const end = () => void (asked.listener === listener && !signal.reason.isFollowed && this.#withdraw(asked));
    if (signal.aborted) end();
    else signal.addEventListener("abort", end, { once: true });
    return TIMEOUT;
  }

  /** Returns a reference that no question has which a person may still see. An agent cannot predict it. */
  #newReference() {
    for (;;) {
      const reference = randomBytes(3).toString("hex");
      if (!this.#ended.has(reference) && !this.#withReference(reference)) return reference;
    }
  }

  #withReference(reference) {
    return [...this.#asked.values()].find((asked) => asked.reference === reference);
  }

  /** @param {Asked} asked */
  #start(host, asked) {
    this.#asked.set(asked.question.id, asked);
    // Outside of the turn that starts this, whose authority in OpenClaw ends with it.
    const run = () => this.#askFields(host, asked);
    const failed = (error) => {
      if (!asked.isWithdrawn) host.warn(`cannot ask a person about a task of ${nameOf(asked.question)}: ${line(error?.message ?? error)}`);
      return UNREACHABLE;
    };
    asked.outcome = host.outside(run).catch(failed).then((answer) => {
      asked.connection?.stop();
      return (asked.answer = answer);
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
    // Without a prototype: the agent names the fields, and one may be `__proto__`.
    /** @type {Record<string, unknown>} */
    const content = Object.create(null);
    /** @type {string | undefined} */
    let by;
    // The library names the field, with the agent's word for it.
    let complaint = question.error && quoted(question.error);
    for (let isPosted = false; asked.index < question.fields.length; ) {
      if (asked.isWithdrawn) return UNREACHABLE;
      const id = `ra_${reference}_${(this.#count += 1)}`;
      const questions = [gatewayQuestion(question, asked.index, complaint)];
      await connection.request("question.request", { id, sessionKey, agentId, timeoutMs: MAX_OPEN_MS, questions }, EXCHANGE_MS);
      asked.id = id;
      // The call may have ended while the gateway registered its question.
      if (asked.isWithdrawn) this.#withdraw(asked);
      else if (!isPosted) await this.#post(host, asked, complaint);
      isPosted = true;
      const { status, answers } = await connection.request("question.waitAnswer", { id, timeoutMs: MAX_OPEN_MS }, MAX_OPEN_MS + EXCHANGE_MS);
      asked.id = undefined;
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

  /**
   * Posts the question where the session has its chat. Control UI and other clients of the gateway show it by themselves.
   * @param {PersonHost} host
   * @param {Asked} asked
   */
  async #post(host, asked, complaint) {
    const { sessionKey, agentId, user } = asked;
    const reference = fieldReference(asked);
    const text = chatMessage(asked.question, asked.index, reference, complaint);
    const posted = await host.post(asked, text).catch((error) => host.warn(`cannot post a question in the chat of its session: ${line(error?.message ?? error)}`));
    if (!posted) return;
    this.#posts.push({ ...posted, reference, sessionKey, agentId, user });
    if (this.#posts.length > MAX_POSTS) this.#posts.shift();
  }

  /**
   * Posts that the agent does not receive an answer, of which the person read that it was received.
   * @param {Asked} asked
   * @param {string} what
   */
  #postUnsent(asked, what) {
    const host = this.#host;
    // A gateway that stops accepts no connection.
    if (!host || this.isStopping) return;
    const { question, reference } = asked;
    const post = async () => {
      const connection = await host.connect();
      const text = `The answer to the question ${reference} of the remote agent ${nameOf(question)} ${what}.`;
      await host.post({ ...asked, connection, id: `ra_${reference}_unsent` }, text).finally(() => connection.stop());
    };
    host.outside(post).catch((error) => host.warn(`cannot post that an answer was not sent: ${line(error?.message ?? error)}`));
  }

  #withdrawAll() {
    for (const asked of this.#asked.values()) this.#withdraw(asked);
  }

  /** @param {Asked} asked */
  #withdraw(asked) {
    if (!asked.isWithdrawn) {
      this.#remember(asked, WITHDRAWN);
      if (asked.answer?.action === "answer") this.#postUnsent(asked, UNSENT.timeout);
    }
    asked.isWithdrawn = true;
    this.#drop(asked);
    // Its end may have been faster.
    if (asked.id) asked.connection?.request("question.resolve", { id: asked.id, cancel: true, resolvedBy: "remote-agent" }, EXCHANGE_MS).catch(() => {});
  }

  /** Closes the question of a sign-in that is over. */
  #withdrawId(id, { sessionKey }) {
    const asked = this.#asked.get(id);
    if (asked && asked.sessionKey === sessionKey) this.#withdraw(asked);
    return "{}";
  }

  #drop(asked) {
    clearTimeout(asked.linger);
    if (this.#asked.get(asked.question.id) === asked) this.#asked.delete(asked.question.id);
  }

  /** @param {Asked} asked */
  #remember({ question: { id }, reference, sessionKey, call }, how, isAnswered = false) {
    this.#ended.delete(reference);
    this.#ended.set(reference, { id, sessionKey, how, isAnswered, call, at: Date.now() });
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
    const [name, number = "1"] = reference.split("-");
    const isOfPerson = (of) => isOperator || of?.sessionKey === sessionKey;
    const unsent = (/** @type {string} */ how) => `The question ${reference} ${how}. Your answer was not sent.`;
    const howEnded = () => {
      const ended = this.#ended.get(name);
      return ended && isOfPerson(ended) ? ended.how : undefined;
    };
    const asked = this.#withReference(name);
    if (!asked || !isOfPerson(asked)) return unsent(howEnded() ?? "is not open here");
    if (asked.answer) return unsent(ENDED[asked.answer.action]);
    if (Number(number) <= asked.index) return unsent(ENDED.answer);
    if (fieldReference(asked) !== reference) return unsent("is not open here");
    if (!asked.connection || !asked.id) return `${unsent("is not open at the moment")} Try again.`;
    const read = readAnswer(asked.question, asked.index, text);
    if ("problem" in read) return `Your answer was not accepted: ${read.problem}. Answer again.`;
    const answers = read.action === "decline" ? { cancel: true } : { answers: { answers: { answer: [read.answer] } } };
    try {
      await asked.connection.request("question.resolve", { id: asked.id, ...answers, resolvedBy: by }, EXCHANGE_MS);
    } catch (error) {
      const how = /already answered/i.test(error?.message) ? ENDED.answer : howEnded();
      return how ? unsent(how) : `Your answer was not sent: ${line(error?.message ?? error)}. Try again.`;
    }
    if (read.action === "decline") return "Declined: the agent receives no answer.";
    // The library sends the answer only to a task that still waits for it.
    if (asked.question.sign_in) return "Received.";
    return read.action === "model" ? "The agent of this chat answers." : `Received. ${nameOf(asked.question)} gets the answer if its task still waits for it.`;
  }

  /**
   * Handles a message in a chat: a reply to the message with a question is its answer. Returns undefined for any other message.
   * Where several people write, a reply counts only from the person whom the question is for: OpenClaw does not say here whether
   * another one may use commands. All others have the command.
   * @param {{ content: string, channel?: string, sessionKey?: string, senderId?: string, replyToId?: string, replyToIdFull?: string, isGroup?: boolean }} event
   * @param {{ channelId?: string, accountId?: string, conversationId?: string, sessionKey?: string, senderId?: string }} context
   */
  async onMessage(event, context) {
    const { content, channel = context.channelId, sessionKey = context.sessionKey, senderId = context.senderId, isGroup } = event;
    const { accountId = DEFAULT_ACCOUNT, conversationId } = context;
    if (!channel || !sessionKey || !conversationId || channel === AGENT_CHANNEL) return undefined;
    const post = this.#posts.find(
      (post) =>
        [event.replyToId, event.replyToIdFull].includes(post.messageId) &&
        post.channel === channel &&
        (post.accountId ?? DEFAULT_ACCOUNT) === accountId &&
        post.sessionKey === sessionKey &&
        isConversation(post, conversationId),
    );
    if (!post) return undefined;
    const hasOthers = isGroup || isShared(sessionKey);
    const isAddressee = senderId && (isSender(post.user, channel, accountId, senderId) || (!hasOthers && idIn(post.to, channel) === senderId));
    if ((hasOthers || !PERSONAL.test(sessionKey)) && !isAddressee) return undefined;
    return { handled: true, text: await this.answer(post.reference, content, { sessionKey, by: answeredBy(channel, senderId) }) };
  }

  /**
   * Handles the command `/remote-answer`. Without an answer it lists the open questions.
   * @param {{ args?: string, channel?: string, senderId?: string, sessionKey?: string, gatewayClientScopes?: string[] }} context
   */
  async onCommand({ args = "", channel, senderId, sessionKey, gatewayClientScopes }) {
    if (channel === AGENT_CHANNEL) return { text: "Only a person answers, in another chat or in Control UI." };
    const isOperator = gatewayClientScopes?.includes("operator.admin") === true;
    const [, reference = "", text = ""] = /^\s*(\S*)\s*([^]*)$/.exec(args) ?? [];
    if (REFERENCE.test(reference) && text) return { text: await this.answer(reference, text, { sessionKey, by: answeredBy(channel, senderId), isOperator }) };
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

/**
 * Returns what became of the answer of a person if, as the result of the library says, the agent does not have it.
 * @param {Asked} asked
 * @param {Envelope} [envelope]
 * @returns {string | undefined}
 */
function unsentBy({ question }, envelope) {
  const failure = envelope?.ok === false ? envelope.error.details : undefined;
  const { outcome = "", question_id: id } = (failure ? failure.latest_event_summary : envelope?.summary)?.person ?? {};
  if (id === question.id) return UNSENT[outcome];
  return failure?.delivered === "no" ? FAILED_BEFORE : undefined;
}

/** Returns the id of a person or a conversation in a channel, which has prefixes in some places. */
function idIn(to, channel) {
  const [prefix, ...rest] = to.split(":");
  return rest.length > 0 && [channel, "channel", "chat", "user", "group", "direct", "dm"].includes(prefix.toLowerCase()) ? idIn(rest.join(":"), channel) : to;
}

/**
 * Returns whether a message was posted in this conversation, whose id contains the thread in some channels.
 * @param {Posted} post
 * @param {string} conversationId
 */
function isConversation({ channel, to, threadId }, conversationId) {
  const [posted, other] = [idIn(to, channel), idIn(conversationId, channel)];
  return posted === other || (threadId !== undefined && [`${posted}:topic:${threadId}`, `${posted}:${threadId}`, threadId].includes(other));
}

/** Returns who answered, as far as the client says so with which the person answered. */
async function resolverOf(connection, id) {
  const found = await connection.request("question.get", { id }, EXCHANGE_MS).catch(() => undefined);
  return found?.question?.resolvedBy && shownName(found.question.resolvedBy);
}

/** Returns the reference of the field that is asked for: an answer to an earlier field must not count for this one. */
function fieldReference({ question, reference, index }) {
  return question.fields.length > 1 ? `${reference}-${index + 1}` : reference;
}
