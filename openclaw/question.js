// The question of a remote agent as a person reads it, and the person's answer as the library expects it.
import { line } from "./text.js";
/** @import {Question, QuestionChoice, QuestionField} from "./types.d.ts" */

/** The answers that every question understands, whatever the agent asks. */
export const DECLINE = "Decline";
export const LET_AGENT_ANSWER = "Let the agent answer";
const LEAVE_OUT = "Leave it out";
const DONE = "Done";
const NOT_NOW = "Not now";
const RESERVED = [DECLINE, LET_AGENT_ANSWER, LEAVE_OUT, DONE, NOT_NOW];

/** OpenClaw's limits: the options of a question, its header, and a link. */
const MAX_OPTIONS = 4;
const MAX_HEADER_CHARS = 12;
const MAX_URL_CHARS = 2048;
const MAX_LABEL_CHARS = 80;
const MAX_NAME_CHARS = 200;

const WARNINGS = {
  asks_for_secret: "Warning: the agent seems to ask for a secret. Do not answer with a password, a token or a code.",
  form_not_shown: "The agent also sent a form that cannot be shown. Answer in your own words.",
};

/** The reference of a question in a chat, with the number of its field if it has several. */
export const REFERENCE = /^[0-9a-f]{6}(?:-\d{1,2})?$/;
const HEAD = /Question ([0-9a-f]{6}(?:-\d{1,2})?) of the remote agent/;

/** Returns the reference in a message that quotes a question. The first one counts: words of the agent follow it. */
export const quotedReference = (/** @type {string} */ text) => HEAD.exec(text)?.[1];

/**
 * Returns the question about one field in the format of OpenClaw's `question.request`. Control UI shows the text without
 * Markdown and in one paragraph, so the agent's words are between quotation marks that they cannot contain.
 * @param {Question} question
 * @param {number} index
 * @param {string} [complaint] why the last answer was not accepted
 */
export function gatewayQuestion(question, index, complaint) {
  const field = question.fields[index];
  const { options, isOther } = optionsOf(question, field);
  const url = linkOf(question);
  return {
    questionId: "answer",
    header: nameOf(question).slice(0, MAX_HEADER_CHARS),
    question: textOf(question, index, complaint),
    options: options.map((label) => ({ label })),
    isOther,
    ...(url && { url }),
  };
}

/**
 * Returns the message for a chat. What the agent wrote is in a code block, which shows no links and no Markdown.
 * @param {Question} question
 * @param {number} index
 * @param {string} reference
 * @param {string} [complaint]
 */
export function chatMessage(question, index, reference, complaint) {
  const { options } = optionsOf(question, question.fields[index]);
  const possible = options.length > 0 ? `\nPossible answers: ${options.map((label) => quoted(label)).join(", ")}.` : "";
  const url = linkOf(question);
  return [
    `Question ${reference} of the remote agent ${nameOf(question)}`,
    `\`\`\`\n${(textOf(question, index, complaint) + possible).replaceAll("`", "'")}\n\`\`\``,
    ...(url ? [`Link: ${url}`] : []),
    `Reply to this message, or send \`/remote-answer ${reference} YOUR ANSWER\`. The answer "${DECLINE}" declines.`,
  ].join("\n");
}

/**
 * @param {Question} question
 * @param {number} index
 * @param {string} [complaint]
 */
function textOf(question, index, complaint) {
  const { agent, origin, chain = [], task, text, warnings = [], fields } = question;
  const field = fields[index];
  const link = linkOf(question);
  const path = chain.length > 0 ? ` (passed on by ${chain.map((name) => quoted(name, MAX_NAME_CHARS)).join(", ")})` : "";
  const { choices, isListed } = optionsOf(question, field);
  const mark = (/** @type {number} */ number) => (isNumbered(choices) ? `${number + 1}. ` : "");
  return [
    ...(complaint ? [`The answer was not accepted: ${complaint}.`] : []),
    `${agent ? `${quoted(agent, MAX_NAME_CHARS)}, the remote agent` : "The remote agent"} ${nameOf(question)} at ${line(origin)}, asks a person${task ? ` about the task ${quoted(task)}` : ""}${path}.`,
    ...warnings.map((name) => WARNINGS[name] ?? `Warning: ${line(name)}.`),
    `The agent's own words, not verified: ${quoted(text)}.`,
    ...(fields.length > 1 ? [`Field ${index + 1} of ${fields.length}.`] : []),
    ...(field.name === "answer" && fields.length === 1 ? [] : [`${quoted(field.title || field.name, MAX_NAME_CHARS)}${field.description ? `: ${quoted(field.description)}` : ""}${field.required ? "" : " (optional)"}`]),
    ...(isListed ? [`Choices: ${choices.map(({ label }, number) => `${mark(number)}${quoted(label)}`).join("; ")}`] : []),
    ...(link ? [`The link goes to ${new URL(link).host}.`] : []),
  ].join("\n");
}

