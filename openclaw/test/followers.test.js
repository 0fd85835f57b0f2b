import assert from "node:assert/strict";
import { execFile, execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import { Followers, followedFolder } from "../followers.js";

const SETTINGS = { maxTasks: 2, maxAgeMs: 60_000 };
const caller = { agent_id: "main", session_key: "agent:main:x", state_dir: "/state" };

function envelope(action, status, more = {}) {
  const task = { task_handle: "rah_1", task_id: more.taskId ?? "t-1", status };
  const continuation = { target: { target_url: "https://a.example", card_path: "/c", preferred_transports: ["JSONRPC"], target_alias: "desk" }, task };
  return { ok: true, action, summary: { continuation, ...(more.notify && { notify: true }) } };
}

const failure = (reason, retryable) => ({ ok: false, action: "status", error: { reason, retryable } });

/** A gateway whose peer answers with `answers`, one after another; the last one repeats. */
function gateway(answers, stateDir = mkdtempSync(join(tmpdir(), "followers-"))) {
  const seen = { asked: [], woken: [], warned: [], now: 0, pauses: [] };
  let timers = [];
  const host = {
    async ask(request, who) {
      seen.asked.push({ request, who });
      return JSON.stringify(answers.length > 1 ? answers.shift() : answers[0]);
    },
    render: (json, maxChars) => `${json.slice(0, maxChars)}`,
    wake: (record, text) => seen.woken.push({ session: record.caller.session_key, text }),
    warn: (line) => seen.warned.push(line),
    now: () => seen.now,
    later(ms, run) {
      const timer = { ms, run };
      timers.push(timer);
      return () => (timers = timers.filter((other) => other !== timer));
    },
  };
  const followers = new Followers(host, SETTINGS);
  /** Lets the time pass that the next questions wait for. */
  const pass = async () => {
    const due = timers;
    timers = [];
    for (const { ms, run } of due) {
      seen.pauses.push(ms);
      await run();
    }
  };
  return { ...seen, seen, followers, host, stateDir, pass, timers: () => timers.length, files: () => readdirSync(followedFolder(stateDir)) };
}

const started = envelope("send", "working", { notify: true });

test("a session is woken once when its task ends", async () => {
  const { followers, seen, pass, stateDir, files, timers } = gateway([envelope("status", "working"), envelope("status", "completed")]);
  followers.open(stateDir);
  followers.observe(started, caller);
  for (let i = 0; i < 4; i += 1) await pass();
  assert.equal(seen.woken.length, 1);
  assert.equal(seen.woken[0].session, "agent:main:x");
  assert.match(seen.woken[0].text, /handed to desk has news\..*\ntask_handle: rah_1\n.*completed/s);
  assert.deepEqual([seen.asked.length, files(), timers()], [2, [], 0]);
  assert.deepEqual(seen.asked[0].who, caller);
});

test("a question wakes the session and ends the follower, however often the agent asks", async () => {
  const { followers, seen, pass, stateDir } = gateway([envelope("status", "input-required")]);
  followers.open(stateDir);
  followers.observe(started, caller);
  for (let i = 0; i < 10; i += 1) await pass();
  assert.equal(seen.woken.length, 1);
});

/** A gateway whose people did what `outcomes` say, one after another. The task waits for an answer. */
function withPeople(outcomes, stateDir) {
  const waiting = (outcome) => {
    const waits = envelope("watch", "input-required");
    return { ...waits, summary: { ...waits.summary, person: { outcome } } };
  };
  const one = gateway(outcomes.flatMap((outcome) => [envelope("status", "input-required"), waiting(outcome)]), stateDir);
  const ended = [];
  one.host.asker = () => ({ isOpen: outcomes[ended.length] === "timeout", ask: async () => "{}", end: (isFollowed) => ended.push(isFollowed) });
  return { ...one, ended };
}

test("a question that a person has not answered yet wakes no session, and stays open", async () => {
  const { followers, seen, pass, stateDir, files, ended } = withPeople(["timeout", "busy", "declined"]);
  followers.open(stateDir);
  followers.observe(started, caller);
  for (let i = 0; i < 2; i += 1) await pass();
  assert.deepEqual([seen.woken.length, files().length, ended], [0, 1, [true, false]]);
  await pass();
  assert.deepEqual([seen.woken.length, files(), ended, seen.pauses], [1, [], [true, false, false], [1000, 1000, 15_000]]);
  assert.deepEqual(seen.asked.map(({ request }) => request.action), ["status", "watch", "status", "watch", "status", "watch"]);
});

test("a look at a task does not end the question of its follower, and its cancellation does", async () => {
  const { followers, host, pass, stateDir, files } = gateway([envelope("status", "input-required")]);
  const [asking, answered] = [Promise.withResolvers(), Promise.withResolvers()];
  const ended = [];
  const { ask } = host;
  host.asker = () => ({ isOpen: false, ask: async () => "{}", end: (isFollowed) => ended.push(isFollowed) });
  host.ask = async (request, who, askPerson) => (askPerson && (asking.resolve(), await answered.promise), ask(request, who));
  followers.open(stateDir);
  followers.observe(started, caller);
  const passed = pass();
  await asking.promise;
  assert.deepEqual([followers.observe(envelope("status", "input-required"), caller), ended, files().length], [true, [], 1]);
  assert.deepEqual([followers.observe(envelope("cancel", "canceled"), caller), ended, files()], [false, [false], []]);
  answered.resolve();
  await passed;
});

test("a question that stays open at the end of a call is followed", async () => {
  const { followers, stateDir, files } = gateway([envelope("status", "working")]);
  followers.open(stateDir);
  assert.equal(followers.observe(envelope("send", "input-required"), caller), false);
  assert.equal(followers.observe(envelope("send", "input-required"), caller, true), true);
  assert.equal(files().length, 1);
});

test("the task of a call that asks is saved, and not polled before the call ends", async () => {
  const { followers, seen, pass, stateDir, files, timers } = gateway([envelope("status", "completed")]);
  followers.open(stateDir);
  const goesOn = followers.hold(envelope("send", "input-required").summary.continuation, caller);
  await pass();
  assert.deepEqual([files().length, timers(), seen.asked.length], [1, 0, 0]);
  // A look at the task meanwhile changes nothing.
  assert.equal(followers.observe(envelope("status", "input-required"), caller), true);
  assert.deepEqual([goesOn(), goesOn(), timers()], [true, true, 1]);
  await pass();
  assert.deepEqual([seen.woken.length, files(), goesOn()], [1, [], false]);
});

test("the end of a call that asked ends its record, unless the task goes on", async () => {
  for (const [last, isOpen, number] of [["input-required", false, 0], ["completed", false, 0], ["input-required", true, 1]]) {
    const { followers, stateDir, files, timers } = gateway([envelope("status", "working")]);
    followers.open(stateDir);
    const { continuation } = envelope("send", "input-required").summary;
    const held = followers.hold(continuation, caller);
    held();
    assert.equal(followers.observe(envelope("send", last), caller, isOpen), isOpen);
    assert.deepEqual([files().length, timers(), held()], [number, number, false]);
  }
});

test("the end of a call to a group ends the records of its questions, unless a task goes on", async () => {
  for (const [states, isOpen, expected] of [[["completed", "canceled", "working"], false, []], [["completed", "input-required", "working"], false, []], [["completed", "input-required", "working"], true, ["t-1"]], [["completed", "working", "working"], false, ["t-1"]]]) {
    const { followers, seen, stateDir, timers, files, pass } = gateway([envelope("status", "working")]);
    followers.open(stateDir);
    const members = states.map((state, index) => ({ ...envelope("send", "input-required", { taskId: `t-${index}` }).summary.continuation, state }));
    // The last one asked no one.
    const held = members.slice(0, 2).map(({ target, task }) => followers.hold({ target, task }, caller));
    for (const goesOn of held) goesOn();
    const result = { ok: true, action: "send", summary: { continuation: { group: { id: "g", members } } } };
    assert.equal(followers.observe(result, caller, isOpen), expected.length > 0);
    assert.deepEqual([followers.list().map(({ taskId }) => taskId), timers(), files().length], [expected, expected.length, expected.length]);
    await pass();
    assert.equal(seen.woken.length, 0);
  }
});

test("the task of a killed call that asked is followed by the next gateway", async () => {
  const killed = gateway([envelope("status", "input-required")]);
  killed.followers.open(killed.stateDir);
  killed.followers.hold(envelope("send", "input-required").summary.continuation, caller);
  const { followers, seen, pass, stateDir } = gateway([envelope("status", "completed")], killed.stateDir);
  followers.open(stateDir);
  await pass();
  assert.equal(seen.woken.length, 1);
});

test("a person of the session is asked while the task waits, and the session is woken when it ends", async () => {
  const { followers, seen, pass, stateDir, host } = gateway([envelope("status", "input-required"), envelope("watch", "working"), envelope("status", "completed")]);
  const asked = [];
  host.asker = (who) => ({ ask: async (question) => asked.push([question, who.session_key]), end() {} });
  const { ask } = host;
  host.ask = async (request, who, askPerson) => (await askPerson?.("which region?"), ask(request, who));
  followers.open(stateDir);
  followers.observe(started, caller);
  for (let i = 0; i < 2; i += 1) await pass();
  assert.deepEqual([asked, seen.woken.length], [[["which region?", "agent:main:x"]], 1]);
});

test("a gateway that stops wakes no session for its open question, and the next one asks again", async () => {
  const one = withPeople(["unreachable"]);
  one.host.isStopping = () => true;
  one.followers.open(one.stateDir);
  one.followers.observe(started, caller);
  await one.pass();
  assert.deepEqual([one.seen.woken.length, one.files().length], [0, 1]);
  one.followers.close();
  const next = withPeople(["declined"], one.stateDir);
  next.followers.open(one.stateDir);
  await next.pass();
  assert.deepEqual([next.ended, next.seen.woken.length], [[false], 1]);
});

test("a question that stays open for too long wakes its session", async () => {
  const { followers, seen, pass, stateDir } = withPeople(["timeout"]);
  followers.open(stateDir);
  followers.observe(started, caller);
  seen.now = SETTINGS.maxAgeMs;
  await pass();
  assert.equal(seen.woken.length, 1);
});

test("a restarted gateway follows what the killed one left", async () => {
  const killed = gateway([envelope("status", "working")]);
  killed.followers.open(killed.stateDir);
  for (let i = 0; i < 2; i += 1) killed.followers.observe(envelope("send", "working", { notify: true, taskId: `t-${i}` }), caller);
  const { followers, seen, pass, stateDir } = gateway([envelope("status", "completed")], killed.stateDir);
  followers.open(stateDir);
  assert.deepEqual(followers.list().map(({ taskId }) => taskId).sort(), ["t-0", "t-1"]);
  for (let i = 0; i < 3; i += 1) await pass();
  assert.equal(seen.woken.length, 2);
});

test("of two gateways on one state directory one wakes the session", async () => {
  const one = gateway([envelope("status", "completed")]);
  one.followers.open(one.stateDir);
  one.followers.observe(started, caller);
  const other = gateway([envelope("status", "completed")], one.stateDir);
  other.followers.open(one.stateDir);
  await Promise.all([one.pass(), other.pass()]);
  await Promise.all([one.pass(), other.pass()]);
  assert.equal(one.seen.woken.length + other.seen.woken.length, 1);
});

test("two processes on one state directory wake each of five sessions once", async () => {
  const killed = gateway([envelope("status", "working")]);
  const followers = new Followers(killed.host, { ...SETTINGS, maxTasks: 5 });
  followers.open(killed.stateDir);
  for (let i = 0; i < 5; i += 1) followers.observe(envelope("send", "working", { notify: true, taskId: `t-${i}` }), { ...caller, session_key: `agent:main:${i}` });
  const script = `
    import { Followers } from ${JSON.stringify(new URL("../followers.js", import.meta.url).href)};
    const due = [];
    const host = {
      ask: async ({ continuation: { target, task } }) => JSON.stringify({ ok: true, summary: { continuation: { target, task: { ...task, status: "completed" } } } }),
      render: () => "done", wake: (record) => console.log(record.caller.session_key), warn: console.error, now: () => 0,
      later: (_ms, run) => (due.push(run), () => {}),
    };
    new Followers(host, { maxTasks: 5, maxAgeMs: 60000 }).open(${JSON.stringify(killed.stateDir)});
    await Promise.all(due.map((run) => run()));`;
  const run = () => promisify(execFile)(process.execPath, ["--input-type=module", "-e", script]);
  const outputs = await Promise.all([run(), run()]);
  const woken = outputs.flatMap(({ stdout }) => stdout.trim().split("\n").filter(Boolean));
  assert.deepEqual(woken.sort(), [0, 1, 2, 3, 4].map((i) => `agent:main:${i}`));
});

/** Writes files of followed tasks into the state directory of `of`: what `change` makes of a real one, under the name of its key. */
function plant({ stateDir }, number, change = (record) => record) {
  const folder = followedFolder(stateDir);
  mkdirSync(folder, { recursive: true });
  for (let index = 0; index < number; index += 1) {
    const { continuation } = envelope("send", "working", { taskId: `planted-${index}` }).summary;
    const record = { key: "", continuation, caller, since: 0, state: "working" };
    const key = createHash("sha256").update(JSON.stringify([continuation.target.target_alias, continuation.task.task_id, caller.session_key])).digest("hex").slice(0, 32);
    record.key = key;
    writeFileSync(join(folder, `${key}.json`), JSON.stringify(change(record)));
  }
}

test("a restarted gateway follows no more tasks than its limit", async () => {
  const one = gateway([envelope("status", "working")]);
  plant(one, 3000);
  one.followers.open(one.stateDir);
  assert.deepEqual([one.timers(), one.followers.list().length, one.files().length], [2, 2, 3000]);
  assert.equal(one.followers.reserve({ action: "send", notify: true }), undefined);
  assert.equal(one.seen.warned.length, 1);
  assert.match(one.seen.warned[0], /^2998 files of followed tasks in .* are not read: at most 2 .*notify\.maxTasks/);
});

test("a planted file cannot name another file", async () => {
  const one = gateway([envelope("status", "completed")]);
  const other = join(one.stateDir, "openclaw.json");
  writeFileSync(other, "{}");
  plant(one, 1, (record) => ({ ...record, key: "../../openclaw" }));
  one.followers.open(one.stateDir);
  await one.pass();
  assert.ok(existsSync(other));
  assert.deepEqual([one.seen.woken.length, one.files()], [1, []]);
});

test("a planted file with fields of the wrong type is skipped", async () => {
  const changes = [
    () => null,
    () => [],
    (record) => ({ ...record, since: 1e300 }),
    (record) => ({ ...record, since: "0" }),
    (record) => ({ ...record, state: { toString: 5 } }),
    (record) => ({ ...record, caller: { ...record.caller, agent_id: 5 } }),
    (record) => ({ ...record, continuation: { ...record.continuation, task: { ...record.continuation.task, task_handle: {} } } }),
    (record) => ({ ...record, padding: "x".repeat(70_000) }),
  ];
  for (const change of changes) {
    const one = gateway([envelope("status", "working")]);
    plant(one, 1, change);
    one.followers.open(one.stateDir);
    assert.deepEqual([one.followers.list(), one.seen.warned.length], [[], 1], String(change));
  }
});

test("a planted file adds no field to the caller", async () => {
  const one = gateway([envelope("status", "working")]);
  plant(one, 1, (record) => ({ ...record, caller: { ...record.caller, can_notify: true, traceparent: "x" } }));
  one.followers.open(one.stateDir);
  await one.pass();
  assert.deepEqual(one.seen.asked[0].who, caller);
});

test("a link and a FIFO are not read, and no other file is quoted", { skip: process.platform === "win32" }, async () => {
  const one = gateway([envelope("status", "working")]);
  plant(one, 0);
  const folder = followedFolder(one.stateDir);
  writeFileSync(join(one.stateDir, "secret"), "secret words");
  symlinkSync(join(one.stateDir, "secret"), join(folder, "link.json"));
  writeFileSync(join(folder, "text.json"), "secret words");
  mkdirSync(join(folder, "folder.json"));
  execFileSync("mkfifo", [join(folder, "fifo.json")]);
  one.followers.open(one.stateDir);
  assert.deepEqual([one.seen.warned.length, one.timers()], [4, 0]);
  assert.ok(!one.seen.warned.join().includes("secret words"), one.seen.warned.join());
});

test("words of an agent stay on one line of the log and of the text", async () => {
  const one = gateway([envelope("status", "completed")]);
  one.host.ask = () => Promise.reject(new Error("no\nline"));
  one.followers.open(one.stateDir);
  one.followers.observe(envelope("send", "working", { notify: true, taskId: "t\n[error] forged \u001b[31m" }), caller);
  await one.pass();
  assert.deepEqual(one.seen.warned, ['the task "t [error] forged [31m" cannot be followed: no line']);
});

test("an error while a session is woken is tried again", async () => {
  const one = gateway([envelope("status", "completed")]);
  let fails = true;
  const { render } = one.host;
  one.host.render = (...call) => {
    if (fails) throw new Error("no");
    return render(...call);
  };
  one.followers.open(one.stateDir);
  one.followers.observe(started, caller);
  await one.pass();
  assert.deepEqual([one.seen.woken.length, one.timers()], [0, 1]);
  fails = false;
  await one.pass();
  assert.equal(one.seen.woken.length, 1);
});

test("what a flooding agent says is cut before it wakes the session", async () => {
  const flood = envelope("status", "completed");
  flood.summary.message_text = "x".repeat(10_000_000);
  const { followers, seen, pass, stateDir } = gateway([flood]);
  followers.open(stateDir);
  followers.observe(started, caller);
  await pass();
  assert.equal(seen.woken.length, 1);
  assert.ok(seen.woken[0].text.length < 5_000, `${seen.woken[0].text.length}`);
});

test("a claim of a gateway that ended before it woke its session is undone", async () => {
  const killed = gateway([envelope("status", "working")]);
  killed.followers.open(killed.stateDir);
  killed.followers.observe(started, caller);
  const [file] = killed.files();
  const folder = followedFolder(killed.stateDir);
  renameSync(join(folder, file), join(folder, `${file}.999999999.waking`));
  const { followers, seen, pass, stateDir } = gateway([envelope("status", "completed")], killed.stateDir);
  followers.open(stateDir);
  await pass();
  assert.equal(seen.woken.length, 1);
});

test("a cancelled task is followed no longer", async () => {
  const { followers, seen, pass, stateDir, files } = gateway([envelope("status", "completed")]);
  followers.open(stateDir);
  followers.observe(started, caller);
  followers.observe(envelope("cancel", "working"), caller);
  await pass();
  assert.deepEqual([seen.asked.length, seen.woken.length, files()], [0, 0, []]);
});

test("a session that saw the end itself is not woken, and another one is", async () => {
  const { followers, seen, pass, stateDir } = gateway([envelope("status", "completed")]);
  followers.open(stateDir);
  followers.observe(started, caller);
  followers.observe(envelope("status", "completed"), { ...caller, session_key: "agent:main:other" });
  await pass();
  assert.equal(seen.woken.length, 1);
  followers.observe(started, caller);
  followers.observe(envelope("watch", "completed"), caller);
  await pass();
  assert.equal(seen.woken.length, 1);
});

test("a task has one follower per session, that of the newest send", async () => {
  const { followers, seen, pass, stateDir, files } = gateway([envelope("status", "completed")]);
  followers.open(stateDir);
  followers.observe(started, caller);
  followers.observe(started, caller);
  followers.observe(started, { ...caller, session_key: "agent:main:new" });
  assert.equal(files().length, 2);
  await pass();
  assert.deepEqual(seen.woken.map(({ session }) => session), ["agent:main:x", "agent:main:new"]);
});

test("a peer that is gone is asked less and less often, until the task is too old", async () => {
  const { followers, seen, pass, stateDir } = gateway([failure("unreachable", true)]);
  followers.open(stateDir);
  followers.observe(started, caller);
  for (let i = 0; i < 12; i += 1) await pass();
  assert.deepEqual([seen.pauses.at(-1), seen.woken.length], [300_000, 0]);
  seen.now = SETTINGS.maxAgeMs;
  await pass();
  assert.match(seen.woken[0].text, /is not done; it is no longer followed/);
});

test("a task that the peer no longer knows wakes the session with the failure", async () => {
  const { followers, seen, pass, stateDir } = gateway([failure("task_not_found", false)]);
  followers.open(stateDir);
  followers.observe(started, caller);
  await pass();
  await pass();
  assert.equal(seen.woken.length, 1);
});

test("no more tasks are followed than the settings allow", () => {
  const { followers, stateDir } = gateway([envelope("status", "working")]);
  const reserve = () => followers.reserve({ action: "send", notify: true });
  assert.equal(reserve(), undefined);
  followers.open(stateDir);
  for (let i = 0; i < 2; i += 1) {
    const release = reserve();
    followers.observe(envelope("send", "working", { notify: true, taskId: `t-${i}` }), caller);
    release();
  }
  assert.equal(reserve(), undefined);
});

test("running calls keep their places until they end", () => {
  const { followers, stateDir } = gateway([envelope("status", "working")]);
  followers.open(stateDir);
  const reserve = () => followers.reserve({ action: "send", notify: true });
  const [first, second, third] = [reserve(), reserve(), reserve()];
  assert.deepEqual([typeof first, typeof second, third], ["function", "function", undefined]);
  first();
  assert.equal(typeof reserve(), "function");
});

test("calls that follow no task take no place", () => {
  const { followers, stateDir } = gateway([envelope("status", "working")]);
  followers.open(stateDir);
  for (const request of [{}, { action: "send" }, { action: "send", notify: false }, { action: "status", notify: true }]) assert.equal(followers.reserve(request), undefined);
});

test("an instance that closes keeps its files and asks no more", async () => {
  const { followers, seen, pass, stateDir, files } = gateway([failure("shutting_down", true)]);
  const stop = followers.open(stateDir);
  followers.observe(started, caller);
  await pass();
  stop();
  await pass();
  assert.deepEqual([seen.asked.length, seen.woken.length, files().length], [1, 0, 1]);
});

test("the stop of an earlier evaluation does not stop a later one", async () => {
  const { followers, seen, pass, stateDir } = gateway([envelope("status", "completed")]);
  const stop = followers.open(stateDir);
  followers.observe(started, caller);
  followers.open(stateDir);
  stop();
  await pass();
  assert.equal(seen.woken.length, 1);
});

test("a wake that fails is tried again", async () => {
  const { followers, host, seen, pass, stateDir } = gateway([envelope("status", "completed")]);
  const { wake } = host;
  host.wake = () => {
    throw new Error("no such session");
  };
  followers.open(stateDir);
  followers.observe(started, caller);
  await pass();
  assert.match(seen.warned[0], /no such session/);
  host.wake = wake;
  await pass();
  assert.equal(seen.woken.length, 1);
});

test("a file that is no followed task is skipped", () => {
  const { followers, seen, stateDir } = gateway([envelope("status", "working")]);
  followers.open(stateDir);
  followers.observe(started, caller);
  followers.close();
  writeFileSync(join(followedFolder(stateDir), "x.json"), "{}");
  followers.open(stateDir);
  assert.equal(seen.warned.length, 1);
  assert.equal(followers.list().length, 1);
  rmSync(stateDir, { recursive: true });
});

test("a followed task is not saved through a link", { skip: process.platform === "win32" }, () => {
  const one = gateway([envelope("status", "working")]);
  plant(one, 1);
  const [name] = one.files();
  writeFileSync(join(one.stateDir, "other"), "other");
  symlinkSync(join(one.stateDir, "other"), join(followedFolder(one.stateDir), `${name}.new`));
  one.followers.open(one.stateDir);
  one.followers.observe(envelope("send", "working", { notify: true, taskId: "planted-0" }), caller);
  assert.equal(readFileSync(join(one.stateDir, "other"), "utf8"), "other");
  assert.deepEqual([one.files(), one.seen.warned], [[name], []]);
});
