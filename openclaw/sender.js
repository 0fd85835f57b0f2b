// The names of a person who writes in a chat: for the library, and for those who read who answered.
import { line } from "./text.js";

/** The account of a channel that has no others. */
export const DEFAULT_ACCOUNT = "default";
const MAX_NAME_CHARS = 100;

/**
 * Returns the name of the sender of a message as the `user` of a caller, for targets where each person signs in: with the host, the
 * channel and its account, because another of these may have the same id. The parts have no colon. Undefined without a sender.
 * @param {{ messageChannel?: string, agentAccountId?: string, requesterSenderId?: string }} message
 */
export function senderOf({ messageChannel, agentAccountId, requesterSenderId }) {
  const parts = ["openclaw", messageChannel, agentAccountId, requesterSenderId];
  return requesterSenderId ? parts.map((part) => (part ?? "").replaceAll("%", "%25").replaceAll(":", "%3A")).join(":") : undefined;
}

/**
 * Returns whether a caller's `user` is this sender.
 * @param {string | undefined} user
 * @param {string} messageChannel
 * @param {string} account
 * @param {string} requesterSenderId
 */
export function isSender(user, messageChannel, account, requesterSenderId) {
  // Some calls leave out the default account.
  const accounts = account === DEFAULT_ACCOUNT ? [account, undefined] : [account];
  return user !== undefined && accounts.some((agentAccountId) => senderOf({ messageChannel, agentAccountId, requesterSenderId }) === user);
}

/** Returns who answered a question, as OpenClaw and the result of the call show it. */
export const answeredBy = (channel = "chat", sender = "unknown") => shownName(`${channel}:${sender}`);

export const shownName = (/** @type {string} */ name) => line(name).slice(0, MAX_NAME_CHARS);
