import assert from "node:assert/strict";
import { test } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

import { DelegatedTasks, withAgentTasks } from "../tasks.js";

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
  for (let id = 0; id <= 200; id += 1) tasks.observe(result(`t-${id}`, "working"));
  assert.equal(tasks.list().length, 200);
  assert.equal(tasks.list().at(-1).taskId, "t-1");
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
    { ...known[0], state: "completed" },
    { target: "one", taskId: "t-2", state: "working", lastWord: "half done", ageMs: 2_000 },
    { target: "one", taskId: "t-3", state: "failed", lastWord: undefined },
  ]);
});
