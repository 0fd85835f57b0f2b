// Calls the operations of a server in order, with the official JavaScript client of A2A 0.3.
//
//     node js03_client.mjs PACKAGES ORIGIN BINDING VERSION HOOK
//
// Fetches the card at ORIGIN, prefers its interface of BINDING, and prints the result of each operation as a line of JSON, in
// the same form for every client. PACKAGES is the folder of the client, HOOK the URL of a webhook. The only VERSION is 0.3.

import { randomUUID } from "node:crypto";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [packages, ORIGIN, BINDING, , HOOK] = process.argv.slice(2);
const require = createRequire(`${packages}/package.json`);
const load = (name) => import(pathToFileURL(require.resolve(name)));
const { ClientFactory, ClientFactoryOptions, JsonRpcTransportFactory, RestTransportFactory } =
  await load("@a2a-js/sdk/client");
const MISSING = "no-such-task";

const options = ClientFactoryOptions.createFrom(ClientFactoryOptions.default, {
  transports: [new JsonRpcTransportFactory(), new RestTransportFactory()],
  preferredTransports: [BINDING],
});
const client = await new ClientFactory(options).createFromUrl(ORIGIN);
const card = await client.getAgentCard();

const text = (parts) => parts.map((part) => (part.kind === "text" ? part.text : "")).join("");
const artifactText = (task) => (task.artifacts ?? []).map((artifact) => text(artifact.parts)).join("");

function asking(what, { more = [], task, ...configuration } = {}) {
  const parts = [{ kind: "text", text: what }, ...more];
  const message = { kind: "message", messageId: randomUUID(), role: "user", parts };
  if (task) Object.assign(message, { taskId: task.id, contextId: task.contextId });
  return { message, configuration: { blocking: true, ...configuration } };
}
const send = (what, more) => client.sendMessage(asking(what, more));
const atOnce = (what) => send(what, { blocking: false });

async function follow(events) {
  let first, last;
  let seen = "";
  for await (const event of events) {
    first ??= event.kind;
    if (event.kind === "task") [seen, last] = [artifactText(event), event.status.state];
    if (event.kind === "status-update") last = event.status.state;
    if (event.kind === "artifact-update") seen += text(event.artifact.parts);
  }
  return { first, state: last, text: seen };
}

const operations = {
  async card() {
    return { name: card.name, streaming: card.capabilities.streaming };
  },
  async send() {
    const task = await send("task hello");
    return { state: task.status.state, text: artifactText(task) };
  },
  async message() {
    return { text: text((await send("message hello")).parts) };
  },
  async return_immediately() {
    const task = await atOnce("slow");
    await client.cancelTask({ id: task.id });
    return { settled: !["submitted", "working"].includes(task.status.state) };
  },
  async parts() {
    const data = { bytes: "AP9oZWxsbw==", name: "a.bin", mimeType: "application/octet-stream" };
    const link = { uri: "https://files.test/b.png", mimeType: "image/png" };
    const more = [data, link].map((file) => ({ kind: "file", file }));
    return (await send("parts", { more })).artifacts[0].parts[0].data;
  },
  async artifact_parts() {
    const [raw, link, data] = (await send("gift")).artifacts[0].parts;
    return { bytes: raw.file.bytes, link: link.file.uri, data: data.data };
  },
  async fail() {
    const { status } = await send("fail because");
    return { state: status.state, text: text(status.message.parts) };
  },
  async reject() {
    const { status } = await send("reject because");
    return { state: status.state, text: text(status.message.parts) };
  },
  async ask() {
    const first = await send("ask which?");
    const second = await send("blue", { task: first });
    return {
      first_state: first.status.state,
      question: text(first.status.message.parts),
      state: second.status.state,
      text: artifactText(second),
      same: first.id === second.id,
    };
  },
  async stream() {
    return follow(client.sendMessageStream(asking("stream 5 1")));
  },
  async resubscribe() {
    let task;
    for await (const event of client.sendMessageStream(asking("stream 20 20"))) {
      if (event.kind === "task") task = event;
      if (event.kind === "artifact-update") break;
    }
    return follow(client.resubscribeTask({ id: task.id }));
  },
  async get() {
    const task = await send("echo hello");
    const fetched = await client.getTask({ id: task.id });
    return { state: fetched.status.state, text: artifactText(fetched), history: text(fetched.history[0].parts) };
  },
  async cancel() {
    const task = await atOnce("slow");
    return { state: (await client.cancelTask({ id: task.id })).status.state };
  },
  async push_configs() {
    const { id } = await atOnce("slow");
    const one = { id, pushNotificationConfigId: "hook-1" };
    const pushNotificationConfig = { id: "hook-1", url: HOOK, token: "tok" };
    const created = await client.setTaskPushNotificationConfig({ taskId: id, pushNotificationConfig });
    const fetched = await client.getTaskPushNotificationConfig(one);
    const listed = await client.listTaskPushNotificationConfig({ id });
    await client.deleteTaskPushNotificationConfig(one);
    const remaining = await client.listTaskPushNotificationConfig({ id });
    await client.cancelTask({ id });
    return {
      created: created.pushNotificationConfig.url === HOOK,
      fetched: fetched.pushNotificationConfig.id,
      listed: listed.map((config) => config.pushNotificationConfig.id),
      remaining: remaining.length,
    };
  },
  async push() {
    const authentication = { schemes: ["Bearer"], credentials: "cred" };
    const pushNotificationConfig = { url: HOOK, token: "tok", authentication };
    return { task: (await send("echo hello", { pushNotificationConfig })).id };
  },
  async not_found() {
    return client.getTask({ id: MISSING });
  },
  async not_cancelable() {
    const task = await send("echo hello");
    return client.cancelTask({ id: task.id });
  },
  async bad_webhook() {
    const { id: taskId } = await send("echo hello");
    const pushNotificationConfig = { id: "hook-1", url: "ftp://hook.test/" };
    return client.setTaskPushNotificationConfig({ taskId, pushNotificationConfig });
  },
};

const late = () => new Promise((_, refuse) => setTimeout(refuse, 20_000, new Error("no answer in 20 seconds")).unref());
for (const [operation, run] of Object.entries(operations)) {
  const seen = await Promise.race([run(), late()]).catch((error) => ({
    error: error.name === "Error" ? error.constructor.name : error.name,
    message: error.message,
    reason: error.errorResponse?.error.data?.[0]?.reason,
  }));
  console.log(JSON.stringify({ operation, ...seen }));
}
