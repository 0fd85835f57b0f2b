// Writes the text of an agent as it arrives, and the state of its task: on standard output and standard error, or where the caller says.
import { line, note, safe } from "./text.js";
/** @import {Envelope, Part, Summary} from "./types.d.ts" */

/** The states that are progress. The outcome contains any other state, and its status text. */
const IN_PROGRESS = ["submitted", "working"];

/** The output of one call: the artifacts, or the message if there are none. */
export class AnswerWriter {
  /** @type {(text: string) => void} */
  #write;
  /** @type {(text: string) => void} */
  #note;
  /** The printed text of each artifact, by artifact id. */
  #shown = new Map();
  /** The artifact that the last printed text belongs to; undefined after any other output. */
  #open;
  #message;
  /** The printed answers and states of a group, by alias. */
  #answers = new Map();
  #states = new Map();
  #state = "";
  #statusText;
  #isStarted = false;
  #isAtLineStart = true;

  /**
   * @param {(text: string) => void} write
   * @param {(text: string) => void} noteState
   */
  constructor(write = (text) => void process.stdout.write(text), noteState = note) {
    this.#write = write;
    this.#note = noteState;
  }

  /** Prints an update. */
  update({ raw: event, summary }) {
    if (event?.kind === "artifact-update") return this.#chunk(event.artifact?.artifactId ?? "", textOf(event.artifact), event.append === true);
    if (event?.kind === "message") return this.#printMessage(messageOf(event));
    if (summary?.group) return this.#updateGroup(summary.group);
    this.#printState(summary ?? {});
    for (const artifact of event?.artifacts ?? []) this.#artifact(artifact);
  }

  /**
   * Prints what no update contained.
   * @param {Envelope} envelope
   */
  finish({ ok, summary, raw, error }) {
    const latest = /** @type {Summary} */ ((ok ? summary : error?.details?.latest_event_summary) ?? {});
    for (const artifact of latest.artifacts ?? []) this.#artifact(artifact);
    if (latest.group) this.#printAnswers(latest.group, raw);
    const message = raw?.kind === "message" ? messageOf(raw) : (latest.message_text ?? error?.details?.message_text);
    if (message && this.#shown.size === 0 && message !== this.#statusText) this.#printMessage(message);
    this.#endLine();
  }

  /** Prints the answers of a group, and the states that have changed. */
  #updateGroup(group) {
    this.#printAnswers(group);
    this.#endLine();
    for (const { target_alias: alias, state } of group.results) {
      if (state !== "pending" && this.#states.get(alias) !== state) this.#note(`${line(alias)}: ${line(state)}`);
      this.#states.set(alias, state);
    }
  }

  /** Prints the answers of a group that are new, indented, so that no agent can write what looks like the answer of another. */
  #printAnswers({ results }, raw) {
    for (const [place, { target_alias: alias, summary, canceled }] of results.entries()) {
      const said = raw?.[place]?.kind === "message" ? messageOf(raw[place]) : summary?.message_text;
      if (!said || canceled || this.#answers.get(alias) === said) continue;
      this.#printMessage(`${line(alias)}:\n  ${safe(said).replaceAll("\n", "\n  ")}`);
      this.#answers.set(alias, said);
    }
  }

  #artifact(artifact) {
    const id = artifact.artifactId ?? "";
    const text = textOf(artifact);
    const shown = this.#shown.get(id) ?? "";
    if (!text.startsWith(shown)) return this.#chunk(id, text, false);
    const rest = text.slice(shown.length);
    if (rest || !this.#shown.has(id)) this.#chunk(id, rest, shown !== "");
  }

  #chunk(id, text, append) {
    if (append && this.#open === id) {
      this.#print(text);
    } else {
      this.#startBlock();
      this.#print(text.replace(/^\n+/, ""));
      this.#open = id;
    }
    this.#shown.set(id, (append ? (this.#shown.get(id) ?? "") : "") + text);
  }

  #printMessage(text) {
    if (this.#message === text) return;
    this.#startBlock();
    this.#print(text);
    this.#open = undefined;
    this.#message = text;
  }

  #printState({ continuation, status_message: said }) {
    const status = continuation?.task?.status;
    if (!IN_PROGRESS.includes(status)) return;
    const state = [status, said].filter(Boolean).map(line).join(": ");
    if (state === this.#state) return;
    this.#note(state);
    this.#state = state;
    this.#statusText = said;
  }

  #startBlock() {
    this.#endLine();
    if (this.#isStarted) this.#write("\n");
  }

  #endLine() {
    if (!this.#isAtLineStart) this.#write("\n");
    this.#isAtLineStart = true;
  }

  #print(text) {
    const shown = safe(text);
    if (!shown) return;
    this.#isStarted = true;
    this.#isAtLineStart = shown.endsWith("\n");
    this.#write(shown);
  }
}

const textOf = (artifact) => (artifact?.parts ?? []).map(partText).join("");
const messageOf = (message) => (message.parts ?? []).map((part) => partText(part).replace(/^\n+|\n+$/g, "")).join("\n");

/**
 * Returns a part as text. Many agents omit `kind`, so the content decides.
 * @param {Part} part
 */
function partText({ kind, text, data, file }) {
  if (typeof text === "string" || kind === "text") return text ?? "";
  if (kind === "data" || data != null) return `\n${JSON.stringify(data, null, 2)}\n`;
  return `\n[file: ${[file?.name, file?.mimeType, file?.uri].filter(Boolean).map(line).join(", ")}]\n`;
}
