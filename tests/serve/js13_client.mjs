// Calls the operations of a server in order, with the official JavaScript client of A2A 1.0.
//
//     node js13_client.mjs PACKAGES ORIGIN BINDING VERSION HOOK
//
// Fetches the card at ORIGIN, uses only its interface of BINDING and VERSION, and prints the result of each operation as a
// line of JSON, in the same form for every client. PACKAGES is the folder of the client, HOOK the URL of a webhook.

import { randomUUID } from "node:crypto";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [packages, ORIGIN, BINDING, VERSION, HOOK] = process.argv.slice(2);
const require = createRequire(`${packages}/package.json`);
const load = (name) => import(pathToFileURL(require.resolve(name)));
const { ClientFactory, ClientFactoryOptions, DefaultAgentCardResolver, JsonRpcTransportFactory, RestTransportFactory } =
  await load("@a2a-js/sdk/client");
const { Role, TaskState, taskStateToJSON } = await load("@a2a-js/sdk");
const MISSING = "no-such-task";

const legacyCompat = { enabled: VERSION === "0.3" };
const resolver = new DefaultAgentCardResolver({ legacyCompat });
const options = ClientFactoryOptions.createFrom(ClientFactoryOptions.default, {
  transports: [new JsonRpcTransportFactory({ legacyCompat }), new RestTransportFactory({ legacyCompat })],
  cardResolver: resolver,
});
const card = await resolver.resolve(ORIGIN);
card.supportedInterfaces = card.supportedInterfaces.filter(
  (one) => one.protocolBinding === BINDING && one.protocolVersion === VERSION,
);
const client = await new ClientFactory(options).createFromAgentCard(card);

const state = (status) => taskStateToJSON(status.state).replace("TASK_STATE_", "").toLowerCase().replaceAll("_", "-");
const text = (parts) => parts.map((part) => (part.content?.$case === "text" ? part.content.value : "")).join("");
const artifactText = (task) => task.artifacts.map((artifact) => text(artifact.parts)).join("");
const part = ($case, value, more) => ({ content: { $case, value }, filename: "", mediaType: "", ...more });

function asking(what, { more = [], task, ...configuration } = {}) {
  const message = { messageId: randomUUID(), role: Role.ROLE_USER, parts: [part("text", what), ...more] };
  if (task) Object.assign(message, { taskId: task.id, contextId: task.contextId });
  return { message, configuration };
}
const send = (what, more) => client.sendMessage(asking(what, more));
const atOnce = (what) => send(what, { returnImmediately: true });

async function follow(events) {
  let first, last;
  let seen = "";
  for await (const { payload } of events) {
    first ??= payload.$case;
    if (payload.$case === "task") [seen, last] = [artifactText(payload.value), state(payload.value.status)];
    if (payload.$case === "statusUpdate") last = state(payload.value.status);
    if (payload.$case === "artifactUpdate") seen += text(payload.value.artifact.parts);
  }
  return { first, state: last, text: seen };
}

const operations = {
  async card() {
    return { name: card.name, streaming: card.capabilities.streaming };
  },
  async send() {
    const task = await send("task hello");
    return { state: state(task.status), text: artifactText(task) };
  },
  async message() {
    return { text: text((await send("message hello")).parts) };
  },
  async return_immediately() {
    const task = await atOnce("slow");
    await client.cancelTask({ id: task.id });
    return { settled: !["submitted", "working"].includes(state(task.status)) };
  },
  async parts() {
    const data = part("raw", Buffer.from([0, 255, ...Buffer.from("hello")]), {
      filename: "a.bin",
      mediaType: "application/octet-stream",
    });
    const link = part("url", "https://files.test/b.png", { mediaType: "image/png" });
    const task = await send("parts", { more: [data, link] });
    return task.artifacts[0].parts[0].content.value;
  },
  async artifact_parts() {
    const [raw, link, data] = (await send("gift")).artifacts[0].parts.map((one) => one.content.value);
    return { bytes: Buffer.from(raw).toString("base64"), link, data };
  },
  async fail() {
    const task = await send("fail because");
    return { state: state(task.status), text: text(task.status.message.parts) };
  },
  async reject() {
    const task = await send("reject because");
    return { state: state(task.status), text: text(task.status.message.parts) };
  },
  async ask() {
    const first = await send("ask which?");
    const second = await send("blue", { task: first });
    return {
      first_state: state(first.status),
      question: text(first.status.message.parts),
      state: state(second.status),
      text: artifactText(second),
      same: first.id === second.id,
    };
  },
  async stream() {
    return follow(client.sendMessageStream(asking("stream 5 1")));
  },
  async resubscribe() {
    let task;
    for await (const { payload } of client.sendMessageStream(asking("stream 20 20"))) {
      if (payload.$case === "task") task = payload.value;
      if (payload.$case === "artifactUpdate") break;
    }
    return follow(client.resubscribeTask({ id: task.id }));
  },
  async get() {
    const task = await send("echo hello");
    const fetched = await client.getTask({ id: task.id });
    return { state: state(fetched.status), text: artifactText(fetched), history: text(fetched.history[0].parts) };
  },
  async list() {
    const task = await send("echo hello");
    const listed = await client.listTasks({ contextId: task.contextId, includeArtifacts: true });
    return { texts: listed.tasks.map(artifactText), total: listed.totalSize };
  },
  async cancel() {
    const task = await atOnce("slow");
    return { state: state((await client.cancelTask({ id: task.id })).status) };
  },
  async push_configs() {
    const { id: taskId } = await atOnce("slow");
    const one = { taskId, id: "hook-1" };
    const created = await client.createTaskPushNotificationConfig({ ...one, url: HOOK, token: "tok" });
    const fetched = await client.getTaskPushNotificationConfig(one);
    const listed = await client.listTaskPushNotificationConfig({ taskId });
    await client.deleteTaskPushNotificationConfig(one);
    const remaining = await client.listTaskPushNotificationConfig({ taskId });
    await client.cancelTask({ id: taskId });
    return {
      created: created.url === HOOK,
      fetched: fetched.id,
      listed: listed.configs.map((config) => config.id),
      remaining: remaining.configs.length,
    };
  },
  async push() {
    const authentication = { scheme: "Bearer", credentials: "cred" };
    const task = await send("echo hello", { taskPushNotificationConfig: { url: HOOK, token: "tok", authentication } });
    return { task: task.id };
  },
  async not_found() {
    return client.getTask({ id: MISSING });
  },
  async not_cancelable() {
    const task = await send("echo hello");
    return client.cancelTask({ id: task.id });
  },
  async bad_webhook() {
    const task = await send("echo hello");
    return client.createTaskPushNotificationConfig({ taskId: task.id, id: "hook-1", url: "ftp://hook.test/" });
  },
};

const late = () => new Promise((_, refuse) => setTimeout(refuse, 20_000, new Error("no answer in 20 seconds")).unref());
for (const [operation, run] of Object.entries(operations)) {
  const seen = await Promise.race([run(), late()]).catch((error) => ({
    error: error.name,
    reason: error.reason,
    message: error.message,
  }));
  console.log(JSON.stringify({ operation, ...seen }));
}
