// `openclaw remote-agent …`: commands with the names and exit codes of `remote-agent`, on the settings of OpenClaw.
import { createReadStream } from "node:fs";
import process from "node:process";
import { createInterface } from "node:readline";

import { callGateway, noGateway } from "./ask-gateway.js";
import { registerCallCommands } from "./call-commands.js";
import { CommandError, duration, edit, positive } from "./command-support.js";
import { settings } from "./config.js";
import { registerPinCommand } from "./pin.js";
import { withPlace } from "./place.js";
import { FAILED, OK, exitOf, printError } from "./report.js";
import { registerSignInCommands } from "./sign-in.js";
import { registerSubagentCommands } from "./subagent-commands.js";
import { registerTargetCommands } from "./targets-commands.js";
import { table, wrapped } from "./table.js";
import { lastWord, selected, withAgentTasks } from "./tasks.js";
import { sumsBy, usageText } from "./usage.js";
import { age, line, note, print, safe } from "./text.js";
/** @import {Api, HostConfig} from "./types.d.ts" */

/** @typedef {{ api: Api, host: HostConfig, options: Record<string, any>, args: string[] }} Context */

const PLACE = "plugins.entries.remote-agent.config";
/** The maximum number of finished tasks without a text for which `tasks` requests the text from the agent. */
const MAX_REQUESTED_TEXTS = 8;
const TEXT_TIMEOUT_MS = 5000;
const STATES = ["submitted", "working", "input-required", "auth-required", "completed", "failed", "canceled", "rejected", "unknown"];

/** Registers the commands below `program`. `config` is the configuration of the host. */
export function registerCommands({ program, config: host }, api) {
  const root = program.command("remote-agent").description("Call agents elsewhere over A2A, and manage the targets of the remote_agent tool");
  const command = (words, description, run) =>
    root
      .command(words)
      .description(description)
      .option("--json", "Print JSON")
      .action(async (...values) => {
        // Commander passes the arguments, the options and the command.
        const [options, { args }] = values.splice(-2);
        process.exitCode = await withErrorHandling(() => run({ api, host, options, args }, ...values));
      });

  registerTargetCommands(command);
  registerCallCommands(command);
  registerSignInCommands(command);
  registerPinCommand(command);
  registerSubagentCommands(command);
  command("tasks", "Show the tasks that the gateway delegated and those that agents list, the latest first", tasks)
    .option("--target <alias>", "Only tasks of this agent")
    .option("--state <states>", "Only tasks in these states, with commas between them")
    .option("--since <duration>", "Only tasks with news since then: 30s, 10m, 2h, 7d")
    .option("--limit <n>", "At most this many", "50");
  command("audit", "Show the last lines of the audit log", audit).option("--limit <n>", "The number of lines", "20");
  command("doctor", "Check settings, credentials and agents", doctor).option("--fix", "Repair what is safe to repair");
}

/** Runs a command. Prints its error and returns its exit code. */
async function withErrorHandling(run) {
  try {
    return await run();
  } catch (error) {
    note(`error: ${safe(error?.message ?? error)}`);
    return error instanceof CommandError ? error.exit : FAILED;
  }
}

// ---- the running gateway, the audit log, doctor -------------------------------------------------------------------------

/**
 * Returns the filters of `tasks` from its options.
 * @param {Record<string, any>} options
 */
function filters({ target, state, since, limit }) {
  const states = state?.split(",").map((name) => name.trim());
  const unknown = states?.find((name) => !STATES.includes(name));
  if (unknown !== undefined) throw new CommandError(`\`--state ${line(unknown)}\` is no state of a task; give ${STATES.join(", ")}`);
  return { target, states, sinceMs: since && maxAge(since), limit: positive(limit, "--limit") };
}

/**
 * Returns the milliseconds of `--since`.
 * @param {string} text
 */
function maxAge(text) {
  const milliseconds = duration(text, ["s", "m", "h", "d"]);
  if (milliseconds === undefined) throw new CommandError("give `--since` a duration like 30s, 10m, 2h or 7d");
  return milliseconds;
}

