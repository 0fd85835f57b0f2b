// The commands of `openclaw remote-agent` that call agents.
import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { readFile, realpath, rename, rm, stat, writeFile } from "node:fs/promises";
import process from "node:process";

import { AnswerWriter } from "./answer-writer.js";
import { CommandError, positive, timeout } from "./command-support.js";
import { callState, cardState, faultOf, isOfGateway, problemOf, refusalOf } from "./listing.js";
import { pinState } from "./pin.js";
import { withPlace } from "./place.js";
import { repairFor } from "./repair.js";
import { FAILED, OK, exitOf, exitOfEnvelope, printError, printGroupSteps, printNextSteps, report } from "./report.js";
import { table, wrapped } from "./table.js";
import { healthText, line, note, print, safe, word } from "./text.js";
/** @import {Context} from "./commands.js" */
/** @import {CallPlace} from "./repair.js" */
/** @import {CallRequest, Caller, Envelope, ListedGateway, ListedTarget} from "./types.d.ts" */

/** How the answers of several agents become the result. */
const MODES = ["all", "first", "vote"];
const NO_TARGETS = "no agents are configured; `openclaw remote-agent add URL` adds one";

/** @typedef {(words: string, description: string, run: (context: Context, ...values: any[]) => Promise<number>) => any} AddCommand */

/**
 * Registers the commands.
 * @param {AddCommand} command
 */
export function registerCallCommands(command) {
  const asAgent = (added) => added.option("--agent <name>", "Call in the name of this agent of OpenClaw, for a target with `allowedAgents`");
  asAgent(command("targets", "List the agents with the data of their cards", targets));
  asAgent(command("card [alias]", "Show the card of an agent", card));
  const followUp = (added) =>
    asAgent(added)
      .option("--target <alias>", "The alias of the agent; the default agent without it. `send` takes several", collect)
      .addOption(added.createOption("--alias <alias>", "The same").argParser(collect).hideHelp())
      .option("--task <id>", "Continue the task with this id")
      .option("--continuation <file>", "Continue from the file that `send --save FILE` wrote")
      .option("--timeout <duration>", "How long to wait: 500ms, 5s, 10m or 1h; a followed task continues after it")
      .option("--timeout-ms <n>", "The same as a number of milliseconds");
  followUp(command("send [text...]", "Send a message to an agent and print its answer; `-` reads it from standard input", send))
    .option("--follow", "Print the text of the agent while it works")
    .option("--task-required", "Fail unless the agent creates a task")
    .option("--context <id>", "Continue the conversation with this id")
    .option("--save <file>", "Write the continuation to this file, for --continuation")
    .option("--mode <mode>", "With several --target: `all` waits for all, `first` cancels the others once the first task completes, `vote` counts the answers; the default is all")
    .option("--choice <answer>", "With --mode vote: an answer that counts; repeat it for each of at least 2", collect)
    .option("--choice-pointer <pointer>", "With --mode vote: a JSON Pointer to the answer in a data part, in place of the whole text")
    .option("--quorum <n>", "With --mode vote: how many equal answers decide; the default is more than half");
  for (const [name, description] of [
    ["watch", "Follow a task until it ends or requires input"],
    ["status", "Print the state of a task"],
    ["cancel", "Cancel a task"],
  ])
    followUp(command(name, description, (context) => taskAction(name, context))).allowExcessArguments(true);
}

/** Collects the values of an option that may be given several times. */
const collect = (/** @type {string} */ value, /** @type {string[]} */ before = []) => [...before, value];

/** @returns {Caller} */
const callerOf = (/** @type {Context} */ { options }) => (options.agent ? { agent_id: options.agent } : {});

// ---- targets ------------------------------------------------------------------------------------------------------------

/**
 * Lists the targets. The listing of an operator includes tasks, so the agents see the credentials.
 * @param {Context} context
 * @param {(envelope: Envelope, place: CallPlace) => number} show
 */
const withListing = (context, show) =>
  withPlace(context, async (place) => {
    const envelope = await place.run({ action: "list_targets" }, null, { ...callerOf(context), list_tasks: true });
    if (!envelope.ok && !context.options.json) printError(envelope.error);
    return show(envelope, place);
  });

/** @param {Context} context */
const targets = (context) =>
  withListing(context, (envelope, place) => {
    const { agent, json } = context.options;
    if (json) print(JSON.stringify(envelope));
    if (!envelope.ok) return exitOf(envelope.error?.reason);
    const { targets: all = [], gateway } = envelope.summary;
    if (all.length === 0 && !gateway) throw new CommandError(agent ? `no target is for the agent \`${line(agent)}\`` : NO_TARGETS);
    if (!json) showTargets(all, gateway, place);
    const errors = all.map((target) => (target.target_name && !refusalOf(target) ? OK : exitOf(problemOf(target)?.reason)));
    return errors.includes(OK) || errors.length === 0 ? OK : Math.max(...errors);
  });

/**
 * @param {ListedTarget[]} all
 * @param {ListedGateway | undefined} gateway
 * @param {CallPlace} place
 */
