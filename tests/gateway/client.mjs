// A client and a voter of the local gateway, after Heretek A2A §11.1 and §11.3, in an independent stack: Node.js and `ws`.
//
// They keep the peculiarities of the specification, because a gateway must serve them: only a `message` is an answer,
// correlation ids are times, and a vote has the proposal's `id` and a `confidence`.

import { pathToFileURL } from "node:url";
import { join } from "node:path";

/** The class of the package `ws` in this folder. */
export async function webSocket(folder) {
  const { WebSocket } = await import(pathToFileURL(join(folder, "wrapper.mjs")));
  return WebSocket;
}

export class Client {
  constructor(WebSocket, url, serves = []) {
    Object.assign(this, { WebSocket, url, serves, handlers: new Map(), clientId: null });
  }

  /** Connects and advertises; resolves with the gateway's acknowledgement. */
  connect() {
    return new Promise((resolve, reject) => {
      this.socket = new this.WebSocket(this.url, ["a2a-v1"]);
      this.socket.on("error", reject);
      this.socket.on("message", (data) => this.dispatch(JSON.parse(data)));
      this.socket.on("open", () => this.handshake().then(resolve, reject));
    });
  }

  handshake() {
    const capabilities = { supportedMessageTypes: ["message", "status", "error"], version: "1.0.0" };
    if (this.serves.length) capabilities.supportedAgents = this.serves;
    return new Promise((resolve) => {
      const onAcknowledge = (message) => {
        if (message.content.action !== "acknowledge") return;
        this.off("handshake", onAcknowledge);
        this.clientId = message.content.clientId;
        resolve(message);
      };
      this.on("handshake", onAcknowledge);
      this.send({ type: "handshake", content: { action: "advertise", capabilities } });
    });
  }

  send(message) {
    message.id ||= `msg-${Date.now()}-${Math.random().toString(36).slice(2, 11)}`;
    message.timestamp ||= Date.now();
    this.socket.send(JSON.stringify(message));
    return message;
  }

  sendMessage(agent, content, metadata = {}) {
    return new Promise((resolve) => {
      const correlationId = `corr-${Date.now()}`;
      const onResponse = (message) => {
        if (message.metadata?.correlationId !== correlationId) return;
        this.off("message", onResponse);
        resolve(message);
      };
      this.on("message", onResponse);
      this.send({ type: "message", agent, content, metadata: { ...metadata, requiresResponse: true, correlationId } });
    });
  }

  /** Returns the next message of a type. */
  next(type) {
    return new Promise((resolve) => {
      const once = (message) => {
        this.off(type, once);
        resolve(message);
      };
      this.on(type, once);
    });
  }

  on(type, handler) {
    this.handlers.set(type, [...(this.handlers.get(type) ?? []), handler]);
  }

  off(type, handler) {
    this.handlers.set(type, (this.handlers.get(type) ?? []).filter((other) => other !== handler));
  }

  dispatch(message) {
    for (const handler of this.handlers.get(message.type) ?? []) handler(message);
  }

  disconnect() {
    this.send({ type: "disconnect", content: { reason: "manual" } });
    this.socket.close();
  }
}

export class Voter {
  /** Approves if `confidence` is above one half. */
  constructor(name, confidence) {
    Object.assign(this, { name, confidence });
  }

  async vote(proposal) {
    const { decision, reasoning, confidence } = await this.analyze(proposal);
    return {
      type: "vote",
      from: this.name,
      content: { proposalId: proposal.id, vote: decision, reasoning, confidence },
      metadata: { correlationId: proposal.id },
    };
  }

  async analyze(proposal) {
    const reasoning = `Analysis of proposal: ${proposal.content.proposal}`;
    return { reasoning, confidence: this.confidence, decision: this.confidence > 0.5 ? "approve" : "reject" };
  }
}
