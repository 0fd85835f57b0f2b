// Runs clients of `client.mjs` and prints their messages as lines of JSON. Arguments: the folder of `ws`, the gateway's URL, and
// the role with its options as JSON. Ends when stdin closes, with the test process.

import { createPrivateKey } from "node:crypto";
import { pathToFileURL } from "node:url";

import { Client, Voter, webSocket } from "./client.mjs";

const [, , folder, url, json] = process.argv;
const WebSocket = await webSocket(folder);
const { role, ...options } = JSON.parse(json);
const report = (line) => console.log(JSON.stringify(line));
process.stdin.on("end", () => process.exit()).resume();

const roles = {
  /** An agent that answers every message. */
  async serve({ name }) {
    const client = new Client(WebSocket, url, [name]);
    client.on("message", (message) => {
      report({ received: message });
      const content = { role: "agent", content: `${name} received: ${message.content.content}` };
      const metadata = { correlationId: message.metadata.correlationId, parentId: message.id };
      client.send({ type: "message", agent: message.from, sessionId: message.sessionId, content, metadata });
    });
    report({ ready: await client.connect() });
  },

  /** A member of the triad. */
  async vote({ name, confidence }) {
    const client = new Client(WebSocket, url, [name]);
    const voter = new Voter(name, confidence);
    client.on("proposal", async (proposal) => {
      report({ received: proposal });
      client.send(await voter.vote(proposal));
    });
    report({ ready: await client.connect() });
  },

  /** Calls an agent and disconnects. */
  async request({ agent, text }) {
    const client = new Client(WebSocket, url);
    report({ ready: await client.connect() });
    report({ answer: await client.sendMessage(agent, { role: "user", content: text }) });
    client.socket.on("close", (code) => report({ closed: code }));
    client.disconnect();
  },

  /** Sends a proposal to the triad. */
  async propose({ proposal, reasoning }) {
    const client = new Client(WebSocket, url);
    report({ ready: await client.connect() });
    for (const type of ["vote", "error"]) client.on(type, (message) => report({ received: message }));
    const decision = client.next("decision");
    const id = `prop-${Date.now()}`;
    const metadata = { requiresResponse: true, correlationId: id };
    client.send({ id, type: "proposal", content: { proposal, reasoning }, metadata });
    report({ answer: await decision });
  },

  /** Sends a signed message to an agent, with the client of a module. */
  async sign({ module, name, pem, agent, text }) {
    const { SigningClient } = await import(pathToFileURL(module));
    const client = new SigningClient(WebSocket, url, [name]);
    Object.assign(client, { name, key: createPrivateKey(pem) });
    report({ ready: await client.connect() });
    report({ answer: await client.sendMessage(agent, { role: "user", content: text }) });
  },

  /** Sends these frames and prints all received ones. */
  async send({ messages, types }) {
    const client = new Client(WebSocket, url);
    report({ ready: await client.connect() });
    for (const type of types) client.on(type, (message) => report({ received: message }));
    for (const message of messages) client.send(message);
  },
};

await roles[role](options);
