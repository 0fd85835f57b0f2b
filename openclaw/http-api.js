// The HTTP API on the gateway's port: `POST /remote_agent/read` and `/remote_agent/write`, with the gateway's
// authentication.
import { line, withOwnCommand } from "./text.js";

/** @import {Api, ApiAnswer, Lease} from "./types.d.ts" */
/** @import {IncomingMessage, ServerResponse} from "node:http" */

/** @typedef {NonNullable<ReturnType<typeof import("./approval.js").approvalHook>>} Ask */

const MAX_BODY_BYTES = 1 << 20;

/**
 * Registers the routes. `ask` is the approval hook, if a target needs approval. The API cannot request approval from an
 * operator.
 * @param {Api} api
 * @param {Lease} lease
 * @param {Ask} [ask]
 */
export function registerHttpApi(api, lease, ask) {
  for (const route of /** @type {const} */ (["read", "write"])) {
    const handler = async (request, response) => {
      await handle(route, request, response, lease, ask).catch((error) => {
        // The client is gone while it sends its body, or the plugin stops.
        if (request.complete) api.logger?.warn?.(`a request to the HTTP API failed: ${line(error?.message ?? error)}`);
        if (response.headersSent) response.destroy();
        else problem(response, 500, "the request failed");
      });
      return true;
    };
    api.registerHttpRoute?.({ path: `/remote_agent/${route}`, auth: "gateway", match: "exact", handler });
  }
}

/**
 * @param {"read" | "write"} route
 * @param {IncomingMessage} request
 * @param {ServerResponse} response
 * @param {Lease} lease
 * @param {Ask} [ask]
 */
async function handle(route, request, response, { agent, api, CancelToken }, ask) {
  if (request.method !== "POST") return problem(response, 405, "use POST", { allow: "POST" });
  if (!/^application\/json\s*(;|$)/i.test(request.headers["content-type"] ?? "")) return problem(response, 415, "send application/json");
  const body = await readBody(request);
  if (body === undefined) return problem(response, 413, "the body exceeds 1 MiB", { connection: "close" });
  const parsed = api.request(route, body);
  if (parsed.request === undefined) return respond(response, parsed);
  const refused = ask?.({ params: JSON.parse(parsed.request) });
  if (refused) return respond(response, api.refusal(refused.blockReason ?? "The operator wants a person to approve messages to this target, and this route cannot ask. Send the message from a conversation with an agent of OpenClaw, where a person can approve it."));

  const token = new CancelToken();
  let hasExpired = false;
  const timer = setTimeout(() => {
    hasExpired = true;
    token.cancel();
  }, parsed.expiresAfter);
  const onClose = () => response.writableFinished || token.cancel();
  response.once("close", onClose);
  try {
    const { traceparent } = request.headers;
    const envelope = await agent.execute(parsed.request, JSON.stringify({ traceparent }), token, null);
    const answer = api.response(parsed.action, envelope, hasExpired);
    respond(response, answer.status === 200 ? answer : { ...answer, body: withOwnCommand(answer.body) });
  } finally {
    clearTimeout(timer);
    response.off("close", onClose);
  }
}

/** Reads a body. Returns undefined if it is too large. */
async function readBody(request) {
  const chunks = [];
  let length = 0;
  for await (const chunk of request) {
    length += chunk.length;
    if (length > MAX_BODY_BYTES) return undefined;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("utf8");
}

/**
 * @param {ServerResponse} response
 * @param {ApiAnswer} answer
 */
function respond(response, { status, body, reason, retryable }) {
  /** @type {Record<string, string>} */
  const headers = { "content-type": "application/json", "cache-control": "no-store", "x-content-type-options": "nosniff" };
  if (reason) headers["remote-agent-reason"] = reason;
  if (typeof retryable === "boolean") headers["remote-agent-retryable"] = String(retryable);
  response.writeHead(status, headers).end(body);
}

/** Sends an error of the HTTP layer, which is not an envelope of the API. */
function problem(response, status, message, headers = {}) {
  response.writeHead(status, { "content-type": "application/json", "x-content-type-options": "nosniff", ...headers }).end(JSON.stringify({ error: status, message }));
}