function showTargets(all, gateway, place) {
  const row = (/** @type {ListedTarget} */ target) => [
    `${target.target_alias}${target.default ? " (default)" : ""}`,
    target.target_name ?? "?",
    target.target_url,
    { true: "yes", false: "no" }[String(target.streaming_supported)] ?? "?",
    cardState(target),
    callState(target),
    ...calls(healthText(target.health)),
    ...agents(target.allowed_agents ? `only for: ${target.allowed_agents.join(", ")}` : ""),
  ];
  const calls = (/** @type {string} */ text) => (all.some((target) => target.health) ? [text] : []);
  const agents = (/** @type {string} */ text) => (all.some((target) => target.allowed_agents) ? [text] : []);
  const rows = [["ALIAS", "NAME", "ADDRESS", "STREAMING", "CARD", "CALLS", ...calls("LAST HOUR"), ...agents("AGENTS")], ...all.map(row)];
  if (all.length > 0) print(table(rows));
  const fault = faultOf(gateway);
  if (fault) note(wrapped(`\n${fault}`));
  for (const target of all) {
    const [pinned] = pinState(target) ?? [];
    if (pinned) print(`${line(target.target_alias)}: ${pinned}`);
    const error = problemOf(target);
    if (error && !(fault && isOfGateway(target))) note(wrapped(`\n${line(target.target_alias)}: ${line(error.message)}\nwhat to do: ${repairFor(error, target.target_alias, place) ?? "Check the address."}`));
  }
}

/**
 * @param {Context} context
 * @param {string} [alias]
 */
const card = (context, alias) =>
  withListing(context, (envelope, place) => {
    if (!envelope.ok) return exitOf(envelope.error?.reason);
    const all = envelope.summary.targets ?? [];
    const target = alias ? all.find((one) => one.target_alias === alias) : (all.find((one) => one.default) ?? all[0]);
    if (!target) throw new CommandError(alias ? `no agent is called \`${line(alias)}\`; \`openclaw remote-agent targets\` lists them` : NO_TARGETS);
    if (target.allowed_agents) note(`only for: ${target.allowed_agents.map(line).join(", ")}; call it with \`--agent ${word(target.allowed_agents[0])}\``);
    if (target.last_refresh_error) {
      printError(target.last_refresh_error, repairFor(target.last_refresh_error, target.target_alias, place));
      return exitOf(target.last_refresh_error.reason);
    }
    const { tasks, tasks_error, ...shown } = target;
    print(safe(JSON.stringify(shown, null, context.options.json ? 0 : 2)));
    return OK;
  });

// ---- calls --------------------------------------------------------------------------------------------------------------

/**
 * @param {Context} context
 * @param {string[]} words
 */
async function send(context, words) {
  const { options } = context;
  const text = words.length === 1 && words[0] === "-" ? await standardInput() : words.join(" ");
  if (!text.trim()) throw new CommandError("there is no message; write it as TEXT, or `-` to read standard input");
  /** @type {CallRequest} */
  const request = { action: "send", parts: [{ kind: "text", text }] };
  if (options.follow) request.follow_updates = true;
  if (options.taskRequired) request.task_requirement = "required";
  if (options.context) request.context_id = options.context;
  return call(context, request);
}

/**
 * Returns the fields of a request to these agents: one of them, or several as a group.
 * @param {string[]} aliases
 * @param {string} action
 * @param {Record<string, any>} options
 * @returns {CallRequest}
 */
export function targetFields(aliases, action, { mode, choice, choicePointer, quorum }) {
  const given = Object.entries({ "--choice": choice, "--choice-pointer": choicePointer, "--quorum": quorum });
  const [ofVote] = given.find(([, value]) => value !== undefined) ?? [];
  if (ofVote && mode !== "vote") throw new CommandError(`\`${ofVote}\` goes only with \`--mode vote\``);
  if (mode !== undefined && !MODES.includes(mode)) throw new CommandError(`\`--mode\` is one of ${MODES.join(", ")}`);
  if (mode !== undefined && aliases.length === 0) throw new CommandError("`--mode` needs the agents; name each with `--target`");
  if (choice?.length === 1) throw new CommandError("`--choice` needs at least 2 choices");
  if (aliases.length <= 1 && mode === undefined) return aliases.length === 1 ? { target_alias: aliases[0] } : {};
  if (action !== "send") throw new CommandError(`${action} takes one \`--target\`; \`openclaw remote-agent send\` takes several`);
  const vote = { ...(choice && { choices: choice }), ...(choicePointer !== undefined && { choice_pointer: choicePointer }), ...(quorum !== undefined && { quorum: positive(quorum, "--quorum") }) };
  return { target_aliases: aliases, ...(mode && { mode }), ...vote };
}

/**
 * @param {string} action
 * @param {Context} context
 */
