// Prints an envelope: the agent's text on standard output, everything else on standard error.
import process from "node:process";

import EXIT_CODES from "./exit-codes.json" with { type: "json" };
/** @import {Envelope, EnvelopeError, Part, Summary} from "./types.d.ts" */

export const OK = 0;
export const FAILED = 1;
export const USAGE = 2;
export const TIMEOUT = 5;

// The exit codes by error reason and by state of a task.
const EXIT_CODES_BY_NAME = new Map(Object.entries(EXIT_CODES));
const COMMAND = "openclaw remote-agent";

// Characters that control a terminal, reorder text or are invisible, except line feeds and tabs.
const UNSAFE = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\ufff9-\ufffb\p{Default_Ignorable_Code_Point}]/gu;

/** Returns `value` as sanitized text. Serializes an object as JSON, because its `toString` is untrusted. */
export const safe = (value) => (typeof value === "object" && value !== null ? JSON.stringify(value) : String(value ?? "")).replace(UNSAFE, "");
/** Returns `text` on one line. */
export const line = (text) => safe(text).replace(/\s+/g, " ").trim();
export const print = (text) => process.stdout.write(`${text}\n`);
export const note = (text) => process.stderr.write(`${text}\n`);

/** Formats `ms` in the largest unit of which it has at least one; `-` if unknown. */
export function age(ms) {
  if (ms === undefined) return "-";
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  return seconds < 86400 ? `${Math.floor(seconds / 3600)} h` : `${Math.floor(seconds / 86400)} d`;
}

/** Returns the exit code of an error reason; 1 if the reason has no code. */
export const exitOf = (reason = "") => EXIT_CODES_BY_NAME.get(reason) ?? FAILED;

/**
 * Returns the exit code of a call. A task that failed, was canceled or waits for its caller is not done, and neither is a
 * wait that timed out before its task ended, or an incomplete result. To cancel a task is a success.
 * @param {Envelope} envelope
 */
export function exitOfEnvelope({ ok, action, error, summary }) {
  if (!ok) return exitOf(error?.reason);
  const state = summary?.continuation?.task?.status ?? "";
  if (state === "canceled" && action === "cancel") return OK;
  const exit = EXIT_CODES_BY_NAME.get(state);
  if (exit) return exit;
  if (summary?.wait_expired === true) return TIMEOUT;
  return summary?.incomplete === true ? FAILED : OK;
}

/**
 * Prints how a call ended, and returns its exit code.
 * @param {Envelope} envelope
 */
export function report(envelope) {
  if (envelope.ok) words(envelope);
  else printError(envelope.error);
  const summary = envelope.ok ? envelope.summary : envelope.error?.details?.latest_event_summary;
  if (summary?.incomplete) note("part of the result may be missing");
  if (summary?.wait_expired) note("the wait ended before the task; `--timeout-ms` sets a longer one");
  if (summary?.continuation) printNextSteps(summary);
  return exitOfEnvelope(envelope);
}

/** @param {Extract<Envelope, { ok: true }>} envelope */
function words({ summary, raw }) {
  const artifacts = summary.artifacts ?? [];
  for (const artifact of artifacts) print(safe((artifact.parts ?? []).map(part).join("")));
  const message = raw?.kind === "message" ? (raw.parts ?? []).map(part).join("\n") : summary.message_text;
  if (artifacts.length === 0 && message) print(safe(message));
}

/**
 * Returns a part as text. Many agents omit `kind`, so the content decides.
 * @param {Part} part
 */
function part({ kind, text, data, file }) {
  if (typeof text === "string" || kind === "text") return text ?? "";
  if (kind === "data" || data != null) return `\n${JSON.stringify(data, null, 2)}\n`;
  return `\n[file: ${[file?.name, file?.mimeType, file?.uri].filter(Boolean).map(line).join(", ")}]\n`;
}

/**
 * Prints an error of the library with a hint.
 * @param {EnvelopeError} [error]
 */
export function printError({ message, reason, details } = {}) {
  note(`error: ${line(message ?? "the library's answer is not one of its results; this is a bug of the plugin")}`);
  for (const place of details?.errors ?? []) note(line(`  ${place.instancePath ?? ""} ${place.message ?? ""}`));
  const hint = hintFor(reason, details);
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
 * Prints the state of a task, and the commands that continue it or its conversation.
 * @param {Summary} summary
 */
export function printNextSteps({ continuation, status_message: said }) {
  const { target, task, conversation } = continuation ?? {};
  const to = `--target ${word(target?.target_alias ?? "")}`;
  const converse = () => {
    if (conversation?.context_id) note(`to continue the conversation:\n  ${COMMAND} send ${to} --context ${word(conversation.context_id)} 'TEXT'`);
  };
  if (!task) return converse();
  const state = task.status ?? "in no known state";
  const waits = ["input-required", "auth-required"].includes(state);
  note(`task ${line(task.task_id)} of ${line(target?.target_alias)}: ${line(state)}${said && waits ? `: ${line(said)}` : ""}`);
  if (!task.can_cancel) return converse();
  const options = `${to} --task ${word(task.task_id)}`;
  note(waits ? "the task waits for you; answer or cancel it:" : "the task continues; follow it, show it, or cancel it:");
  for (const command of waits ? [`send ${options} 'YOUR ANSWER'`, `cancel ${options}`] : [`watch ${options}`, `status ${options}`, `cancel ${options}`])
    note(`  ${COMMAND} ${command}`);
}

/** Quotes `text` as one word of a shell. */
export function word(text) {
  const plain = line(text);
  return /^[\w@%+=:,./-]+$/.test(plain) ? plain : `'${plain.replaceAll("'", "'\\''")}'`;
}

/** Formats rows as aligned columns. The first row is the header. */
export function table(rows) {
  const cells = rows.map((row) => row.map((cell) => line(cell)));
  const widths = cells[0].map((_, column) => cells.reduce((width, row) => Math.max(width, row[column].length), 0));
  return cells.map((row) => row.map((cell, column) => cell.padEnd(widths[column])).join("  ").trimEnd()).join("\n");
}
