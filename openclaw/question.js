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
/** The longest choice that is a button. */
const MAX_LABEL_CHARS = 80;
const MAX_NAME_CHARS = 200;

const WARNINGS = {
  asks_for_secret: "Warning: the agent seems to ask for a secret. Do not answer with a password, a token or a code.",
  form_not_shown: "The agent also sent a form that cannot be shown. Answer in your own words.",
};

/** Where a person may write any text, as the other hosts say it. */
const NEVER_SEND = "Never send passwords or keys to an agent.";
/** The hosts where a sign-in may be without TLS. */
const THIS_MACHINE = ["127.0.0.1", "[::1]", "localhost"];

/** The reference of a question in a chat, with the number of its field if it has several. */
export const REFERENCE = /^[0-9a-f]{6}(?:-\d{1,2})?$/;

/** What a text of an agent must not contain between quotation marks. */
const QUOTES = /[\p{Pi}\p{Pf}"`＂„‚〝〞〟″‶❝❞❠]/gu;
/** What Markdown gives a meaning in a link. */
const MARKDOWN = /[()[\]*_`~<>]/g;

/**
 * Parses a question. A number that JavaScript would write in another way, or round, keeps its text: the value of a choice has to
 * come back as the library sent it.
 * @param {string} json
 * @returns {Question}
 */
export function parseQuestion(json) {
  const exact = (_key, value, { source }) => (typeof value === "number" && String(value) !== source ? /** @type {any} */ (JSON).rawJSON(source) : value);
  return JSON.parse(json, /** @type {any} */ (exact));
}

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
  const link = url ? [`Link: ${url}`] : [];
  const isSignIn = question.kind === "auth";
  const block = [textOf(question, index, complaint) + possible, ...(isSignIn ? [] : link)].join("\n");
  return [
    `Question ${reference} of the remote agent ${nameOf(question)}`,
    `\`\`\`\n${block.replaceAll("`", "'")}\n\`\`\``,
    ...(isSignIn ? link : []),
    `Reply to this message, or send \`/remote-answer ${reference} YOUR ANSWER\`. The answer "${DECLINE}" declines.`,
  ].join("\n");
}

/**
 * @param {Question} question
 * @param {number} index
 * @param {string} [complaint]
 */
function textOf(question, index, complaint) {
  const { agent, origin, chain = [], task, text, warnings = [], fields, sign_in: prompt } = question;
  const field = fields[index];
  const link = linkOf(question);
  if (prompt) {
    return [
      ...(complaint ? [`The answer was not accepted: ${complaint}.`] : []),
      `To call the remote agent ${nameOf(question)} at ${line(origin)}, sign in at ${line(prompt.server)}.`,
      ...(link ? [`The link goes to ${new URL(link).host}.`] : []),
      ...(prompt.code ? [`Enter the code ${quoted(prompt.code)} there.`] : []),
      ...(prompt.takes_address ? ["If the page at the end does not load, answer with its whole address."] : []),
    ].join("\n");
  }
  const path = chain.length > 0 ? ` (passed on by ${chain.map((name) => quoted(name, MAX_NAME_CHARS)).join(", ")})` : "";
  const { choices, isListed, isOther } = optionsOf(question, field);
  const mark = markOf(choices);
  return [
    ...(complaint ? [`The answer was not accepted: ${complaint}.`] : []),
    `${agent ? `${quoted(agent, MAX_NAME_CHARS)}, the remote agent` : "The remote agent"} ${nameOf(question)} at ${line(origin)}, asks a person${task ? ` about the task ${quoted(task)}` : ""}${path}.`,
    ...warnings.map((name) => WARNINGS[name] ?? `Warning: ${line(name)}.`),
    ...(field.type === "text" && isOther ? [NEVER_SEND] : []),
    `The agent's own words, not verified: ${quoted(text)}.`,
    ...(fields.length > 1 ? [`Field ${index + 1} of ${fields.length}.`] : []),
    ...(field.name === "answer" && fields.length === 1 ? [] : [`${quoted(field.title || field.name, MAX_NAME_CHARS)}${field.description ? `: ${quoted(field.description)}` : ""}${field.required ? "" : " (optional)"}`]),
    ...(isListed ? [`Choices: ${choices.map(({ label, shown }, number) => `${mark}${number + 1}. ${quoted(label)}${shown === undefined ? "" : ` (${quoted(shown)})`}`).join("; ")}`] : []),
    ...(link ? [`The link goes to ${new URL(link).host}.`] : []),
  ].join("\n");
}

/** Returns text of an agent on one line between quotation marks that it cannot end. */
export function quoted(text, maxChars = Infinity) {
  const plain = line(text).replace(QUOTES, "'");
  return `“${plain.length > maxChars ? `${plain.slice(0, maxChars)}…` : plain}”`;
}

/** Returns the alias of the target, which the operator chose. */
export const nameOf = (/** @type {Question} */ { target, origin }) => line(target ?? origin);

/**
 * Returns the link of the agent, without characters that would end it or format it in a chat.
 * @param {Question} question
 */
