// What a listing of targets tells about them.
import { line } from "./text.js";
/** @import {EnvelopeError, ListedGateway, ListedTarget} from "./types.d.ts" */

/** The reasons of the errors with which a working agent answers a request for tasks: task lists are optional. */
export const ANSWER_REASONS = new Set(["rpc_error", "http_status", "invalid_response", "too_large"]);

/**
 * Returns why an agent does not answer calls, if the request for its tasks shows that.
 * @param {ListedTarget} target
 * @returns {EnvelopeError | undefined}
 */
export const refusalOf = ({ tasks_error: error }) => (ANSWER_REASONS.has(error?.reason ?? "") ? undefined : error);

/**
 * Returns the problem of a target: with its card, or with calls.
 * @param {ListedTarget} target
 */
export const problemOf = (target) => target.last_refresh_error ?? refusalOf(target);

/**
 * Returns whether a target is an agent of the local gateway.
 * @param {ListedTarget} target
 */
export const isOfGateway = ({ status }) => status !== undefined;

/**
 * Returns a sentence about a local gateway that cannot be used.
 * @param {ListedGateway} [gateway]
 */
export function faultOf({ url, state, last_error: error } = {}) {
  return error && state !== "OPEN" ? `the local gateway at ${line(url)} does not answer: ${line(error)}` : undefined;
}

/**
 * Returns the state of a card, for a table.
 * @param {ListedTarget} target
 */
export function cardState({ last_refresh_error: error, target_name: name, status }) {
  if (error) return name ? `old (${error.reason})` : error.reason;
  return status && status !== "online" ? status : "ok";
}

/**
 * Returns whether an agent accepts calls, for a table: whether it answered the request for its tasks, which has the credential.
 * `?` if its answer does not show that.
 * @param {ListedTarget} target
 */
export function callState(target) {
  const answered = target.tasks ?? target.tasks_error?.reason === "rpc_error";
  return refusalOf(target)?.reason ?? (answered ? "ok" : target.last_refresh_error ? "-" : "?");
}
