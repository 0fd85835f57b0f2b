import assert from "node:assert/strict";
import { test } from "node:test";

import { table, wrapped } from "../table.js";

const ID = "2245188d-8e9f-4898-95d9-a947b1288617";
const tasks = (asked, width) => table([["TASK", "STATE", "AGENT", "ASKED"], [ID, "completed", "-", asked]], width);

test("columns are aligned and unbounded without a terminal", () => {
  const [head, row, ...more] = tasks("word ".repeat(40), 0).split("\n");
  assert.deepEqual([head.indexOf("STATE"), more.length], [row.indexOf("completed"), 0]);
});

test("narrow terminal hides empty columns", () => {
  assert.ok(!tasks("stream 5 200", 64).includes("AGENT"));
  assert.ok(tasks("stream 5 200", 80).includes("AGENT"));
});

test("last column wraps at spaces", () => {
  const lines = tasks("Summarize the incident of last Friday", 70).split("\n");
  assert.equal(lines[2].trim(), "incident of last");
  assert.equal(lines[2].indexOf("incident"), lines[0].indexOf("ASKED"));
});

test("row is a block if its columns do not fit", () => {
  assert.equal(tasks("Summarize the incident", 50), `TASK   ${ID}\nSTATE  completed\nASKED  Summarize the incident`);
});

test("no width splits a word or overflows", () => {
  for (let width = 44; width < 160; width += 1) {
    const shown = tasks("Summarize the incident of last Friday", width);
    assert.ok(shown.includes(ID) && shown.includes("completed"), shown);
    assert.ok(shown.split("\n").every((line) => line.length <= width), shown);
  }
});

test("text wraps between words, and not inside a command", () => {
  assert.equal(wrapped("run `a b c` now\nand then", 9), "run\n`a b c`\nnow\nand then");
  assert.equal(wrapped("`a b` c` d e f", 6), "`a b`\nc` d e\nf");
  assert.equal(wrapped("a long text", undefined), "a long text");
});
