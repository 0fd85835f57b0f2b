// An agent on the official JavaScript A2A 0.3 server, for tests on loopback.
//
// The first word of a message selects the agent's behaviour (see `behaviours`). The server has JSON-RPC at `/rpc` and
// HTTP+JSON at `/rest`. It prints `READY <flavour>=<port>` and exits when stdin closes, with the test process. The first
// argument is the folder whose `node_modules` contain the SDK.

import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { setImmediate as nextTurn } from "node:timers/promises";
import { pathToFileURL } from "node:url";

// The SDK as ES modules: its CommonJS bundles do not share their error class, so each error becomes -32603.
const load = (file) => import(pathToFileURL(join(process.argv[2], "node_modules", file)));
const { default: express } = await load("express/index.js");
const sdk = await load("@a2a-js/sdk/dist/server/index.js");
const http = await load("@a2a-js/sdk/dist/server/express/index.js");

const BIG = "0123456789abcdef".repeat((5 * 1024 * 1024) / 16);
const text = (value) => ({ kind: "text", text: value });
const textOf = (message) => message.parts.map((part) => (part.kind === "text" ? part.text : "")).join("");

/** Publishes the events of one task. */
class Work {
  constructor(bus, message, taskId, contextId) {
    Object.assign(this, { bus, message, taskId, contextId });
  }
  ids() {
    return { taskId: this.taskId, contextId: this.contextId };
  }
  reply(value) {
    return { kind: "message", role: "agent", messageId: randomUUID(), parts: [text(value)], ...this.ids() };
  }
  start(state) {
    const status = { state, timestamp: new Date().toISOString() };
    this.bus.publish({ kind: "task", id: this.taskId, contextId: this.contextId, status, history: [this.message] });
  }
  status(state, { message, final = false } = {}) {
    const status = { state, message, timestamp: new Date().toISOString() };
    this.bus.publish({ kind: "status-update", ...this.ids(), status, final });
  }
  async artifact(artifact, { append = false, lastChunk = true } = {}) {
    this.bus.publish({ kind: "artifact-update", ...this.ids(), artifact, append, lastChunk });
    // The server adds later chunks to this object, so every subscriber must write it first.
    await nextTurn();
  }
}

const behaviours = {
  // An artifact in three chunks.
  async task(work, rest) {
    const chunks = ["alpha ", "beta ", rest];
    for (const [index, chunk] of chunks.entries()) {
      const artifact = { artifactId: "answer", name: "answer.txt", parts: [text(chunk)] };
      await work.artifact(artifact, { append: index > 0, lastChunk: index === chunks.length - 1 });
    }
    work.status("completed", { final: true });
  },
  // An artifact in three chunks once another client has subscribed.
  async watched(work, rest) {
    await subscribed(work.bus);
    await behaviours.task(work, rest);
  },
  // One chunk once another client has subscribed, then until cancelled.
  async held(work, rest) {
    await subscribed(work.bus);
    await behaviours.begun(work, rest);
  },
  // One chunk at once, then until cancelled.
  async begun(work, rest) {
    await work.artifact({ artifactId: "answer", parts: [text(rest)] });
    await behaviours.slow(work);
  },
  // Until cancelled.
  async slow(work) {
    await new Promise((resolve) => running.set(work.taskId, resolve));
  },
  async ask(work, rest) {
    work.status("input-required", { message: work.reply(rest), final: true });
  },
  async auth(work, rest) {
    work.status("auth-required", { message: work.reply(rest), final: true });
  },
  async fail(work, rest) {
    work.status("failed", { message: work.reply(rest), final: true });
  },
  async reject(work, rest) {
    work.status("rejected", { message: work.reply(rest), final: true });
  },
  // Reports its parts.
  async parts(work) {
    const others = work.message.parts.filter((part) => part.kind !== "text");
    await work.artifact({ artifactId: "seen", parts: [text(JSON.stringify(others))] });
    work.status("completed", { final: true });
  },
  // Answers with parts.
  async gift(work) {
    const bytes = Buffer.from("00ff68656c6c6f", "hex").toString("base64");
    const parts = [
      { kind: "file", file: { bytes, name: "a.bin", mimeType: "application/octet-stream" } },
      { kind: "file", file: { uri: "https://files.test/b.png", name: "b.png", mimeType: "image/png" } },
      { kind: "data", data: { count: 2, nested: { list: ["x", null, true] } } },
    ];
    await work.artifact({ artifactId: "gift", name: "gift", parts });
    work.status("completed", { final: true });
  },
  // An artifact of 5 MiB.
  async big(work) {
    await work.artifact({ artifactId: "big", parts: [text(BIG)] });
    work.status("completed", { final: true });
  },
};

