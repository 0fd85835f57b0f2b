import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

import { DelegatedTasks, selected, withAgentTasks } from "../tasks.js";

const result = (id, status, more = {}) => ({
  ok: true,
  action: "send",
  summary: { continuation: { target: { target_alias: "one", target_url: "https://one.example" }, task: { task_id: id, status } }, ...more },
});

test("later result replaces the state and keeps the age", () => {
  let now = 1_000;
  const tasks = new DelegatedTasks(() => now);
  tasks.observe(result("t-1", "working"));
  now = 4_000;
  tasks.observe(result("t-1", "completed", { message_text: "done" }));
  const [task] = tasks.list();
  assert.deepEqual([task.state, task.ageMs, task.lastWord, tasks.list().length], ["completed", 3_000, "done", 1]);
});

test("message without a task is not listed", () => {
  const tasks = new DelegatedTasks();
  tasks.observe({ ok: true, action: "send", summary: { message_text: "hello" } });
  assert.deepEqual(tasks.list(), []);
});

test("last word is a copy that frees the whole text", () => {
  const tasks = new DelegatedTasks();
  const held = process.memoryUsage().heapUsed;
  for (let id = 0; id < 100; id += 1) tasks.observe(result(`t-${id}`, "working", { message_text: JSON.parse(JSON.stringify(String(id).repeat(500_000))) }));
  setFlagsFromString("--expose-gc");
  runInNewContext("gc")();
  assert.ok(process.memoryUsage().heapUsed - held < 20_000_000);
  assert.equal(tasks.list()[0].lastWord, "99".repeat(100));
});

test("list is bounded and drops the oldest", () => {
  const tasks = new DelegatedTasks();
  for (let id = 0; id <= 1000; id += 1) tasks.observe(withHandle(result(`t-${id}`, "working"), `rah_${id}`));
  assert.equal(tasks.list().length, 200);
  assert.equal(tasks.list().at(-1).taskId, "t-801");
  assert.deepEqual([tasks.targetOf("rah_0"), tasks.targetOf("rah_1")?.target_alias], [undefined, "one"]);
});

const withHandle = (envelope, handle) => {
  envelope.summary.continuation.task.task_handle = handle;
  return envelope;
};

test("handle of an earlier instance is resumed by its continuation", () => {
  const tasks = new DelegatedTasks();
  const before = withHandle(result("t-1", "input-required"), "rah_1");
  tasks.observe(before, 1);
  const request = { action: "status", task_handle: "rah_1" };
  assert.equal(tasks.resumed(request, 1), request);
  const expected = { action: "status", continuation: before.summary.continuation };
  assert.deepEqual(tasks.resumed(request, 2), expected);
  assert.deepEqual(tasks.resumed({ ...request, target_alias: "one" }, 2), expected);
});

test("handle of an earlier instance stays valid after the task got another one", () => {
  const tasks = new DelegatedTasks();
  tasks.observe(withHandle(result("t-1", "input-required"), "rah_1"), 1);
  tasks.observe(withHandle(result("t-1", "working"), "rah_2"), 2);
  assert.equal(tasks.resumed({ task_handle: "rah_1" }, 2).continuation?.task?.status, "working");
  assert.equal(tasks.resumed({ task_handle: "rah_2" }, 2).continuation, undefined);
});

test("request with a place of its own is not changed", () => {
  const tasks = new DelegatedTasks();
  tasks.observe(withHandle(result("t-1", "working"), "rah_1"), 1);
  for (const request of [null, {}, { task_handle: 7 }, { task_handle: "rah_other" }, { task_handle: "rah_1", task_id: "t" }, { task_handle: "rah_1", continuation: { target: {} } }, { task_handle: "rah_1", target_alias: "two" }])
    assert.equal(tasks.resumed(/** @type {any} */ (request), 2), request);
});

/** Stores what `observe` sees, and returns the state directory. */
function stored(...envelopes) {
  const stateDir = mkdtempSync(join(tmpdir(), "tasks-"));
  const tasks = new DelegatedTasks(() => 1_000);
  const close = tasks.open(stateDir, assert.fail);
  for (const envelope of envelopes) tasks.observe(envelope);
  close();
  return stateDir;
}
const fileIn = (stateDir) => join(stateDir, "remote-agent", "tasks.json");

test("gateway shows the tasks of the gateway before it", () => {
  const stateDir = stored(withHandle(result("t-1", "working", { message_text: "half" }), "rah_1"), result("t-2", "completed"));
  const tasks = new DelegatedTasks(() => 5_000);
  tasks.open(stateDir, assert.fail);
  assert.deepEqual(
    tasks.list().map(({ taskId, state, ageMs, lastWord }) => [taskId, state, ageMs, lastWord]),
    [["t-2", "completed", 4_000, undefined], ["t-1", "working", 4_000, "half"]],
  );
});

