// Takes commands of the report as lines of JSON on standard input, and writes one line of JSON for each.

import { monitorEventLoopDelay } from "node:perf_hooks";
import { createInterface } from "node:readline";

/** The processor time of this thread, in milliseconds. */
function cpuMs() {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
}

/**
 * Returns the result of `work`, and the longest times in milliseconds between two turns of the event loop: `stall_ms` as the
 * clock shows it, and `busy_ms` as far as this thread had a processor.
 */
async function measureEventLoop(work) {
  const delay = monitorEventLoopDelay({ resolution: 1 });
  // The histogram counts between two turns of a timer: one before the work, one after it.
  const turn = () => new Promise((resolve) => setTimeout(resolve, 3));
  delay.enable();
  await turn();
  delay.reset();
  let [busy_ms, before] = [0, cpuMs()];
  const timer = setInterval(() => {
    const now = cpuMs();
    [busy_ms, before] = [Math.max(busy_ms, now - before), now];
  }, 1);
  const result = await work();
  await turn();
  clearInterval(timer);
  delay.disable();
  return { ...result, stall_ms: Math.max(0, delay.max / 1e6 - 1), busy_ms };
}

/** Keeps `width` calls in flight for `seconds`. */
async function repeatCalls(call, width, seconds) {
  const start = performance.now();
  const end = start + seconds * 1000;
  let count = 0;
  const worker = async () => {
    do {
      await call();
      count += 1;
    } while (performance.now() < end);
  };
  await Promise.all(Array.from({ length: width }, worker));
  return { calls: count, seconds: (performance.now() - start) / 1000 };
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
    const { op, width, seconds, text, updates, interval, count } = JSON.parse(line);
    const work = {
      send: () => repeatCalls(send, width, seconds),
      status: () => repeatCalls(status, width, seconds),
      stream: () => timed(() => stream(text, updates, interval)),
      watch: () => timed(() => Promise.all(Array.from({ length: count }, (_, n) => watch(`w-${n}`)))),
    }[op];
    const { seconds: elapsed, calls, seen, stall_ms, busy_ms } = await measureEventLoop(work);
    console.log(JSON.stringify({ seconds: elapsed, calls, seen, stall_ms, busy_ms }));
  }
  process.exit(0);
}
