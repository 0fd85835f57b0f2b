// Agents on the official JavaScript A2A 1.0 server, for tests on loopback.
//
// The first word of a message selects the agent's behaviour (see `behaviours`). A server with only 1.0 and one with 0.3 too
// listen on a port each: JSON-RPC at `/rpc`, HTTP+JSON at `/rest`. Prints `READY <flavour>=<port>…` and exits when stdin
// closes, with the test process. The first argument is the folder whose `node_modules` contain the SDK.

import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { join } from "node:path";
import { setImmediate as nextTurn } from "node:timers/promises";
import { pathToFileURL } from "node:url";

const load = (file) => import(pathToFileURL(join(process.argv[2], "node_modules", file)));
const { default: express } = await load("express/index.js");
const sdk = await load("@a2a-js/sdk/dist/server/index.js");
const { TaskState, Role } = await load("@a2a-js/sdk/dist/index.js");
const http = await load("@a2a-js/sdk/dist/server/express/index.js");
const legacy = await load("@a2a-js/sdk/dist/compat/v0_3/server/index.js");

const { AgentEvent } = sdk;
const BIG = "0123456789abcdef".repeat((5 * 1024 * 1024) / 16);
const part = (content, filename = "", mediaType = "") => ({ content, filename, mediaType, metadata: undefined });
const text = (value) => part({ $case: "text", value });
const textOf = (message) => message.parts.map(({ content }) => (content?.$case === "text" ? content.value : "")).join("");

/** Publishes the events of one task. */
class Work {
  constructor(bus, message, taskId, contextId) {
    Object.assign(this, { bus, message, taskId, contextId });
  }
  ids() {
    return { taskId: this.taskId, contextId: this.contextId };
  }
  reply(value, ids = this.ids()) {
    const more = { metadata: undefined, extensions: [], referenceTaskIds: [] };
    return { role: Role.ROLE_AGENT, messageId: randomUUID(), parts: [text(value)], ...more, ...ids };
  }
  start(state) {
    const status = { state, message: undefined, timestamp: new Date().toISOString() };
    const history = [this.message];
    const task = { id: this.taskId, contextId: this.contextId, status, artifacts: [], history, metadata: undefined };
    this.bus.publish(AgentEvent.task(task));
  }
  status(state, message) {
    const status = { state, message, timestamp: new Date().toISOString() };
    this.bus.publish(AgentEvent.statusUpdate({ ...this.ids(), status, metadata: undefined }));
  }
  async artifact({ artifactId, name = "", parts }, { append = false, lastChunk = true } = {}) {
    const artifact = { artifactId, name, description: "", parts, metadata: undefined, extensions: [] };
    this.bus.publish(AgentEvent.artifactUpdate({ ...this.ids(), artifact, append, lastChunk, metadata: undefined }));
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
    work.status(TaskState.TASK_STATE_COMPLETED);
  },
  // An artifact in three chunks once another client has subscribed.
  async watched(work, rest) {
    await work.watched;
    await behaviours.task(work, rest);
  },
  // One chunk once another client has subscribed, then until cancelled.
  async held(work, rest) {
    await work.watched;
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
    work.status(TaskState.TASK_STATE_INPUT_REQUIRED, work.reply(rest));
  },
  // Asks with a form. Only this server has it, for the clients of MCP.
  async form(work, rest) {
    const properties = {
      when: { type: "string", title: "Day", enum: ["mon", "tue"], enumNames: ["Monday", "Tuesday"] },
      seats: { type: "integer", title: "Seats" },
      aisle: { type: "boolean", title: "Aisle seat" },
    };
    const schema = part({ $case: "data", value: { schema: { type: "object", properties, required: ["when", "seats"] } } });
    work.status(TaskState.TASK_STATE_INPUT_REQUIRED, { ...work.reply(rest), parts: [text(rest), schema] });
  },
  async auth(work, rest) {
    work.status(TaskState.TASK_STATE_AUTH_REQUIRED, work.reply(rest));
  },
  async fail(work, rest) {
    work.status(TaskState.TASK_STATE_FAILED, work.reply(rest));
  },
  async reject(work, rest) {
    work.status(TaskState.TASK_STATE_REJECTED, work.reply(rest));
  },
  // Reports its parts.
  async parts(work) {
    const seen = work.message.parts.filter(({ content }) => content?.$case !== "text").map(written);
    await work.artifact({ artifactId: "seen", parts: [text(JSON.stringify(seen))] });
    work.status(TaskState.TASK_STATE_COMPLETED);
  },
  // Answers with parts.
  async gift(work) {
    const parts = [
      part({ $case: "raw", value: Buffer.from("00ff68656c6c6f", "hex") }, "a.bin", "application/octet-stream"),
      part({ $case: "url", value: "https://files.test/b.png" }, "b.png", "image/png"),
      part({ $case: "data", value: { count: 2, nested: { list: ["x", null, true] } } }),
    ];
    await work.artifact({ artifactId: "gift", name: "gift", parts });
    work.status(TaskState.TASK_STATE_COMPLETED);
  },
  // An artifact of 5 MiB.
  async big(work) {
    await work.artifact({ artifactId: "big", parts: [text(BIG)] });
    work.status(TaskState.TASK_STATE_COMPLETED);
  },
};