export function linkOf({ url, sign_in: prompt }) {
  if (!url || url.length > MAX_URL_CHARS || !URL.canParse(url)) return undefined;
  const { protocol, username, password, origin, hostname, href } = new URL(url);
  const isHere = prompt && protocol === "http:" && THIS_MACHINE.includes(hostname);
  if ((protocol !== "https:" && !isHere) || username || password) return undefined;
  // The brackets of an IPv6 address have to stay.
  const start = hostname.startsWith("[") ? origin : `${protocol}//`;
  const link = start + href.slice(start.length).replace(MARKDOWN, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`);
  return link.length <= MAX_URL_CHARS ? link : undefined;
}

/**
 * Returns the options that OpenClaw shows as buttons, and the choices of the field. OpenClaw has no, or two to four, options.
 * Choices that do not fit, or whose names a person could confuse, are a list in the text (`isListed`).
 * @param {Question} question
 * @param {QuestionField} field
 * @returns {{ options: string[], isOther: boolean, choices: Choice[], isListed: boolean }}
 */
function optionsOf(question, field) {
  if (question.kind === "auth" && field.type === "text" && linkOf(question)) return { options: [DONE, NOT_NOW], isOther: question.sign_in?.takes_address === true, choices: [], isListed: false };
  const choices = field.type === "boolean" ? [{ label: "Yes", value: true }, { label: "No", value: false }] : choicesOf(field.choices ?? []);
  const extra = [...(field.required ? [] : [LEAVE_OUT]), ...(question.may_pass_to_model ? [LET_AGENT_ANSWER] : [])];
  const labels = choices.map(({ label }) => label);
  const isDistinct = new Set([...labels, ...RESERVED].map(folded)).size === labels.length + RESERVED.length;
  const isShort = labels.every((label) => label && label.length <= MAX_LABEL_CHARS);
  if (choices.length > 0 && isDistinct && isShort && labels.length + extra.length >= 2 && labels.length + extra.length <= MAX_OPTIONS) {
    return { options: [...labels, ...extra], isOther: false, choices, isListed: false };
  }
  const options = extra.length === 1 ? [...extra, DECLINE] : extra;
  return { options, isOther: true, choices, isListed: choices.length > 0 };
}

/**
 * A choice as a person reads it. Where another one has the same label, `shown` is its value.
 * @typedef {{ label: string, value: unknown, shown?: string }} Choice
 */

/**
 * @param {QuestionChoice[]} choices
 * @returns {Choice[]}
 */
function choicesOf(choices) {
  const named = choices.map(({ value, title }) => ({ label: line(title || textOfValue(value)), value }));
  const isSame = (/** @type {Choice} */ one, /** @type {Choice} */ other) => one !== other && folded(one.label) === folded(other.label);
  return named.map((choice) => (named.some((other) => isSame(choice, other)) ? { ...choice, shown: line(textOfValue(choice.value)) } : choice));
}

/** @param {any} value a string, a boolean, a number, or the text of a number */
const textOfValue = (value) => (typeof value === "object" && value ? value.rawJSON : String(value));

/** Returns the same text for texts that a person cannot tell apart in a question. */
const folded = (/** @type {unknown} */ text) => line(text).replace(QUOTES, "'").toLowerCase();

/** Returns what stands before the number of a choice, so that no name of a choice reads like a number. */
function markOf(choices) {
  const isName = (/** @type {string} */ text) => choices.some(({ label, shown }) => label === text || shown === text);
  let mark = "";
  while (choices.some((_choice, number) => isName(`${mark}${number + 1}`))) mark += "#";
  return mark;
}

/**
 * Returns the choices that a person may mean: those with this name on their button or in the list, or else that with this number
 * in the list, or else those for which the list shows this value.
 * @param {ReturnType<typeof optionsOf>} options
 * @param {string} given
 */
function meant({ choices, isListed }, given) {
  const named = choices.filter(({ label }) => folded(label) === folded(given));
  if (named.length > 0 || !isListed) return named;
  const mark = markOf(choices);
  const numbered = choices.filter((_choice, number) => `${mark}${number + 1}` === given);
  return numbered.length > 0 ? numbered : choices.filter(({ shown }) => shown === given);
}

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
  const shown = optionsOf(question, field);
  const { options, isOther, choices } = shown;
  const given = text.trim();
  const reserved = RESERVED.find((label) => folded(label) === folded(given));
  if (reserved === DECLINE || (reserved === NOT_NOW && options.includes(NOT_NOW))) return { action: "decline", answer: reserved };
  if (reserved === LET_AGENT_ANSWER && question.may_pass_to_model) return { action: "model", answer: reserved };
  if (reserved === LEAVE_OUT && !field.required) return { action: "answer", answer: reserved };
  if (given === "") return { problem: "it is empty" };
  if (choices.length > 0) {
    const [choice, ...others] = meant(shown, given);
    if (!choice) return { problem: "it is none of the choices" };
    if (others.length > 0) return { problem: "several choices have this name; answer with the number of one" };
    return { action: "answer", answer: isOther ? given : choice.label, value: choice.value };
  }
  if (!isOther && !options.some((label) => folded(label) === folded(given))) return { problem: "it is none of the choices" };
  if (field.type !== "integer" && field.type !== "number") return { action: "answer", answer: reserved ?? given, value: reserved ?? given };
  const number = Number(given);
  if (field.type === "integer" && !Number.isSafeInteger(number)) return { problem: "it is not a whole number" };
  return Number.isFinite(number) ? { action: "answer", answer: given, value: number } : { problem: "it is not a number" };
}
