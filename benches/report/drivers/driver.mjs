// Takes commands of the report as lines of JSON on standard input, and answers each with a line of JSON.

import { monitorEventLoopDelay } from "node:perf_hooks";
import { createInterface } from "node:readline";

/** The longest time in milliseconds that the event loop was busy during `work`, beside its result. */
async function watched(work) {
  const delay = monitorEventLoopDelay({ resolution: 1 });
  // The histogram counts between two turns of a timer: one before the work, one after it.
  const turn = () => new Promise((resolve) => setTimeout(resolve, 3));
  delay.enable();
  await turn();
  delay.reset();
  const result = await work();
  await turn();
  delay.disable();
  return { ...result, stall_ms: Math.max(0, delay.max / 1e6 - 1) };
}

/** Keeps `width` calls in flight for `seconds`. */
async function calls(call, width, seconds) {
  const start = performance.now();
  const end = start + seconds * 1000;
  let made = 0;
  const worker = async () => {
    do {
      await call();
      made += 1;
    } while (performance.now() < end);
  };
  await Promise.all(Array.from({ length: width }, worker));
  return { calls: made, seconds: (performance.now() - start) / 1000 };
}

async function timed(work) {
  const start = performance.now();
  const result = await work();
  return { ...result, seconds: (performance.now() - start) / 1000 };
}

/** Answers commands with these functions until standard input ends. */
export async function drive({ send, status, stream, watch }) {
  console.log("ready");
  for await (const line of createInterface({ input: process.stdin })) {
    const { op, width, seconds, text, updates, count } = JSON.parse(line);
    const work = {
      send: () => calls(send, width, seconds),
      status: () => calls(status, width, seconds),
      stream: () => timed(() => stream(text, updates)),
      watch: () => timed(() => Promise.all(Array.from({ length: count }, (_, n) => watch(`w-${n}`)))),
    }[op];
    const { seconds: took, calls: made, seen, stall_ms } = await watched(work);
    console.log(JSON.stringify({ seconds: took, calls: made, seen, stall_ms }));
  }
  process.exit(0);
}
