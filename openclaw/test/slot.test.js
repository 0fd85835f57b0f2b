import assert from "node:assert/strict";
import { test } from "node:test";
import { acquire } from "../slot.js";

const logger = () => {
  const lines = [];
  return { lines, info: (line) => lines.push(line), warn() {}, error() {} };
};

let loads = 0;
const open = [];
const ended = [];
class RemoteAgent {
  constructor(config, log) {
    this.config = config;
    this.log = log;
    open.push(this);
  }
  definition() {
    if (this.config.includes("broken")) throw new Error("no definition");
    return JSON.stringify({ name: "remote_agent", parameters: {} });
  }
  close() {
    open.splice(open.indexOf(this), 1);
  }
  closeAndWait() {
    ended.push(this.config);
  }
}
const load = () => {
  loads += 1;
  return { RemoteAgent, CancelToken: class {}, parseConfig: () => JSON.stringify({ notify: { maxTasks: 1, maxAgeMs: 1000 } }) };
};

test("evaluations with one configuration share one instance until the last of them is gone", () => {
  const first = acquire({ a: 1 }, logger(), load);
  const second = acquire({ a: 1 }, logger(), load);
  assert.equal(first.agent, second.agent);
  first.release();
  assert.equal(open.length, 1);
  second.release();
  assert.equal(open.length, 0);
});

test("another configuration has an instance of its own", () => {
  const leases = [acquire({ a: 1 }, logger(), load), acquire({ a: 2 }, logger(), load)];
  assert.equal(open.length, 2);
  leases.forEach((lease) => lease.release());
});

test("the end of the process waits for instances that are open or have just been closed", () => {
  const [kept, gone] = [acquire({ exit: 1 }, logger(), load), acquire({ exit: 2 }, logger(), load)];
  gone.release();
  const before = process.listeners("exit");
  before.forEach((listener) => listener());
  assert.deepEqual(ended.filter((config) => config.includes("exit")), ['{"exit":2}', '{"exit":1}']);
  kept.release();
});

test("a release counts once", () => {
  const first = acquire({ a: 1 }, logger(), load);
  const second = acquire({ a: 1 }, logger(), load);
  first.release();
  first.release();
  assert.equal(open.length, 1);
  second.release();
});

test("a released configuration starts anew", () => {
  const before = acquire({ a: 1 }, logger(), load);
  before.release();
  const after = acquire({ a: 1 }, logger(), load);
  assert.notEqual(before.agent, after.agent);
  after.release();
});

test("the library is loaded once for all of them", () => {
  assert.equal(loads, 1);
});

test("log lines go to an evaluation that still lives", () => {
  const [older, newer] = [logger(), logger()];
  const first = acquire({ a: 1 }, older, load);
  const second = acquire({ a: 1 }, newer, load);
  first.agent.log("info", "one");
  second.release();
  first.agent.log("info", "two");
  first.agent.log("debug", "a level the logger does not have");
  first.release();
  first.agent.log("info", "three");
  assert.deepEqual([older.lines, newer.lines], [["remote-agent: two"], ["remote-agent: one"]]);
});

test("an instance without a definition is closed and not kept", () => {
  assert.throws(() => acquire({ a: "broken" }, logger(), load), /no definition/);
  assert.equal(open.length, 0);
});

test("an edit of the settings keeps the delegated tasks, and another instance resumes their handles", () => {
  const before = acquire({ a: 1 }, logger(), load);
  const continuation = { target: { target_alias: "one", target_url: "https://one.example" }, task: { task_id: "kept", task_handle: "rah_kept", status: "input-required" } };
  before.tasks.observe({ ok: true, action: "send", summary: { continuation } }, before.number);
  const after = acquire({ a: 2 }, logger(), load);
  before.release();
  assert.equal(after.tasks.list()[0].taskId, "kept");
  assert.deepEqual(after.tasks.resumed({ task_handle: "rah_kept" }, after.number), { continuation });
  after.release();
});
