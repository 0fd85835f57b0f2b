// Prints an envelope: the agent's text on standard output, everything else on standard error.
import EXIT_CODES from "./exit-codes.json" with { type: "json" };
import { INTERRUPTED_STATES } from "./tasks.js";
import { line, note, withOwnCommand, word } from "./text.js";

/** @import {Envelope, EnvelopeError, GroupResult, Summary} from "./types.d.ts" */

export const OK = 0;
export const FAILED = 1;
export const USAGE = 2;
export const AUTH = 4;
export const TIMEOUT = 5;
const NO_CONSENSUS = 11;

// The exit codes by error reason and by state of a task.
const EXIT_CODES_BY_NAME = new Map(Object.entries(EXIT_CODES));
const COMMAND = "openclaw remote-agent";

/** Returns the exit code of an error reason; 1 if the reason has no code. */
export const exitOf = (reason = "") => EXIT_CODES_BY_NAME.get(reason) ?? FAILED;

/**
 * Returns the exit code of a call. A task that failed, was canceled or waits for its caller is not done, and neither is a
 * wait that timed out before its task ended, or an incomplete result. To cancel a task is a success.
 * @param {Envelope} envelope
 */
export function exitOfEnvelope({ ok, action, error, summary }) {
  if (!ok) return exitOf(error?.reason);
  if (summary?.group) return exitOfGroup(summary, action);
  const state = summary?.continuation?.task?.status ?? "";
  if (state === "canceled" && action === "cancel") return OK;
  const exit = EXIT_CODES_BY_NAME.get(state);
  if (exit) return exit;
  if (summary?.wait_expired === true) return TIMEOUT;
  return summary?.incomplete === true ? FAILED : OK;
}

/**
 * Returns the exit code of a call about several targets. Without a decision it is that of what is missing.
 * @param {Summary} summary
 * @param {string} [action]
 */
function exitOfGroup({ group, wait_expired: isExpired }, action) {
  const { mode, decided_by: by, results = [] } = group ?? {};
  if (by === "first" || by === "quorum") return OK;
  if (isExpired) return TIMEOUT;
  const missing = results.map((result) => exitOfResult(result, action)).find((exit) => exit !== OK);
  return missing ?? (by === "none" && mode === "vote" ? NO_CONSENSUS : OK);
}

/**
 * Returns the exit code of one target's answer.
 * @param {GroupResult} result
 * @param {string} [action]
 */
function exitOfResult({ state, error }, action) {
  if (["completed", "answered"].includes(state) || (state === "canceled" && action === "cancel")) return OK;
  if (["submitted", "working"].includes(state)) return TIMEOUT;
  return exitOf(["not_sent", "unknown", "forgotten"].includes(state) ? error?.reason : state);
}

/**
 * Prints how a call ended, and returns its exit code. `hint` is what to do about its error.
 * @param {Envelope} envelope
 * @param {string} [hint]
 * @param {string} [agent] the agent in whose name the call ran
 */
export function report(envelope, hint, agent) {
  const summary = envelope.ok ? envelope.summary : envelope.error?.details?.latest_event_summary;
  if (envelope.error?.reason === "aborted") note(summary?.continuation?.task ? "stopped waiting; the task continues" : "stopped waiting; the agent may have received the message");
  else if (!envelope.ok) printError(envelope.error, hint);
  if (summary?.card_warning) note(withOwnCommand(line(summary.card_warning.message)));
  if (summary?.budget_warning) note(budgetText(summary.budget_warning));
  if (summary?.incomplete) note("part of the result may be missing");
  if (summary?.query_error) note(`the latest queries of the task failed: ${line(summary.query_error)}`);
  if (summary?.wait_expired) note("the wait ended before the task; `--timeout 10m` waits longer");
  for (const { target_alias: alias, state, error } of summary?.group?.results ?? []) note(`${line(alias)}: ${line(state)}${error ? `: ${line(error.message)}` : ""}`);
  if (summary?.group?.decided_by === "none") note("nothing is decided");
  if (summary?.continuation?.target) printNextSteps(summary, agent);
  return exitOfEnvelope(envelope);
}