test("usage of a task is that of its latest report, and is stored with its session", () => {
  const usage = (/** @type {number} */ total) => ({ usage: { tokens: { total }, estimated: false } });
  const stateDir = mkdtempSync(join(tmpdir(), "tasks-"));
  const tasks = new DelegatedTasks();
  const close = tasks.open(stateDir, assert.fail);
  tasks.observe(result("t-1", "working", usage(3)), 0, "agent:main:x");
  tasks.observe(result("t-1", "working", usage(9)), 0, "agent:main:other");
  tasks.observe(result("t-1", "completed"));
  close();
  const later = new DelegatedTasks();
  later.open(stateDir, assert.fail);
  const [{ session, usage: known }] = later.list();
  assert.deepEqual([session, known?.tokens], ["agent:main:x", { total: 9 }]);
});

test("stored tasks have no place and no handle, and only their owner reads them", () => {
  const stateDir = stored(withHandle(result("t-1", "working"), "rah_1"));
  assert.doesNotMatch(readFileSync(fileIn(stateDir), "utf8"), /rah_1|one\.example/);
  if (process.platform !== "win32") assert.equal(statSync(fileIn(stateDir)).mode & 0o777, 0o600);
  const tasks = new DelegatedTasks();
  tasks.open(stateDir, assert.fail);
  assert.deepEqual([tasks.targetOf("rah_1"), tasks.urlsOf("t-1")], [undefined, [undefined]]);
});

test("two gateways with one state directory keep each other's tasks", () => {
  const stateDir = stored(result("t-1", "working"));
  const [one, other] = [new DelegatedTasks(() => 2_000), new DelegatedTasks(() => 3_000)];
  const closes = [one.open(stateDir, assert.fail), other.open(stateDir, assert.fail)];
  one.observe(result("t-1", "completed"));
  other.observe(result("t-2", "working"));
  closes.forEach((close) => close());
  const states = JSON.parse(readFileSync(fileIn(stateDir), "utf8")).map(({ taskId, state }) => [taskId, state]);
  assert.deepEqual(states, [["t-1", "completed"], ["t-2", "working"]]);
});

test("damaged file is reported without its content, and values that are no task are left out", () => {
  for (const [text, warnings, ids] of /** @type {[string, number, string[]][]} */ ([
    ["secret {", 1, []],
    ["null", 0, []],
    ['[null, 1, {"target": "a"}, {"target": 1, "taskId": "x", "since": 1, "updated": 1}, {"target": "a", "taskId": "t", "since": 1, "updated": 1}]', 0, ["t"]],
  ])) {
    const stateDir = mkdtempSync(join(tmpdir(), "tasks-"));
    mkdirSync(join(stateDir, "remote-agent"));
    writeFileSync(fileIn(stateDir), text);
    const lines = [];
    const tasks = new DelegatedTasks();
    tasks.open(stateDir, (line) => lines.push(line));
    assert.deepEqual([lines.length, tasks.list().map(({ taskId }) => taskId)], [warnings, ids]);
    assert.doesNotMatch(lines.join(), /secret/);
  }
});

test("long ids are not kept", () => {
  const tasks = new DelegatedTasks();
  tasks.observe(result("x".repeat(5_000_000), "working"));
  assert.deepEqual(tasks.list(), []);
});

test("tasks that an agent lists join those of the gateway and update their state", () => {
  const known = [{ target: "one", taskId: "t-1", state: "working", ageMs: 5_000, lastWord: "begun" }];
  const listed = [
    { task_id: "t-1", status: "completed", updated_at: "1970-01-01T00:00:01Z" },
    { task_id: "t-2", status: "working", status_message: "half done", updated_at: "1970-01-01T00:00:01Z" },
    { task_id: "t-3", status: "failed" },
  ];
  assert.deepEqual(withAgentTasks(known, [{ target_alias: "one", tasks: listed }, { target_alias: "two" }], 3_000), [
    { ...known[0], state: "completed", updatedMs: 2_000 },
    { target: "one", taskId: "t-2", state: "working", lastWord: "half done", updatedMs: 2_000 },
    { target: "one", taskId: "t-3", state: "failed", lastWord: undefined },
  ]);
});

test("a listing has the tasks it asks for, the latest first", () => {
  const tasks = [
    { target: "a", state: "working", ageMs: 90, updatedMs: 50 },
    { target: "b", state: "completed", updatedMs: 10 },
    { target: "a", state: "failed", ageMs: 30 },
    { target: "a" },
  ];
  const picked = (wanted) => selected(tasks.slice(), wanted).map((task) => tasks.indexOf(task));
  for (const [wanted, expected] of /** @type {const} */ ([
    [{}, [3, 1, 2, 0]],
    [{ limit: 2 }, [3, 1]],
    [{ target: "a" }, [3, 2, 0]],
    [{ states: ["working", "completed"] }, [1, 0]],
    [{ states: ["unknown"] }, [3]],
    [{ sinceMs: 30 }, [3, 1, 2]],
    [{ target: "c" }, []],
  ]))
    assert.deepEqual(picked(wanted), expected, JSON.stringify(wanted));
});
