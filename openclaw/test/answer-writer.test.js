import assert from "node:assert/strict";
import { test } from "node:test";

import { AnswerWriter } from "../answer-writer.js";

const text = (value) => ({ kind: "text", text: value });
const chunk = (id, value, append = true) => ({ raw: { kind: "artifact-update", artifact: { artifactId: id, parts: [text(value)] }, append } });
const state = (status, said) => ({ summary: { continuation: { task: { task_id: "t-1", status } }, status_message: said }, raw: { kind: "status-update" } });
const done = (...artifacts) => ({ ok: true, summary: { artifacts: artifacts.map(([id, value]) => ({ artifactId: id, parts: [text(value)] })) } });

/** Shows updates and the envelope. Returns what was printed on standard output, and the lines on standard error. */
function shown(t, updates, envelope) {
  const printed = [];
  const notes = [];
  const { write } = process.stderr;
  t.mock.method(process.stderr, "write", (line, ...rest) => (typeof line === "string" ? notes.push(line) > 0 : write.call(process.stderr, line, ...rest)));
  const writer = new AnswerWriter((piece) => printed.push(piece));
  try {
    for (const update of updates) writer.update(update);
    if (envelope) writer.finish(envelope);
  } finally {
    t.mock.restoreAll();
  }
  return { printed, out: printed.join(""), notes };
}

test("each piece of text is printed as it arrives, and once", (t) => {
  const { printed } = shown(t, [chunk("a", "one ", false), chunk("a", "two")], done(["a", "one two three"]));
  assert.deepEqual(printed, ["one ", "two", " three", "\n"]);
});

test("without updates the result is printed", (t) => {
  assert.equal(shown(t, [], done(["a", "one"], ["b", "two\n"])).out, "one\n\ntwo\n");
  assert.equal(shown(t, [], { ok: true, summary: {}, raw: { kind: "message", parts: [text("hello"), { data: [1] }] } }).out, "hello\n[\n  1\n]\n");
  assert.equal(shown(t, [], { ok: false, error: { details: { message_text: "said before" } } }).out, "said before\n");
});

test("replaced artifact is printed again", (t) => {
  assert.equal(shown(t, [chunk("a", "draft", false)], done(["a", "final"])).out, "draft\n\nfinal\n");
});

test("states of a running task are lines of their own, each once", (t) => {
  const { notes, out } = shown(t, [state("submitted"), state("working"), state("working"), state("working", "reading\u001b[2J"), state("completed")], { ok: true, summary: { message_text: "reading\u001b[2J" } });
  assert.deepEqual(notes, ["submitted\n", "working\n", "working: reading[2J\n"]);
  assert.equal(out, "");
});

test("text of an agent controls no terminal", (t) => {
  const { out } = shown(t, [chunk("a", "a\u001b[31mb\u202e\u0007", false)], done(["a", "a\u001b[31mb\u202e\u0007"]));
  assert.equal(out, "a[31mb\n");
});

test("update without any field prints nothing", (t) => {
  for (const update of [{}, { raw: null }, { raw: {} }, { raw: { kind: "artifact-update" } }, { raw: { kind: "message" } }]) assert.equal(shown(t, [update], { ok: true, summary: {} }).out, "");
});

test("each answer of a group is printed once it is in an update, and each state once", (t) => {
  const update = (a, b) => ({ summary: { group: { results: [{ target_alias: "a", ...a }, { target_alias: "b", ...b }] } }, raw: null });
  const one = { state: "completed", summary: { message_text: "one" } };
  const file = { kind: "message", parts: [text("two"), { kind: "file", file: { name: "x.txt" } }] };
  const envelope = { ok: true, ...update(one, { state: "answered", summary: { message_text: "two" } }), raw: [null, file] };
  const { out, notes } = shown(t, [update({ state: "pending" }, { state: "pending" }), update({ state: "working" }, { state: "pending" }), update(one, { state: "pending" })], envelope);
  assert.equal(out, "a:\n  one\n\nb:\n  two\n  [file: x.txt]\n");
  assert.deepEqual(notes, ["a: working\n", "a: completed\n"]);
});
