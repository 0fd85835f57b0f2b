// Runs requests in the running gateway, where agents run: with its environment, its secrets and its settings.
import { randomUUID } from "node:crypto";
import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";

import { line } from "./text.js";
/** @import {CallNews, CallRequest, Caller, Envelope, GatewaySettings, Summary} from "./types.d.ts" */

// The WebSocket close code of a gateway that refuses a token.
const POLICY_VIOLATION = 1008;

/** The timeout of one exchange with the gateway. It includes the time for which `remoteAgent.news` waits, and that of a listing. */
const EXCHANGE_MS = 30_000;
/** How long the command looks for a gateway that it has lost, and the pause between two attempts. */
const LOST_MS = 10_000;
const RETRY_MS = 500;
/**
 * The pause between requests for the news of an agent that writes, and the time after which it writes no more. Then the gateway
 * waits for news. It logs each request that takes longer than 50 ms, so an agent that writes must not make it wait.
 */
const PAUSE_MS = 150;
const IDLE_MS = 2000;
/** The code of a gateway that reloads the plugin. */
const UNAVAILABLE = "UNAVAILABLE";
/** The maximum length of a request. The gateway closes a connection with a larger frame than 25 MiB. */
const MAX_REQUEST_BYTES = 24 << 20;

/** The address of a gateway for which the configuration has no token. */
const NO_TOKEN = { url: "", urlSource: "" };

/** A gateway that runs and does not answer a request, with the reason. */
export class GatewayRefusal extends Error {}

/**
 * An exchange with the gateway: its answer; or why it refuses, or may answer later (`isLost`); or the address at which no gateway
 * answers. `wasSent` tells whether the gateway may have the request.
 * @typedef {{ answer?: any, error?: string, unreachable?: { url: string, urlSource: string }, isLost?: boolean, isRefused?: boolean, wasSent?: boolean }} Exchange
 */

/**
 * Sends a request to the running gateway.
 * @param {string} method
 * @param {object} params
 * @returns {Promise<Exchange>}
 */
export async function callGateway(method, params = {}, timeoutMs = 10_000) {
  const { callGatewayFromCli, isGatewayClientRequestError, isGatewayTransportError } = await import("openclaw/plugin-sdk/gateway-runtime");
  try {
    return { answer: await callGatewayFromCli(method, { timeout: String(timeoutMs), json: true }, params, { progress: false }) };
  } catch (error) {
    const { message } = error;
    // OpenClaw does not connect without a token, so it cannot know whether a gateway runs.
    if (error.name === "GatewayCredentialsRequiredError") return { unreachable: NO_TOKEN, isLost: true, wasSent: false };
    if (isGatewayTransportError(error) && error.code === POLICY_VIOLATION) return { error: message, isRefused: true };
    // A connection that is refused has no close code. A busy gateway may time out, and is running.
    if (isGatewayTransportError(error) && error.kind === "closed") return { unreachable: error.connectionDetails, isLost: true, wasSent: error.code !== undefined };
    const isRefused = isGatewayClientRequestError(error) && error.gatewayCode !== UNAVAILABLE;
    const isLost = isGatewayTransportError(error) || isGatewayClientRequestError(error) || /^gateway (closed|timeout)/.test(message);
    return { error: message, isRefused, isLost: isLost && !isRefused, wasSent: true };
  }
}

/** Returns a hint for a missing gateway. OpenClaw's message about the address ends with the place in the configuration. */
export function noGateway({ url, urlSource }) {
  if (!url) return "no gateway is known: OpenClaw's configuration has no `gateway.auth.token`; `openclaw config set gateway.auth.token TOKEN` sets one, and a running gateway has to be restarted then";
  const port = process.env.OPENCLAW_GATEWAY_PORT ? "the environment variable `OPENCLAW_GATEWAY_PORT`" : "`gateway.port` of OpenClaw's configuration";
  const source = urlSource === "local loopback" ? port : urlSource;
  return `no gateway answers at ${line(url)} (${line(source)}); if it runs on another port, correct ${line(source)}; \`openclaw gateway run\` starts one`;
}

/** @typedef {NonNullable<Awaited<ReturnType<typeof askGateway>>>} Gateway */

/**
 * Returns the running gateway, or undefined if no gateway runs, after `absent` has received the reason. The methods of the
 * result throw a {@link GatewayRefusal} if the gateway refuses.
 */
export async function askGateway(call = callGateway, absent = (/** @type {string} */ _reason) => {}) {
  const { answer, error, unreachable } = await whenLoaded(() => call("remoteAgent.settings"));
  if (unreachable) {
    absent(unreachable.url ? "no gateway is running" : noGateway(unreachable));
    return undefined;
  }
  if (error !== undefined) throw new GatewayRefusal(refusalOf(error));
  /** @type {GatewaySettings} */
  const settings = answer;
  return {
    /** Returns the settings as the gateway has them, without values of credentials. */
    settings: () => settings,
    /**
     * Runs a request in the gateway and returns its envelope, like the instance of a command: `more` are fields of the
     * caller. Ctrl-C stops waiting and does not cancel the task. The request is sent once.
     * @param {CallRequest} request
     * @param {((update: any) => void) | null} [onUpdate]
     * @param {Caller & { list_tasks?: boolean }} [more]
     * @returns {Promise<Envelope>}
     */
    async run(request, onUpdate, more = {}) {
      if (request.action !== "list_targets") return await runCall(call, settings.gatewayId, request, onUpdate, more);
      const { answer, error, unreachable } = await whenLoaded(() => call("remoteAgent.list", { listTasks: more.list_tasks, agent: more.agent_id }, EXCHANGE_MS));
      if (unreachable) throw new GatewayRefusal("the gateway stopped");
      if (error !== undefined) throw new GatewayRefusal(refusalOf(error));
      return answer.envelope;
    },
    close() {},
  };
}