/** Their tasks are `working` from the first event on: a client that does not wait receives this state. */
const waiting = new Set(["watched", "held", "begun", "slow"]);

const messages = {
  message: (_request, rest) => rest,
  // How often a text came.
  count: (_request, rest) => String(seen.get(rest) ?? 0),
  where: ({ context }) => context.state.get(sdk.STATE_HEADERS_KEY)["x-path"],
  tenant: ({ context }) => context.tenant ?? "",
  // Activates the extensions that the client requests, and reports what came with the message.
  extension({ context, userMessage }) {
    for (const uri of context.requestedExtensions ?? []) context.addActivatedExtension(uri);
    return JSON.stringify({ extensions: userMessage.extensions, metadata: userMessage.metadata });
  },
};

/** Returns a part in the form of the protocol. */
function written({ content, filename, mediaType }) {
  const value = content.$case === "raw" ? Buffer.from(content.value).toString("base64") : content.value;
  return { [content.$case]: value, ...(filename && { filename }), ...(mediaType && { mediaType }) };
}

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
const contexts = new Map();
/** How often each text came. */
const seen = new Map();

const agent = {
  async execute(request, bus) {
    const { userMessage, taskId, contextId, task } = request;
    const said = textOf(userMessage);
    seen.set(said, (seen.get(said) ?? 0) + 1);
    const colon = said.indexOf(":");
    const word = colon < 0 ? said : said.slice(0, colon);
    const rest = colon < 0 ? "" : said.slice(colon + 1).trim();
    const work = new Work(bus, userMessage, taskId, contextId);
    contexts.set(taskId, contextId);
    if (task) {
      // The answer to the question of `ask` or `auth`.
      bus.publish(AgentEvent.task(task));
      await work.artifact({ artifactId: "answer", parts: [text(`you said ${said}`)] });
      work.status(TaskState.TASK_STATE_COMPLETED);
    } else if (messages[word]) {
      bus.publish(AgentEvent.message(work.reply(messages[word](request, rest), { taskId: "", contextId })));
    } else if (word === "crash") {
      throw new Error(rest);
    } else {
      work.watched = subscribed(bus);
      work.start(waiting.has(word) ? TaskState.TASK_STATE_WORKING : TaskState.TASK_STATE_SUBMITTED);
      if (!waiting.has(word)) work.status(TaskState.TASK_STATE_WORKING);
      await behaviours[word](work, rest);
    }
    bus.finished();
  },
  async cancelTask(taskId, bus) {
    new Work(bus, undefined, taskId, contexts.get(taskId)).status(TaskState.TASK_STATE_CANCELED);
    running.get(taskId)?.();
    running.delete(taskId);
  },
};

const declared = (url, protocolBinding, protocolVersion) => ({ url, protocolBinding, protocolVersion, tenant: "" });

const card = (origin, hybrid, extensions) => ({
  name: "js13",
  description: "Does what the first word of a message says.",
  version: "1.0.0",
  supportedInterfaces: [
    ...(hybrid ? [declared(`${origin}/rpc`, "JSONRPC", "0.3"), declared(`${origin}/rest`, "HTTP+JSON", "0.3")] : []),
    declared(`${origin}/rpc`, "JSONRPC", "1.0"),
    declared(`${origin}/rest`, "HTTP+JSON", "1.0"),
  ],
  provider: undefined,
  capabilities: { streaming: true, pushNotifications: true, extensions, extendedAgentCard: false },
  securitySchemes: {},
  securityRequirements: [],
  defaultInputModes: ["text/plain", "application/json", "application/octet-stream"],
  defaultOutputModes: ["text/plain", "application/json", "application/octet-stream"],
  skills: [
    { id: "act", name: "Act", description: "Acts.", tags: ["test"] },
  ].map((skill) => ({ examples: [], inputModes: [], outputModes: [], securityRequirements: [], ...skill })),
  signatures: [],
});

/** Starts one flavour and returns its port. */
async function serve(hybrid, extensions = []) {
  const app = express();
  const server = app.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  const legacyCompat = { enabled: hybrid };
  const configs = new sdk.InMemoryPushNotificationStore();
  const sender = hybrid
    ? legacy.createLegacyAwarePushNotificationSender(configs)
    : new sdk.DefaultPushNotificationSender(configs);
  const described = card(`http://127.0.0.1:${port}`, hybrid, extensions);
  const tasks = new sdk.InMemoryTaskStore();
  const requestHandler = new sdk.DefaultRequestHandler(described, tasks, agent, undefined, configs, sender);
  const options = { requestHandler, userBuilder: http.UserBuilder.noAuthentication, legacyCompat };
  // A header contains the HTTP path for the agent.
  app.use((request, _response, next) => {
    request.headers["x-path"] = request.originalUrl;
    next();
  });
  app.use("/.well-known/agent-card.json", http.agentCardHandler({ agentCardProvider: requestHandler, legacyCompat }));
  app.use("/rpc", http.jsonRpcHandler(options));
  app.use("/rest", http.restHandler(options));
  return port;
}

const greeting = { uri: "https://peers.test/greeting/v1", description: "", required: true, params: { tone: "kind" } };
console.log(`READY 1.0=${await serve(false)} hybrid=${await serve(true)} extension=${await serve(true, [greeting])}`);
process.stdin.resume().on("end", () => process.exit(0));
