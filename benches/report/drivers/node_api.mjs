// The Node-API under load: the library that ships, in the Node.js that OpenClaw is tested with.

import { assemble } from "../../../openclaw/tool.js";
import { drive } from "./driver.mjs";

const { library, config, target } = JSON.parse(process.argv[2]);
const loaded = { exports: {} };
process.dlopen(loaded, library);
const { RemoteAgent, CancelToken } = loaded.exports;
const agent = new RemoteAgent(config);

async function execute(request, onUpdate = null) {
  const envelope = await agent.execute(request, null, new CancelToken(), onUpdate);
  if (!envelope.startsWith('{"ok":true')) throw new Error(envelope);
  return envelope;
}

const sendRequest = (text, more) =>
  JSON.stringify({ action: "send", target_alias: target, parts: [{ kind: "text", text }], ...more });
const send = sendRequest("Good morning");
const status = JSON.stringify({ action: "status", target_alias: target, task_id: "t-1" });

await drive({
  send: () => execute(send),
  status: () => execute(status),
  async stream(text, updates, update_interval_ms) {
    let seen = 0;
    const request = sendRequest(text, { follow_updates: true, timeout_ms: 120_000 });
    const onUpdate = updates ? () => (seen += 1) : null;
    if (!update_interval_ms) {
      await execute(request, onUpdate);
      return { seen };
    }
    // As the OpenClaw package calls it: it needs the text for the model, and the envelope as a value.
    const caller = JSON.stringify({ update_interval_ms });
    const [, ...pieces] = await agent.executeRendered(request, caller, new CancelToken(), onUpdate);
    const envelope = await assemble(pieces);
    if (envelope.ok !== true) throw new Error(JSON.stringify(envelope));
    return { seen };
  },
  watch: (task_id) => execute(JSON.stringify({ action: "watch", target_alias: target, task_id, timeout_ms: 120_000 })),
});