/** @param {Context} context */
async function tasks(context) {
  const wanted = filters(context.options);
  const { answer, error, unreachable } = await callGateway("remoteAgent.tasks");
  if (error) throw new CommandError(`the gateway does not list tasks: ${line(error)}`, FAILED);
  const [targets, all] = await withPlace(context, async (place) => {
    const listing = await place.run({ action: "list_targets" }, null, { list_tasks: true });
    const targets = listing.summary?.targets ?? [];
    if (!listing.ok) printError(listing.error);
    return [targets, await withLastTexts(place, selected(withAgentTasks(answer?.tasks ?? [], targets), wanted))];
  }, unreachable !== undefined);
  for (const { target_alias: alias, tasks_more: hasMore, tasks_unreadable: unreadable } of targets) {
    if (hasMore) note(`${line(alias)} has more tasks than it listed`);
    if (unreadable) note(`${line(alias)} lists ${unreadable} that cannot be read`);
  }
  for (const { target_alias: alias, tasks_error: problem } of targets) if (problem) note(problem.reason === "rpc_error" ? `${line(alias)} has no list of tasks` : `${line(alias)} does not list its tasks: ${line(problem.message)}`);
  if (unreachable && all.length === 0) throw new CommandError(`no agent lists tasks, and ${noGateway(unreachable)}`, exitOf("unreachable"));
  if (unreachable) note(`${noGateway(unreachable)}. These are the tasks that the agents list:`);
  const usage = { targets: sumsBy(all, (task) => task.target), sessions: sumsBy(all, (task) => task.session) };
  const isReported = Object.keys(usage.targets).length > 0;
  if (context.options.json) print(JSON.stringify({ tasks: all, ...(isReported && { usage }) }));
  else if (all.length === 0) note("no such task is on record, and no agent lists one");
  else {
    const used = (text) => (isReported ? [text] : []);
    print(table([["TARGET", "TASK", "STATE", "AGE", "CHANGED", "NOTIFY", ...used("USED"), "LAST WORD"], ...all.map((task) => [task.target, task.taskId, task.state, age(task.ageMs), age(task.updatedMs), task.notify ? "yes" : "-", ...used(usageText(task.usage)), truncated(task.lastWord)])]));
    for (const [kind, sums] of Object.entries({ agent: usage.targets, session: usage.sessions })) for (const [name, sum] of Object.entries(sums)) note(`used by ${kind} ${line(name)}: ${usageText(sum)}`);
  }
  return OK;
}

/**
 * Adds texts to listed tasks: an agent's task list has no artifacts, so this gets the newest finished tasks without a text.
 */
async function withLastTexts(instance, tasks) {
  const withoutText = tasks.filter(({ lastWord: word, state }) => !word && state === "completed").slice(0, MAX_REQUESTED_TEXTS);
  const ask = async ({ target, taskId }) => lastWord((await instance.run({ action: "status", target_alias: target, task_id: taskId, timeout_ms: TEXT_TIMEOUT_MS }).catch(withoutResult)).summary ?? {});
  const words = new Map(await Promise.all(withoutText.map(async (task) => [task, await ask(task)])));
  return tasks.map((task) => (words.has(task) ? { ...task, lastWord: words.get(task) } : task));
}

/** A gateway that refuses the request, for example because the operator may only read, leaves the task without a text. */
const withoutResult = () => ({ summary: undefined });

const truncated = (text) => (line(text).length > 60 ? `${line(text).slice(0, 59)}…` : line(text));

/** @param {Context} context */
async function audit({ api, host, options }) {
  const { config } = settings({ pluginConfig: api.pluginConfig, config: host });
  const path = config.audit?.enabled === true ? config.audit.path : undefined;
  if (!path) throw new CommandError(`there is no audit log; set \`${PLACE}.audit.enabled\` and \`${PLACE}.audit.path\``);
  const limit = positive(options.limit, "--limit");
  const last = [];
  try {
    for await (const text of createInterface({ input: createReadStream(path) })) if (last.push(text) > limit) last.shift();
  } catch (error) {
    throw new CommandError(`cannot read the audit log: ${error.message}`, FAILED);
  }
  if (options.json) return last.forEach((text) => print(text)), OK;
  const entries = last.flatMap((text) => parsed(text));
  print(table([["TIME", "AGENT", "ACTION", "TARGET", "OUTCOME", "STATE", "MS"], ...entries.map((e) => [e.time, e.agent ?? "-", e.action, e.target ?? "-", e.outcome, e.state ?? "-", e.duration_ms ?? "-"])]));
  return OK;
}

function parsed(text) {
  try {
    const entry = JSON.parse(text);
    return typeof entry === "object" && entry !== null ? [entry] : [];
  } catch {
    // The last line may be incomplete.
    return [];
  }
}

/** @param {Context} context */
async function doctor({ api, host, options }) {
  const { diagnose, repair } = await import("./doctor.js");
  let found = await diagnose({ host, api });
  if (options.fix) {
    const changes = [];
    await edit(api, (draft) => void changes.push(...repair(draft, found)));
    for (const change of changes) note(change);
    const fixed = api.runtime.config.current?.() ?? host;
    if (changes.length > 0) found = await diagnose({ host: fixed, api });
  }
  if (options.json) print(JSON.stringify({ ok: !found.some(isError), findings: found }));
  else for (const { severity, message, fixHint } of found) print(wrapped(`${{ info: "ok", warning: "warn" }[severity] ?? severity}: ${message}${fixHint ? `. ${fixHint}` : ""}`));
  return found.some(isError) ? FAILED : OK;
}

const isError = ({ severity }) => severity === "error";
