// Runs clients of `client.mjs` and prints their messages as lines of JSON. Arguments: the folder of `ws`, the gateway's URL, and
// the role as JSON. Ends when stdin closes, with the test process.

import { Client, Voter, webSocket } from "./client.mjs";

const [, , folder, url, orders] = process.argv;
const WebSocket = await webSocket(folder);
const { play, ...order } = JSON.parse(orders);
const tell = (line) => console.log(JSON.stringify(line));
process.stdin.on("end", () => process.exit()).resume();

const parts = {
  /** An agent that answers every message. */
  async serve({ name }) {
    const client = new Client(WebSocket, url, [name]);
    client.on("message", (message) => {
      tell({ received: message });
      const content = { role: "agent", content: `${name} received: ${message.content.content}` };
      const metadata = { correlationId: message.metadata.correlationId, parentId: message.id };
      client.send({ type: "message", agent: message.from, sessionId: message.sessionId, content, metadata });
    });
    tell({ ready: await client.connect() });
  },

  /** A member of the triad. */
  async vote({ name, confidence }) {
    const client = new Client(WebSocket, url, [name]);
    const voter = new Voter(name, confidence);
    client.on("proposal", async (proposal) => {
      tell({ received: proposal });
      client.send(await voter.vote(proposal));
    });
    tell({ ready: await client.connect() });
  },

  /** Calls an agent and disconnects. */
  async ask({ agent, text }) {
    const client = new Client(WebSocket, url);
    tell({ ready: await client.connect() });
    tell({ answer: await client.sendMessage(agent, { role: "user", content: text }) });
    client.socket.on("close", (code) => tell({ closed: code }));
    client.disconnect();
  },

  /** Sends a proposal to the triad. */
  async propose({ proposal, reasoning }) {
    const client = new Client(WebSocket, url);
    tell({ ready: await client.connect() });
    for (const type of ["vote", "error"]) client.on(type, (message) => tell({ received: message }));
    const decided = client.next("decision");
    const id = `prop-${Date.now()}`;
    const metadata = { requiresResponse: true, correlationId: id };
    client.send({ id, type: "proposal", content: { proposal, reasoning }, metadata });
    tell({ answer: await decided });
  },

  /** Sends these frames and prints all received ones. */
  async say({ messages, types }) {
    const client = new Client(WebSocket, url);
    tell({ ready: await client.connect() });
    for (const type of types) client.on(type, (message) => tell({ received: message }));
    for (const message of messages) client.send(message);
  },
};

await parts[play](order);
