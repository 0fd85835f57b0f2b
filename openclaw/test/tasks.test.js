import assert from "node:assert/strict";
import { test } from "node:test";

import { DelegatedTasks } from "../tasks.js";

const result = (id, status, more = {}) => ({
  ok: true,
  action: "send",
  summary: { continuation: { target: { target_alias: "one", target_url: "https://one.example" }, task: { task_id: id, status } }, ...more },
});

test("later result replaces the state and keeps the age", () => {
  let now = 1_000;
  const tasks = new DelegatedTasks(() => now);
  tasks.saw(result("t-1", "working"));
  now = 4_000;
  tasks.saw(result("t-1", "completed", { message_text: "done" }));
  const [task] = tasks.list();
  assert.deepEqual([task.state, task.ageMs, task.lastWord, tasks.list().length], ["completed", 3_000, "done", 1]);
});

test("message without a task is not listed", () => {
  const tasks = new DelegatedTasks();
  tasks.saw({ ok: true, action: "send", summary: { message_text: "hello" } });
  assert.deepEqual(tasks.list(), []);
});

test("list is bounded and drops the oldest", () => {
  const tasks = new DelegatedTasks();
  for (let id = 0; id <= 200; id += 1) tasks.saw(result(`t-${id}`, "working"));
  assert.equal(tasks.list().length, 200);
  assert.equal(tasks.list().at(-1).taskId, "t-1");
});
