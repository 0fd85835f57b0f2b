// Follows many tasks through a restart of their server, with the official JavaScript client of A2A 1.0.
//
//     node restart_client.mjs PACKAGES ORIGIN NUMBER TEXT
//
// Does the same as restart_client.py. PACKAGES is the folder of the client.

import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [packages, ORIGIN, NUMBER, TEXT] = process.argv.slice(2);
const require = createRequire(`${packages}/package.json`);
const load = (name) => import(pathToFileURL(require.resolve(name)));
const { ClientFactory, ClientFactoryOptions, DefaultAgentCardResolver, JsonRpcTransportFactory } = await load("@a2a-js/sdk/client");
const { Role, taskStateToJSON } = await load("@a2a-js/sdk");

const resolver = new DefaultAgentCardResolver();
const card = await resolver.resolve(ORIGIN);
card.supportedInterfaces = card.supportedInterfaces.filter((one) => one.protocolBinding === "JSONRPC" && one.protocolVersion === "1.0");
const options = ClientFactoryOptions.createFrom(ClientFactoryOptions.default, { transports: [new JsonRpcTransportFactory()], cardResolver: resolver });
const client = await new ClientFactory(options).createFromAgentCard(card);

const state = (status) => taskStateToJSON(status.state).replace("TASK_STATE_", "").toLowerCase().replaceAll("_", "-");
const show = (line) => console.log(JSON.stringify(line));
const counts = (all) => all.reduce((sums, one) => ({ ...sums, [one]: (sums[one] ?? 0) + 1 }), {});

async function follow(events, started) {
  let task, last;
  let end = "clean";
  try {
    for await (const { payload } of events) {
      if (payload.$case === "task") {
        [task, last] = [payload.value.id, state(payload.value.status)];
        started?.();
      }
      if (payload.$case === "statusUpdate") last = state(payload.value.status);
    }
  } catch (error) {
    end = error.constructor.name;
  }
  return { task, last, end };
}

let count = 0;
const started = () => (count += 1) === Number(NUMBER) && show({ started: count });
const part = { content: { $case: "text", value: TEXT }, filename: "", mediaType: "" };
const send = () => follow(client.sendMessageStream({ message: { messageId: randomUUID(), role: Role.ROLE_USER, parts: [part] } }), started);
const seen = await Promise.all(Array.from({ length: Number(NUMBER) }, send));
show({ ends: counts(seen.map(({ end }) => end)), states: counts(seen.map(({ last }) => last)) });
await once(process.stdin, "data");

async function resume({ task }) {
  const { last, end } = await follow(client.resubscribeTask({ id: task }));
  // A task that has ended has no stream.
  return end === "clean" && last ? last : state((await client.getTask({ id: task })).status);
}
show({ states: counts(await Promise.all(seen.map(resume))) });
process.exit();