async function taskAction(action, context) {
  const [given] = context.args;
  if (given) {
    const option = existsSync(given) ? "--continuation" : "--task";
    throw new CommandError(`\`${line(given)}\` needs an option; write \`openclaw remote-agent ${action} ${option} ${word(given)}\``);
  }
  if (!context.options.task && !context.options.continuation) throw new CommandError(`${action} needs a task; name it with \`--task ID\` or \`--continuation FILE\``);
  return call(context, { action });
}

/**
 * @param {Context} context
 * @param {CallRequest} request
 */
async function call(context, request) {
  const { options } = context;
  Object.assign(request, targetFields([...(options.target ?? []), ...(options.alias ?? [])], request.action ?? "", options));
  if (options.task) request.task_id = options.task;
  if (options.continuation) request.continuation = await readContinuation(options.continuation);
  if (options.timeout !== undefined && options.timeoutMs !== undefined) throw new CommandError("give `--timeout` or `--timeout-ms`, not both");
  if (options.timeout !== undefined) request.timeout_ms = timeout(options.timeout);
  if (options.timeoutMs !== undefined) request.timeout_ms = positive(options.timeoutMs, "--timeout-ms");
  const caller = { ...callerOf(context), by_person: !options.json && isTypedByPerson() };
  const answer = new AnswerWriter();
  let saving = Promise.resolve();
  const onUpdate = (update) => {
    const { group, continuation } = update.summary ?? {};
    // The command may be killed. Its end reports a file that cannot be written.
    if (group && options.save) saving = saving.then(() => save(options.save, continuation)).catch(() => {});
    if (options.json) print(JSON.stringify(update));
    else if (options.follow || !group) answer.update(update);
  };
  return await withPlace(context, async (place) => {
    const envelope = await place.run(request, onUpdate, caller);
    await saving;
    if (options.json) print(JSON.stringify(envelope));
    else answer.finish(envelope);
    const continuation = (envelope.ok ? envelope.summary : envelope.error?.details?.latest_event_summary)?.continuation;
    const isSaved = !options.save || !continuation || (await saved(options.save, continuation));
    if (options.json) return exitOfEnvelope(envelope) || (isSaved ? OK : FAILED);
    const target = request.target_alias ?? request.continuation?.target?.target_alias;
    const exit = report(envelope, envelope.ok ? undefined : repairFor(envelope.error, target, place), options.agent);
    if (continuation?.group && envelope.summary?.next_step) printGroupSteps(options.save ?? options.continuation);
    // An agent that refuses a message for a task may have ended the task.
    if (request.action === "send" && (request.task_id ?? request.continuation?.task) && envelope.error?.reason === "rpc_error") {
      const { ok, summary } = await place.run(stateOf(request), null, caller);
      if (ok) printNextSteps(summary, options.agent);
    }
    return exit || (isSaved ? OK : FAILED);
  });
}

/**
 * Returns whether a person types this command, whose message is then theirs: on a terminal that also shows the answer. Programs and
 * models that run commands have pipes in place of one of these, and OpenClaw and the reference gateway mark what their agents run.
 */
export const isTypedByPerson = ({ stdin, stdout, env } = process) => stdin.isTTY && stdout.isTTY && env.OPENCLAW_SHELL !== "exec" && env.REMOTE_AGENT_DELEGATION === undefined;

/**
 * Writes a continuation to a file that only this user can read: its holder can send messages in the conversation. Replaces an
 * existing file atomically, and leaves one with the same content.
 * @param {string} file
 * @param {unknown} continuation
 */
export async function save(file, continuation) {
  const text = `${JSON.stringify(continuation)}\n`;
  const path = await realpath(file).catch(() => file);
  const before = await stat(path).catch(() => undefined);
  // A rename would put a file in the place of a pipe or a device.
  if (before && !before.isFile()) return await writeFile(path, text);
  if (before?.size === Buffer.byteLength(text) && (await readFile(path, "utf8")) === text) return;
  const written = `${path}.${randomUUID()}.new`;
  try {
    await writeFile(written, text, { mode: 0o600, flag: "wx" });
    await rename(written, path);
  } catch (error) {
    await rm(written, { force: true });
    throw error;
  }
}

/** Writes a continuation to a file. Returns false and says so if that fails: the call is over, and its output has to follow. */
async function saved(file, continuation) {
  try {
    await save(file, continuation);
    return true;
  } catch (error) {
    note(`error: cannot save the continuation: ${line(error.message)}`);
    return false;
  }
}

/** Returns the request for the state of the task that a message refers to. */
const stateOf = (/** @type {CallRequest} */ { target_alias, task_id, continuation, timeout_ms }) => ({ action: "status", ...(target_alias && { target_alias }), ...(task_id && { task_id }), ...(continuation && { continuation }), ...(timeout_ms && { timeout_ms }) });

/** @param {string} file */
async function readContinuation(file) {
  try {
    return JSON.parse(await readFile(file, "utf8"));
  } catch (error) {
    throw new CommandError(`cannot continue from \`${file}\`: ${error.message}; name a file that \`send --save FILE\` wrote`);
  }
}

async function standardInput() {
  const chunks = [];
  for await (const chunk of process.stdin) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}
