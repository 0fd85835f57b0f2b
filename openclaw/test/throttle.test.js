import assert from "node:assert/strict";
import { test } from "node:test";
import { Throttle, throttled } from "../throttle.js";

/** Offers a value each millisecond for `ms` milliseconds and returns `[time, value]` of those that pass. */
function passing(throttle, ms) {
  const passed = [];
  for (let now = 0; now < ms; now += 1) {
    for (const value of throttle.offer(`v${now}`, now)) passed.push([now, value]);
  }
  return passed;
}

test("the first update passes at once", () => {
  assert.deepEqual(new Throttle().offer("first", 5), ["first"]);
});

test("at most ten updates a second pass, each the newest of its time", () => {
  const passed = passing(new Throttle(), 1000);
  assert.equal(passed.length, 10);
  assert.deepEqual(passed.slice(0, 3), [[0, "v0"], [100, "v100"], [200, "v200"]]);
});

test("the last update waits and is not lost", () => {
  const throttle = new Throttle();
  passing(throttle, 150);
  assert.equal(throttle.waitMs(150), 50);
  assert.deepEqual(throttle.drain(), ["v149"]);
  assert.deepEqual(throttle.drain(), []);
});

test("a waiting update passes when its time comes, without a new one", () => {
  const throttle = new Throttle();
  throttle.offer("a", 0);
  assert.deepEqual(throttle.offer("b", 10), []);
  assert.deepEqual(throttle.due(99), []);
  assert.deepEqual(throttle.due(100), ["b"]);
  assert.equal(throttle.waitMs(101), undefined);
});

test("a burst hands over its first and its last update before the result", async () => {
  const delivered = [];
  const updates = throttled((value) => delivered.push(value));
  for (let n = 0; n < 1000; n += 1) updates.offer(n);
  await updates.finish();
  updates.stop();
  assert.deepEqual(delivered, [0, 999]);
});

test("an update that is still on its way when the call ends is handed over", async () => {
  const delivered = [];
  const updates = throttled((value) => delivered.push(value));
  updates.offer("first");
  setImmediate(() => updates.offer("late"));
  await updates.finish();
  updates.stop();
  assert.deepEqual(delivered, ["first", "late"]);
});

test("the newest update appears on a quiet stream without waiting for the next", async () => {
  const { promise, resolve } = Promise.withResolvers();
  const updates = throttled((value) => value === "newest" && resolve(value), new Throttle(5));
  updates.offer("first");
  updates.offer("newest");
  // Timers of the throttle do not keep a process alive, so the test has to.
  const alive = setInterval(() => {}, 1000);
  assert.equal(await promise, "newest");
  clearInterval(alive);
  updates.stop();
});

test("nothing is delivered after stop", async () => {
  const delivered = [];
  const updates = throttled((value) => delivered.push(value));
  updates.offer("first");
  updates.stop();
  updates.offer("after");
  await updates.finish();
  assert.deepEqual(delivered, ["first"]);
});

test("a receiver that throws does not break the call", async () => {
  const updates = throttled(() => {
    throw new Error("the run is over");
  });
  updates.offer("first");
  await updates.finish();
  updates.stop();
});
