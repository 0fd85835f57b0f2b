// The official JavaScript client under load: version 1.3 speaks A2A 1.0, version 0.3 speaks A2A 0.3.

import { randomUUID } from "node:crypto";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

import { drive } from "./driver.mjs";

const { packages, origin, version } = JSON.parse(process.argv[2]);
const require = createRequire(`${packages}/package.json`);
const load = (name) => import(pathToFileURL(require.resolve(name)));
const { ClientFactory } = await load("@a2a-js/sdk/client");
const client = await new ClientFactory().createFromUrl(origin);

async function sendRequest(value) {
  if (version === "0.3") {
    const parts = [{ kind: "text", text: value }];
    const message = { kind: "message", messageId: randomUUID(), role: "user", parts };
    return { message, configuration: { blocking: true } };
  }
  const { Role } = await load("@a2a-js/sdk");
  const part = { content: { $case: "text", value }, filename: "", mediaType: "" };
  return { message: { messageId: randomUUID(), role: Role.ROLE_USER, parts: [part] }, configuration: {} };
}

const request = await sendRequest("Good morning");
await drive({
  send() {
    const message = { ...request.message, messageId: randomUUID() };
    return client.sendMessage({ ...request, message });
  },
  status: () => client.getTask({ id: "t-1" }),
  async stream(text) {
    let seen = 0;
    for await (const _ of client.sendMessageStream(await sendRequest(text))) seen += 1;
    return { seen };
  },
});