/**
 * Returns a sentence about a budget that is nearly used up.
 * @param {NonNullable<Summary["budget_warning"]>} warning
 */
function budgetText({ scope, unit, limit, used, resets, unknown_currency: currency }) {
  const ends = resets ? `; it starts anew at ${line(resets)}` : "";
  return `budget (${line(scope)}): ${line(used)} of ${line(limit)} ${line(unit)} are used${ends}${currency ? "; the agent reports a cost in another currency, which no budget counts" : ""}`;
}

/**
 * Prints an error of the library with a hint, by default that for its reason.
 * @param {EnvelopeError} [error]
 * @param {string} [hint]
 */
export function printError({ message, reason, details } = {}, hint = hintFor(reason, details)) {
  note(`error: ${withOwnCommand(line(message ?? "the library's answer is not one of its results; this is a bug of the plugin"))}`);
  for (const place of details?.errors ?? []) note(line(`  ${place.instancePath ?? ""} ${place.message ?? ""}`));
  if (hint) note(`what to do: ${hint}`);
}

/**
 * Returns a hint for an error reason.
 * @param {string} [reason]
 * @param {EnvelopeError["details"]} [details]
 */
export function hintFor(reason, details) {
  if (reason === "address_refused") return "If the agent may be at such an address, set `allowPrivateNetwork` of this target to true, or add it with `--allow-private`.";
  if (reason === "auth_required") return "Add the agent with `--bearer-env VAR`, or set `auth` of this target.";
  if (reason === "invalid_request" && details?.errors?.[0]?.instancePath === "/target_alias") return `Name a configured agent with \`--target ALIAS\`; \`${COMMAND} targets\` lists them.`;
  if (reason === "invalid_request") return `See \`${COMMAND} --help\`.`;
  if (reason === "http_status") {
    const status = details?.http_status;
    return status === 429 || (status ?? 0) >= 500
      ? "The agent cannot work now. Try again later; if it stays so, the log of the agent's server has the cause."
      : "Check the address of the agent: the server there does not accept this request.";
  }
  return details?.hint && line(details.hint);
}

/**
 * Prints the commands that continue a group, whose continuation is in `file`.
 * @param {string} [file]
 */
export function printGroupSteps(file) {
  if (!file) return note(`with \`--save FILE\`, a later \`${COMMAND} watch --continuation FILE\` waits for more`);
  note("to wait for more, to look, or to cancel what goes on:");
  for (const action of ["watch", "status", "cancel"]) note(`  ${COMMAND} ${action} --continuation ${word(file)}`);
}

/**
 * Prints the state of a task, and the commands that continue it or its conversation, in the name of `agent`.
 * @param {Summary} summary
 * @param {string} [agent]
 */
export function printNextSteps({ continuation, status_message: said }, agent) {
  const { target, task, conversation } = continuation ?? {};
  const to = `--target ${word(target?.target_alias ?? "")}${agent ? ` --agent ${word(agent)}` : ""}`;
  const converse = () => {
    if (conversation?.context_id) note(`to continue the conversation:\n  ${COMMAND} send ${to} --context ${word(conversation.context_id)} 'TEXT'`);
  };
  if (!task) return converse();
  const state = task.status ?? "in no known state";
  const waits = INTERRUPTED_STATES.includes(state);
  note(`task ${line(task.task_id)} of ${line(target?.target_alias)}: ${line(state)}${said && waits ? `: ${line(said)}` : ""}`);
  if (!task.can_cancel) return converse();
  const options = `${to} --task ${word(task.task_id)}`;
  note(waits ? "the task waits for you; answer or cancel it:" : "the task continues; follow it, show it, or cancel it:");
  for (const command of waits ? [`send ${options} 'YOUR ANSWER'`, `cancel ${options}`] : [`watch ${options}`, `status ${options}`, `cancel ${options}`])
    note(`  ${COMMAND} ${command}`);
}
