// How the gateway that the plugin runs in asks the people of a session.
import { AsyncLocalStorage } from "node:async_hooks";
import process from "node:process";

import { withOwnGateway } from "./config.js";
/** @import {Api, GatewayConnection, PersonHost} from "./types.d.ts" */

/** To ask, and to post in the chat of a session. */
const SCOPES = ["operator.questions", "operator.write"];
const EXCHANGE_MS = 30_000;

/**
 * Returns the host of a gateway's service. OpenClaw calls it when the service starts, so outside of every turn.
 * @param {Api} api
 * @returns {PersonHost}
 */
export function personHost(api) {
  return {
    outside: AsyncLocalStorage.snapshot(),
    connect: () => connect(api, SCOPES),
    warn: (text) => api.logger.warn(`remote-agent: ${text}`),
    async post({ connection, id, sessionKey, agentId }, message) {
      const { deliveryContextFromSession } = await import("openclaw/plugin-sdk/session-store-runtime");
      const entry = api.runtime.agent.session.getSessionEntry({ sessionKey, agentId });
      const { channel, to, accountId, threadId } = deliveryContextFromSession(entry) ?? {};
      // The channel `a2a` leads to an agent, not to a person.
      if (!connection || !channel || !to || channel === "a2a") return undefined;
      const place = { channel, to, accountId, threadId: threadId === undefined ? undefined : String(threadId) };
      const { messageId } = await connection.request("send", { ...place, message, idempotencyKey: id }, EXCHANGE_MS);
      return messageId === undefined ? undefined : { ...place, messageId: String(messageId) };
    },
  };
}

/**
 * Connects to the gateway in which the plugin runs.
 * @param {Api} api
 * @param {string[]} scopes
 * @returns {Promise<GatewayConnection>}
 */
export async function connect(api, scopes) {
  // The latest configuration. Its type says that it is immutable.
  const config = /** @type {any} */ (api.runtime.config.current?.() ?? api.config);
  const { GatewayClient, resolveGatewayAuth } = await import("openclaw/plugin-sdk/gateway-runtime");
  const url = withOwnGateway({ gateway: { enabled: true } }, config, process.env).gateway?.url;
  const { token, password } = resolveGatewayAuth({ authConfig: config.gateway?.auth, env: process.env });
  const { promise, resolve, reject } = Promise.withResolvers();
  const client = new GatewayClient({
    url,
    token,
    password,
    role: "operator",
    scopes,
    clientName: "gateway-client",
    mode: "backend",
    clientDisplayName: "remote-agent",
    platform: process.platform,
    onHelloOk: () => resolve(undefined),
    onConnectError: reject,
    onClose: (code, reason) => reject(new Error(`the gateway closed the connection (${code}): ${reason}`)),
  });
  client.start();
  try {
    await promise;
  } catch (error) {
    client.stop();
    throw error;
  }
  return {
    request: (method, params, timeoutMs) => client.request(method, params, { timeoutMs }),
    stop: () => client.stop(),
  };
}
