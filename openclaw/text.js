// Text for terminals: text of agents must not move the cursor, change colors or hide other text.
import process from "node:process";

// The ends of lines that are no line feeds. The library takes them for line ends, so that its redaction finds no secret across them.
const LINE_END = /\r\n?|[\u0085\u2028\u2029]/g;
// Characters that control a terminal, reorder text or are invisible, except line feeds and tabs.
const UNSAFE = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\ufff9-\ufffb\p{Default_Ignorable_Code_Point}]/gu;

/** Returns `value` as sanitized text. Serializes an object as JSON, because its `toString` is untrusted. */
export const safe = (value) => (typeof value === "object" && value !== null ? JSON.stringify(value) : String(value ?? "")).replace(LINE_END, "\n").replace(UNSAFE, "");
/** Returns `text` on one line. */
export const line = (text) => safe(text).replace(/\s+/g, " ").trim();
export const print = (text) => process.stdout.write(`${text}\n`);
export const note = (text) => process.stderr.write(`${text}\n`);

/** Returns a text of the library with the command of this plugin where it names that of the command line: both sign in and show pins. */
export const withOwnCommand = (/** @type {string} */ text) => text.replace(/`remote-agent (sign-in|pin)\b/g, "`openclaw remote-agent $1");

/** Formats `ms` in the largest unit of which it has at least one; `-` if unknown. */
export function age(ms) {
  if (ms === undefined) return "-";
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  return seconds < 86400 ? `${Math.floor(seconds / 3600)} h` : `${Math.floor(seconds / 86400)} d`;
}

/**
 * Returns how the calls of the last hour to a target fared: `1 of 20 failed, half took 350 ms, answered 2 min ago`.
 * @param {import("./types.d.ts").Health} [health]
 */
export function healthText({ calls = 0, failed = 0, p50_ms, last_success_at, retry_after_ms } = {}) {
  const parts = [];
  if (retry_after_ms !== undefined) parts.push(`refuses calls for ${age(retry_after_ms)}`);
  if (calls > 0) parts.push(`${failed} of ${calls} failed`);
  if (p50_ms !== undefined) parts.push(`half took ${p50_ms} ms`);
  if (last_success_at) parts.push(`answered ${age(Date.now() - Date.parse(last_success_at))} ago`);
  return parts.join(", ");
}

/** Quotes `text` as one word of a shell. */
export function word(text) {
  const plain = line(text);
  return /^[\w@%+=:,./-]+$/.test(plain) ? plain : `'${plain.replaceAll("'", "'\\''")}'`;
}