/** Repeats a request that changes nothing while the gateway reloads the plugin. */
async function whenLoaded(request) {
  for (const start = Date.now(); ; ) {
    const exchange = await request();
    if (!exchange.error || !exchange.isLost || Date.now() - start > LOST_MS) return exchange;
    await sleep(RETRY_MS);
  }
}

/** Returns the reason of a refusal. OpenClaw has no method of a plugin that it has not loaded. */
function refusalOf(error) {
  const message = line(error);
  return /unknown method/i.test(message) ? "the running gateway has not loaded this version of the plugin; run `openclaw gateway restart`" : `the running gateway refuses: ${message}`;
}

/**
 * @param {typeof callGateway} call
 * @param {string} gatewayId
 * @param {CallRequest} request
 * @param {((update: any) => void) | null | undefined} onUpdate
 * @param {Caller} more
 * @returns {Promise<Envelope>}
 */
async function runCall(call, gatewayId, request, onUpdate, { agent_id: agent, by_person: byPerson }) {
  const id = randomUUID();
  const params = { id, request, agent, updates: Boolean(onUpdate), ...(byPerson && { byPerson }) };
  if (Buffer.byteLength(JSON.stringify(params)) > MAX_REQUEST_BYTES) throw new GatewayRefusal(`the message exceeds the ${MAX_REQUEST_BYTES >> 20} MiB that a gateway takes; nothing was sent`);
  const stop = () => void call("remoteAgent.stop", { id }).catch(() => {});
  process.once("SIGINT", stop);
  /** @type {Summary | undefined} */
  let latest;
  const show = (/** @type {string} */ json) => {
    const update = JSON.parse(json);
    latest = update.summary ?? latest;
    onUpdate?.(update);
  };
  try {
    const start = () => call("remoteAgent.call", params, EXCHANGE_MS);
    let exchange = await start();
    if (exchange.isRefused) throw new GatewayRefusal(refusalOf(exchange.error));
    if (exchange.answer === undefined && !exchange.wasSent) return lost(request, latest, false);
    let text = "";
    for (let after = 0, lostAt = 0, wroteAt = 0; ; ) {
      /** @type {CallNews & { unknownTo?: string, wasStarted?: boolean } | undefined} */
      const news = exchange.answer;
      if (exchange.isRefused) return lost(request, latest, true);
      if (news?.unknownTo) {
        // The gateway runs since before the call and never got it. It ignores a second call with the same id.
        if (news.unknownTo !== gatewayId || news.wasStarted) return lost(request, latest, true);
        exchange = await start();
        continue;
      }
      if (news) {
        lostAt = 0;
        news.updates.forEach(show);
        after = news.next;
        if (news.failure !== undefined) throw new GatewayRefusal(news.failure);
        text += news.piece ?? "";
        if (news.isLast) return JSON.parse(text);
        if (news.updates.length > 0) wroteAt = Date.now();
        if (Date.now() - wroteAt < IDLE_MS && news.piece === undefined) await sleep(PAUSE_MS);
      } else {
        lostAt ||= Date.now();
        if (Date.now() - lostAt > LOST_MS) return lost(request, latest, true);
        await sleep(RETRY_MS);
      }
      // The gateway knows the call by its id, so a repeated request for news repeats no message.
      exchange = await call("remoteAgent.news", { id, after, offset: text.length, wait: Date.now() - wroteAt >= IDLE_MS }, EXCHANGE_MS);
    }
  } finally {
    process.removeListener("SIGINT", stop);
  }
}

/**
 * Returns the envelope of a call whose gateway is gone.
 * @param {CallRequest} request
 * @param {Summary | undefined} latest
 * @param {boolean} wasSent
 * @returns {Envelope}
 */
function lost({ action }, latest, wasSent) {
  const isMessage = action === "send";
  const message = wasSent ? `the gateway stopped while it ran the call${isMessage && !latest ? "; the agent may have received the message" : ""}` : "the gateway stopped before it received the call; nothing was sent";
  const hint = !wasSent || !isMessage ? "Try again when the gateway runs." : latest ? "The task may continue." : "Check at the agent before you send it again.";
  const details = { hint, delivered: !wasSent ? "no" : latest ? "yes" : "unknown", ...(latest && { latest_event_summary: latest }) };
  return { action, ok: false, error: { code: "TRANSPORT_ERROR", reason: wasSent ? "connection_reset" : "unreachable", retryable: !isMessage || !wasSent, message, details } };
}
