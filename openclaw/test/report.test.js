import assert from "node:assert/strict";
import { test } from "node:test";
import { exitOf, exitOfEnvelope, report } from "../report.js";
import { table } from "../table.js";
import { age, line, safe, word } from "../text.js";

test("characters that are not shown are removed", () => {
  assert.equal(safe("a\u061c\u200b\u2060\u3164\ufe0f\u{e0041}\u202e\ufff9\u001bb\n\tc"), "ab\n\tc");
  assert.equal(safe("s\r\ne\rc\u0085r\u2028e\u2029t"), "s\ne\nc\nr\ne\nt");
  assert.equal(safe("Grüße, 日本 😀"), "Grüße, 日本 😀");
});

test("an age is shown in its largest whole unit", () => {
  assert.deepEqual([undefined, -1, 59_400, 61_000, 7_300_000, 172_800_000].map(age), ["-", "0 s", "59 s", "1 min", "2 h", "2 d"]);
});

test("an incomplete result is a failure, and an expired wait a timeout", () => {
  const code = (summary) => exitOfEnvelope({ ok: true, summary });
  assert.deepEqual([{}, { incomplete: true }, { incomplete: true, wait_expired: true }].map(code), [0, 1, 5]);
});

test("a task that is not done has an exit code of its own, unless it was to be canceled", () => {
  const code = ([action, status]) => exitOfEnvelope({ ok: true, action, summary: { continuation: { task: { status } } } });
  const calls = [["send", "completed"], ["send", "working"], ["send", "input-required"], ["watch", "auth-required"], ["watch", "canceled"], ["cancel", "canceled"], ["send", "failed"], ["send", "rejected"]];
  assert.deepEqual(calls.map(code), [0, 0, 6, 6, 7, 0, 1, 1]);
  assert.equal(exitOf("aborted"), 130);
});

test("the exit code of a group is that of the decision, or of what is missing", () => {
  const code = (mode, by, results, action = "send") => exitOfEnvelope({ ok: true, action, summary: { group: { mode, decided_by: by, results: results.map((result) => (typeof result === "string" ? { state: result } : result)) } } });
  for (const [expected, ...group] of [
    [0, "all", "all", ["completed", "answered"]],
    [1, "all", "all", ["completed", "failed"]],
    [6, "all", "none", ["completed", "input-required"]],
    [5, "all", "none", ["working", "completed"]],
    [0, "first", "first", ["completed", "canceled"]],
    [1, "first", "none", ["failed", "failed"]],
    [0, "vote", "quorum", ["completed", "failed"]],
    [11, "vote", "none", ["completed", "completed"]],
    [1, "vote", "none", ["completed", "failed"]],
    [3, "all", "all", [{ state: "not_sent", error: { reason: "unreachable" } }]],
    [7, "all", "all", ["completed", "canceled"]],
    [0, "all", "all", ["completed", "canceled"], "cancel"],
    [1, "all", "all", ["unknown"]],
    [1, "all", "all", [{ state: "forgotten", error: { reason: "task_forgotten" } }]],
  ])
    assert.equal(code(...group), expected, JSON.stringify(group));
});

test("an object is shown as JSON", () => assert.equal(line({ toString: 5 }), '{"toString":5}'));

test("a word of a command is quoted where a shell reads more", () => {
  assert.equal(word("desk-1"), "desk-1");
  assert.equal(word("$IFS`id`"), "'$IFS`id`'");
});

test("a table of a great many rows is shown", () => assert.equal(table(Array.from({ length: 300_000 }, () => ["a", "b"])).length, 5 * 300_000 - 1));

test("a reason is no property of every object", () => assert.deepEqual(["constructor", "__proto__", "toString", undefined, "timeout"].map(exitOf), [1, 1, 1, 1, 5]));

/** Reports an envelope, and returns what went to standard error. */
function reported(t, envelope, ...more) {
  const notes = [];
  const { write } = process.stderr;
  t.mock.method(process.stderr, "write", (text, ...rest) => (typeof text === "string" ? notes.push(text) > 0 : write.call(process.stderr, text, ...rest)));
  try {
    report(envelope, ...more);
  } finally {
    t.mock.restoreAll();
  }
  return notes.join("");
}

const working = { continuation: { target: { target_alias: "desk" }, task: { task_id: "t-1", status: "working", can_cancel: true } } };

test("commands that continue a task name its agent, and the agent that calls", (t) => {
  assert.match(reported(t, { ok: true, summary: working }), / openclaw remote-agent watch --target desk --task t-1\n/);
  assert.match(reported(t, { ok: true, summary: working }, undefined, "the writer"), / watch --target desk --agent 'the writer' --task t-1\n/);
});

test("interrupted wait is no error", (t) => {
  const aborted = (details) => ({ ok: false, error: { reason: "aborted", message: "the caller cancelled the call", details } });
  assert.match(reported(t, aborted({ latest_event_summary: working })), /^stopped waiting; the task continues\n(.|\n)* watch /);
  assert.equal(reported(t, aborted({})), "stopped waiting; the agent may have received the message\n");
});

test("a budget that is nearly used up is named with the time of its end", (t) => {
  const summary = { budget_warning: { scope: "target", unit: "calls", limit: 5, used: 4, resets: "2026-01-02T00:00:00.000Z" } };
  assert.equal(reported(t, { ok: true, summary }), "budget (target): 4 of 5 calls are used; it starts anew at 2026-01-02T00:00:00.000Z\n");
});

test("error has the hint of its caller", (t) => {
  const envelope = { ok: false, error: { reason: "auth_required", message: "no" } };
  assert.equal(reported(t, envelope, "Do this."), "error: no\nwhat to do: Do this.\n");
  assert.match(reported(t, envelope), /`--bearer-env VAR`/);
});