/** Returns text of an agent on one line between quotation marks that it cannot end. */
export function quoted(text, maxChars = Infinity) {
  const plain = line(text).replace(/[“”]/g, '"');
  return `“${plain.length > maxChars ? `${plain.slice(0, maxChars)}…` : plain}”`;
}

/** Returns the alias of the target, which the operator chose. */
export const nameOf = (/** @type {Question} */ { target, origin }) => line(target ?? origin);

/** @param {Question} question */
function linkOf({ url }) {
  if (!url || url.length > MAX_URL_CHARS || !URL.canParse(url)) return undefined;
  const { protocol, username, password, href } = new URL(url);
  return protocol === "https:" && !username && !password && href.length <= MAX_URL_CHARS ? href : undefined;
}

/**
 * Returns the options that OpenClaw shows as buttons, and the choices of the field. OpenClaw has no, or two to four, options.
 * Choices that do not fit, or whose names a person could confuse, are a list in the text (`isListed`).
 * @param {Question} question
 * @param {QuestionField} field
 * @returns {{ options: string[], isOther: boolean, choices: { label: string, value: unknown }[], isListed: boolean }}
 */
function optionsOf(question, field) {
  if (question.kind === "auth" && field.type === "text" && linkOf(question)) return { options: [DONE, NOT_NOW], isOther: false, choices: [], isListed: false };
  const choices = field.type === "boolean" ? [{ label: "Yes", value: true }, { label: "No", value: false }] : (field.choices ?? []).map(labelled);
  const extra = [...(field.required ? [] : [LEAVE_OUT]), ...(question.may_pass_to_model ? [LET_AGENT_ANSWER] : [])];
  const labels = choices.map(({ label }) => label);
  const isDistinct = new Set([...labels, ...RESERVED].map(folded)).size === labels.length + RESERVED.length;
  if (choices.length > 0 && isDistinct && labels.every(Boolean) && labels.length + extra.length >= 2 && labels.length + extra.length <= MAX_OPTIONS) {
    return { options: [...labels, ...extra], isOther: false, choices, isListed: false };
  }
  const options = extra.length === 1 ? [...extra, DECLINE] : extra;
  return { options, isOther: true, choices, isListed: choices.length > 0 };
}

/** @param {QuestionChoice} choice */
function labelled({ value, title }) {
  const label = line(title || String(value));
  return { label: label.length > MAX_LABEL_CHARS ? `${label.slice(0, MAX_LABEL_CHARS)}…` : label, value };
}

const folded = (/** @type {unknown} */ text) => line(text).toLowerCase();
const isNumbered = (choices) => !choices.some(({ label, value }) => /^\d+$/.test(label) || /^\d+$/.test(String(value)));

/**
 * Reads what a person wrote or chose about one field. `answer` is the text for OpenClaw, which accepts only the names of its
 * options where it shows nothing else. A field that is left out has no `value`.
 * @param {Question} question
 * @param {number} index
 * @param {string} text
 * @returns {{ action: "answer", answer: string, value?: unknown } | { action: "decline" | "model", answer: string } | { problem: string }}
 */
export function readAnswer(question, index, text) {
  const field = question.fields[index];
  const { options, isOther, choices } = optionsOf(question, field);
  const given = text.trim();
  const reserved = RESERVED.find((label) => folded(label) === folded(given));
  if (reserved === DECLINE || (reserved === NOT_NOW && options.includes(NOT_NOW))) return { action: "decline", answer: reserved };
  if (reserved === LET_AGENT_ANSWER && question.may_pass_to_model) return { action: "model", answer: reserved };
  if (reserved === LEAVE_OUT && !field.required) return { action: "answer", answer: reserved };
  if (given === "") return { problem: "it is empty" };
  if (choices.length > 0) {
    const byName = choices.find(({ label, value }) => folded(label) === folded(given) || String(value) === given);
    const choice = byName ?? (isNumbered(choices) && /^\d+$/.test(given) ? choices[Number(given) - 1] : undefined);
    if (!choice) return { problem: "it is none of the choices" };
    return { action: "answer", answer: isOther ? given : choice.label, value: choice.value };
  }
  if (!isOther && !options.some((label) => folded(label) === folded(given))) return { problem: "it is none of the choices" };
  if (field.type !== "integer" && field.type !== "number") return { action: "answer", answer: reserved ?? given, value: reserved ?? given };
  const number = Number(given);
  if (field.type === "integer" && !Number.isSafeInteger(number)) return { problem: "it is not a whole number" };
  return Number.isFinite(number) ? { action: "answer", answer: given, value: number } : { problem: "it is not a number" };
}