/** Resolves when another client subscribes to the events of a task. */
function subscribed(bus) {
  return new Promise((resolve) => {
    const on = bus.on.bind(bus);
    bus.on = (name, listener) => {
      on(name, listener);
      if (name === "event") resolve();
      return bus;
    };
  });
}

/** The tasks that wait for a cancellation, each with the function that ends the wait. */
const running = new Map();

const agent = {
  async execute({ userMessage, taskId, contextId, task, context }, bus) {
    const said = textOf(userMessage);
    const colon = said.indexOf(":");
    const word = colon < 0 ? said : said.slice(0, colon);
    const rest = colon < 0 ? "" : said.slice(colon + 1).trim();
    const work = new Work(bus, userMessage, taskId, contextId);
    if (task) {
      // The answer to the question of `ask` or `auth`.
      await work.artifact({ artifactId: "answer", parts: [text(`you said ${said}`)] });
      work.status("completed", { final: true });
    } else if (word === "message" || word === "where") {
      const parts = [text(word === "where" ? context.user.userName : rest)];
      bus.publish({ kind: "message", role: "agent", messageId: randomUUID(), parts, contextId });
    } else if (word === "crash") {
      throw new Error(rest);
    } else {
      work.start("submitted");
      work.status("working");
      await behaviours[word](work, rest);
    }
    bus.finished();
  },
  async cancelTask(taskId, bus) {
    const { contextId } = await tasks.load(taskId);
    new Work(bus, undefined, taskId, contextId).status("canceled", { final: true });
    running.get(taskId)?.();
    running.delete(taskId);
  },
};

const card = (origin) => ({
  protocolVersion: "0.3.0",
  name: "js03",
  description: "Does what the first word of a message says.",
  version: "1.0.0",
  url: `${origin}/rpc`,
  preferredTransport: "JSONRPC",
  additionalInterfaces: [
    { url: `${origin}/rpc`, transport: "JSONRPC" },
    { url: `${origin}/rest`, transport: "HTTP+JSON" },
  ],
  capabilities: { streaming: true, pushNotifications: true, stateTransitionHistory: false },
  defaultInputModes: ["text/plain", "application/json", "application/octet-stream"],
  defaultOutputModes: ["text/plain", "application/json", "application/octet-stream"],
  skills: [{ id: "act", name: "Act", description: "Acts.", tags: ["test"] }],
});

const tasks = new sdk.InMemoryTaskStore();
const app = express();
const server = app.listen(0, "127.0.0.1", () => {
  const { port } = server.address();
  const configs = new sdk.InMemoryPushNotificationStore();
  const sender = new sdk.DefaultPushNotificationSender(configs);
  const described = card(`http://127.0.0.1:${port}`);
  const requestHandler = new sdk.DefaultRequestHandler(described, tasks, agent, undefined, configs, sender);
  // The user's name contains the HTTP path for the agent.
  const userBuilder = async (request) => ({ isAuthenticated: false, userName: request.originalUrl });
  const options = { requestHandler, userBuilder };
  app.use("/.well-known/agent-card.json", http.agentCardHandler({ agentCardProvider: requestHandler }));
  app.use("/rpc", http.jsonRpcHandler(options));
  app.use("/rest", http.restHandler(options));
  console.log(`READY 0.3=${port}`);
});
process.stdin.resume().on("end", () => process.exit(0));
