import assert from "node:assert/strict";
import test from "node:test";

import { sumsBy, usageOf, usageText } from "../usage.js";

test("only counts are a usage", () => {
  for (const value of [undefined, null, 7, {}, { tokens: { total: -1 } }, { tokens: { total: "9" }, usd_micros: 1.5 }, { duration_ms: 7 }, { unknown_currency: "<b>" }]) assert.equal(usageOf(value), undefined, JSON.stringify(value));
  assert.deepEqual(usageOf({ tokens: { total: 3, other: 1 }, usd_micros: Infinity, extra: 1 }), { tokens: { total: 3 }, usd_micros: undefined, unknown_currency: undefined, duration_ms: undefined, estimated: false });
});

test("sums are by name, saturate, and leave out tasks without a name or a usage", () => {
  const usage = usageOf({ tokens: { total: Number.MAX_SAFE_INTEGER }, usd_micros: 5 });
  const sums = sumsBy([{ target: "a", usage }, { target: "a", usage }, { target: "b" }, { usage }], (task) => task.target);
  assert.deepEqual(Object.keys(sums), ["a"]);
  assert.deepEqual([sums.a.tokens?.total, sums.a.usd_micros], [Number.MAX_SAFE_INTEGER, 10]);
});

test("a target named like a member of objects has a sum", () => {
  const usage = usageOf({ usd_micros: 5 });
  assert.deepEqual(Object.keys(sumsBy([{ usage }], () => "constructor")), ["constructor"]);
});

test("text names tokens, dollars and other currencies", () => {
  assert.equal(usageText(undefined), "-");
  assert.equal(usageText({ tokens: { total: 1200 }, usd_micros: 12_300, estimated: true }), "~1200 tokens $0.0123");
  assert.equal(usageText({ unknown_currency: "EUR", estimated: false }), "in EUR");
});
