import assert from "node:assert/strict";
import { test } from "node:test";
import { argumentCleaner } from "../arguments.js";
import { timeout } from "../command-support.js";

const text = { type: "string" };
const schema = {
  type: "object",
  required: ["action"],
  properties: {
    action: text,
    target_alias: text,
    timeout_ms: { type: "integer" },
    blocking: { type: "boolean" },
    reference_task_ids: { type: "array", items: text },
    metadata: { type: "object", additionalProperties: true },
    parts: {
      type: "array",
      items: {
        type: "object",
        required: ["kind"],
        properties: { kind: text, text, uri: text, data: { type: "object" }, metadata: { type: "object" } },
      },
    },
    continuation: {
      type: "object",
      required: ["target"],
      properties: {
        target: { type: "object", required: ["target_url"], properties: { target_url: text, target_alias: text } },
        task: { type: "object", required: ["task_id"], properties: { task_id: text, task_handle: text } },
      },
    },
  },
};
const clean = argumentCleaner(schema);

test("empty optional fields are dropped", () => {
  const given = { action: "send", target_alias: "", timeout_ms: null, reference_task_ids: [], metadata: {}, continuation: {} };
  assert.deepEqual(clean(given), { action: "send" });
});

test("values that only look empty are kept", () => {
  const given = { action: "send", blocking: false, timeout_ms: 0 };
  assert.equal(clean(given), given);
});

test("a required field is kept for validation to refuse", () => {
  assert.deepEqual(clean({ action: "" }), { action: "" });
});

test("fields outside the definition are kept unless they are empty", () => {
  const given = { action: "send", other: "x", toString: 1, message_id: "" };
  assert.deepEqual(clean(given), { action: "send", other: "x", toString: 1 });
});

test("empty fields inside a continuation are dropped", () => {
  const given = { action: "status", continuation: { target: { target_url: "u", target_alias: "" }, task: { task_id: "t", task_handle: null } } };
  assert.deepEqual(clean(given), { action: "status", continuation: { target: { target_url: "u" }, task: { task_id: "t" } } });
});

test("a part keeps its own content, even when it is empty", () => {
  const given = { action: "send", parts: [{ kind: "text", text: "", uri: "", data: {} }, { kind: "data", data: {}, text: null }] };
  assert.deepEqual(clean(given).parts, [{ kind: "text", text: "" }, { kind: "data", data: {} }]);
});

test("what is inside a map belongs to the caller", () => {
  const given = { action: "send", metadata: { note: "", camelCase: null } };
  assert.equal(clean(given), given);
});

test("camelCase names of known fields become snake_case", () => {
  const given = { action: "send", targetAlias: "support", continuation: { target: { targetUrl: "u" } } };
  assert.deepEqual(clean(given), { action: "send", target_alias: "support", continuation: { target: { target_url: "u" } } });
});

test("a camelCase name beside its snake_case one is kept for validation to refuse", () => {
  const given = { action: "send", target_alias: "a", targetAlias: "b" };
  assert.equal(clean(given), given);
});

test("arguments that are no object are handed on", () => {
  for (const given of [null, "text", 3, [], undefined]) assert.equal(clean(given), given);
});

test("the caller's object is not changed", () => {
  const given = Object.freeze({ action: "send", target_alias: "" });
  clean(given);
  assert.deepEqual(given, { action: "send", target_alias: "" });
});

test("a duration has a unit", () => {
  for (const [text, expected] of [["500ms", 500], ["5s", 5000], ["10m", 600_000], ["1h", 3_600_000]]) assert.equal(timeout(text), expected);
  assert.throws(() => timeout("5"), /no unit; try `5s` for seconds/);
  for (const text of ["", "0s", "-1s", "1.5s", "5 s", "5d"]) assert.throws(() => timeout(text), /500ms, 5s, 10m or 1h/, text);
});
