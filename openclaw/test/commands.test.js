import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, readFileSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { isTypedByPerson, save, targetFields } from "../call-commands.js";
import { registerCommands } from "../commands.js";

test("a command that an agent runs in a terminal is not typed by a person", () => {
  const terminal = /** @type {any} */ ({ isTTY: true });
  for (const [env, stdin, expected] of [
    [{}, terminal, true],
    [{}, {}, false],
    [{ OPENCLAW_SHELL: "exec" }, terminal, false],
    [{ REMOTE_AGENT_DELEGATION: "{}" }, terminal, false],
  ]) assert.equal(isTypedByPerson(/** @type {any} */ ({ stdin, stdout: terminal, env })) === true, expected, JSON.stringify(env));
});

test("a saved continuation replaces the file, unless it has the same content", async () => {
  const folder = mkdtempSync(join(tmpdir(), "save-"));
  const file = join(folder, "task.json");
  const inode = () => statSync(file, { bigint: true }).ino;
  writeFileSync(file, "an older and longer continuation\n");
  const old = inode();
  await save(file, { task: 1 });
  const replaced = inode();
  assert.notEqual(replaced, old);
  await save(file, { task: 1 });
  assert.equal(inode(), replaced);
  assert.equal(readFileSync(file, "utf8"), '{"task":1}\n');
  if (process.platform !== "win32") assert.equal(statSync(file).mode & 0o777, 0o600);
  assert.deepEqual(readdirSync(folder), ["task.json"]);
});

test("a continuation that cannot be saved leaves no other file", async () => {
  const folder = mkdtempSync(join(tmpdir(), "save-"));
  mkdirSync(join(folder, "task"));
  await assert.rejects(save(join(folder, "task"), {}), { code: "EISDIR" });
  await assert.rejects(save(join(folder, "missing", "task.json"), {}), { code: "ENOENT" });
  assert.deepEqual(readdirSync(folder), ["task"]);
});

/** Runs a command of `openclaw remote-agent`. Returns its exit code and what it printed. */
async function run(t, name, values = [], options = {}, config = {}) {
  const actions = new Map();
  const builder = (action) => new Proxy({}, { get: (_, key) => (key === "action" ? (run) => (actions.set(action, run), builder(action)) : () => builder(action)) });
  const program = { command: () => ({ description: () => ({ command: (words) => builder(words.split(" ")[0]) }) }) };
  const host = { plugins: { entries: { "remote-agent": { config } } } };
  registerCommands({ program, config: host }, { pluginConfig: config });
  const printed = [];
  const exitCode = process.exitCode;
  for (const stream of [process.stdout, process.stderr]) {
    const { write } = stream;
    // The commands write text; the test runner reports in bytes.
    t.mock.method(stream, "write", (text, ...rest) => (typeof text === "string" ? printed.push(text) > 0 : write.call(stream, text, ...rest)));
  }
  try {
    await actions.get(name)(...values, options, { args: values });
  } finally {
    t.mock.restoreAll();
  }
  const exit = process.exitCode;
  process.exitCode = exitCode;
  return { exit, text: printed.join("") };
}

test("add refuses a place that is no URL, no domain and no file", async (t) => {
  for (const place of ["ftp://x", "http://", "//x", "x/y", "/no/such/card.json"]) {
    const { exit, text } = await run(t, "add", [place]);
    assert.equal(exit, 2, place);
    assert.match(text, /^error: cannot add `.*`: it is no /, place);
  }
});

test("add refuses a wait that is no number of seconds, before any call", async (t) => {
  for (const wait of ["abc", "0", "-1", "1.5", ""]) {
    const { exit, text } = await run(t, "add", ["https://agent.example"], { wait });
    assert.deepEqual([exit, text], [2, "error: give `--wait` a number, 1 or more\n"], wait);
  }
});

test("audit skips lines that are no entries, and prints no control characters", async (t) => {
  const path = join(mkdtempSync(join(tmpdir(), "audit-")), "audit.jsonl");
  const entry = { time: "t", agent: "\u001b[2Jmain\u202e", action: { toString: 5 }, target: ["x"], outcome: "ok\nforged", state: null, duration_ms: -1 };
  writeFileSync(path, ["null", "5", '"x"', "[]", "{", "{}", JSON.stringify(entry), '{"__proto__":{"time":"x"}}'].join("\n"));
  const { exit, text } = await run(t, "audit", [], { limit: "20" }, { audit: { enabled: true, path } });
  assert.equal(exit, 0, text);
  assert.match(text, /t +\[2Jmain +\{"toString":5\} +\["x"\] +ok forged +- +-1/);
  assert.ok(!/[\u001b\u202e]/.test(text));
});

test("several targets are one group, and its options are those of the command", () => {
  for (const [aliases, options, fields] of [
    [[], {}, {}],
    [["a"], {}, { target_alias: "a" }],
    [["a"], { mode: "first" }, { target_aliases: ["a"], mode: "first" }],
    [["a", "b"], {}, { target_aliases: ["a", "b"] }],
    [["a", "b"], { mode: "vote", choice: ["yes", "no"], quorum: "2" }, { target_aliases: ["a", "b"], mode: "vote", choices: ["yes", "no"], quorum: 2 }],
    [["a", "b"], { mode: "vote", choicePointer: "/vote" }, { target_aliases: ["a", "b"], mode: "vote", choice_pointer: "/vote" }],
  ]) assert.deepEqual(targetFields(aliases, "send", options), fields);
  for (const [aliases, action, options, message] of [
    [["a", "b"], "watch", {}, /^watch takes one `--target`; /],
    [["a"], "send", { mode: "any" }, /^`--mode` is one of all, first, vote$/],
    [[], "send", { mode: "all" }, /^`--mode` needs the agents; /],
    [["a", "b"], "send", { mode: "first", quorum: "1" }, /^`--quorum` goes only with `--mode vote`$/],
    [["a", "b"], "send", { choicePointer: "" }, /^`--choice-pointer` goes only with /],
    [["a", "b"], "send", { mode: "vote", choice: ["yes"] }, /^`--choice` needs at least 2 choices$/],
    [["a", "b"], "send", { mode: "vote", quorum: "0" }, /^give `--quorum` a number, 1 or more$/],
  ]) assert.throws(() => targetFields(aliases, action, options), { message, exit: 2 });
});
