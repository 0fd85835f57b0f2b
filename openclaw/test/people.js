// The people of a session and OpenClaw's questions to them, for the tests.
import assert from "node:assert/strict";
import { EventEmitter, once } from "node:events";
import { afterEach, mock } from "node:test";
import { People } from "../person.js";

/** OpenClaw's questions, as far as a client sees them. */
class Questions extends EventEmitter {
  /** All requested questions, the oldest first. */
  all = [];
  posted = [];
  warned = [];
  connections = 0;
  /** Where the chat of the session is, with the ids of its messages. */
  place = { channel: "telegram", accountId: "default", to: "telegram:42" };

  host = {
    outside: (run) => run(),
    warn: (line) => this.warned.push(line),
    post: async (_asked, text) => (this.posted.push(text), this.place && { ...this.place, messageId: `m-${this.posted.length}` }),
    connect: async () => {
      this.connections += 1;
      return { request: (method, params) => this.request(method, params), stop: () => void (this.connections -= 1) };
    },
  };

  async request(method, { id, questions, answers, cancel, resolvedBy, sessionKey, timeoutMs }) {
    const found = this.all.find((question) => question.id === id);
    if (method === "question.request") {
      const asked = { id, ...questions[0], sessionKey, timeoutMs, status: "pending", ended: Promise.withResolvers() };
      this.all.push(asked);
      this.emit("asked", asked);
      return { id };
    }
    if (!found) throw new Error(`question '${id}' was not found`);
    if (method === "question.get") return { question: { resolvedBy: found.resolvedBy } };
    if (method === "question.waitAnswer") return found.ended.promise;
    assert.equal(method, "question.resolve");
    if (found.status !== "pending") throw new Error(`question '${id}' is already ${found.status}`);
    if (answers && found.options.length > 0 && !found.isOther && !found.options.some(({ label }) => label === answers.answers.answer[0])) throw new Error("unknown option");
    Object.assign(found, { status: cancel ? "cancelled" : "answered", resolvedBy });
    found.ended.resolve({ status: found.status, ...(answers && { answers }) });
    return { status: found.status };
  }

  /** Answers the latest question, as Control UI does. */
  reply(text) {
    return this.request("question.resolve", { id: this.all.at(-1).id, answers: { answers: { answer: [text] } } });
  }

  async next(number = this.all.length + 1) {
    while (this.all.length < number) await once(this, "asked");
    return this.all.at(-1);
  }
}

export const answerField = { name: "answer", title: "Answer", type: "text", required: true };
export const question = (more) => ({
  id: "q-1",
  kind: "input",
  target: "support",
  agent: "Support desk",
  origin: "https://support.example",
  chain: [],
  task: "Order ten chairs",
  text: "Which region?",
  fields: [answerField],
  warnings: [],
  may_pass_to_model: false,
  timeout_ms: 60_000,
  ...more,
});
export const session = { sessionKey: "agent:main:telegram:direct:42", agentId: "main" };
export const here = { sessionKey: session.sessionKey, by: "telegram:42" };

const closers = [];
/** Ends what the test has opened so far. */
export const closeAll = () => closers.splice(0).forEach((close) => close());
afterEach(() => {
  closeAll();
  mock.timers.reset();
});

export function open() {
  const [people, questions] = [new People(), new Questions()];
  closers.push(people.open(questions.host));
  const ask = (more, of = session) => {
    const call = people.forCall(of);
    return { ...call, call, answer: call.ask(JSON.stringify(question(more))).then(JSON.parse) };
  };
  /** The reference of the latest question that was posted in a chat. */
  const reference = () => /Question (\S+) of/.exec(questions.posted.at(-1))[1];
  return { people, questions, ask, reference };
}
