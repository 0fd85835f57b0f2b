// Calls the library in a mix of actions until standard input ends. It reads one JSON object a line: `{config}` replaces the
// short-lived instance, `{sample: true}` requests a sample of Node.js. It writes one line for each sample, and one at the end.
import { readdirSync, readFileSync } from "node:fs";
import { createInterface } from "node:readline";

const [library, config, workers, pauseMs] = process.argv.slice(2);
const loaded = { exports: {} };
process.dlopen(loaded, library);
const { RemoteAgent, CancelToken } = loaded.exports;

const writeLine = (value) => process.stdout.write(`${JSON.stringify(value)}\n`);
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const outcomes = {};
let updates = 0;
let stopped = false;

const agent = new RemoteAgent(config, () => {});
let changing = new RemoteAgent(config, () => {});

async function call(step, request, { instance = agent, abortMs } = {}) {
  const token = new CancelToken();
  const timer = abortMs && setTimeout(() => token.cancel(), abortMs);
  const text = await instance.execute(JSON.stringify(request), null, token, () => { updates += 1; });
  clearTimeout(timer);
  instance.render(text);
  const envelope = JSON.parse(text);
  const outcome = envelope.ok ? "ok" : envelope.error.reason ?? envelope.error.code;
  const counts = (outcomes[step] ??= {});
  counts[outcome] = (counts[outcome] ?? 0) + 1;
  return envelope;
}

const parts = (text) => [{ kind: "text", text }];
const send = (step, target_alias, text, more, options) =>
  call(step, { action: "send", target_alias, parts: parts(text), ...more }, options);
const followUpdates = { follow_updates: true };
const continuationOf = (envelope) => envelope.summary?.continuation;

const steps = [
  () => send("message", "serve", "message good morning"),
  () => send("0.3", "serve03", "echo good morning"),
  () => send("stream", "serve", "chunks 50", followUpdates),
  async () => {
    const continuation = continuationOf(await send("task", "serve", "echo status"));
    if (continuation?.task) await call("status", { action: "status", continuation });
  },
  async () => {
    const continuation = continuationOf(await send("wait", "serve", "stream 30 100", { ...followUpdates, timeout_ms: 2000 }));
    if (continuation?.task) await call("watch", { action: "watch", continuation });
  },
  async () => {
    const continuation = continuationOf(await send("question", "serve", "ask which colour"));
    if (continuation?.task) await call("answer", { action: "send", continuation, parts: parts("blue") });
  },
  async () => {
    const continuation = continuationOf(await send("endless", "serve", "slow", { blocking: false }));
    if (continuation?.task) await call("cancel", { action: "cancel", continuation });
  },
  () => send("large", "serve", "big 200000"),
  () => send("aborted", "serve", "slow 60000", followUpdates, { abortMs: 50 }),
  () => send("cut stream", "cut", "stream 20 5", followUpdates),
  () => send("cut message", "cut", "echo through the proxy"),
  () => send("refused", "refused", "echo"),
  () => send("killed", "killed", "stream 40 10", { ...followUpdates, timeout_ms: 3000 }),
  () => send("token", "changing", "echo", {}, { instance: changing }),
  () => send("agent", "gateway:beta", "hello"),
  () => send("killed agent", "gateway:alpha", "hello", { timeout_ms: 2000 }),
  () => send("slow agent", "gateway:coder", "x".repeat(20000), { timeout_ms: 1000 }),
  () => send("vote", "gateway:triad", "Ship it today", { ...followUpdates, timeout_ms: 4000 }),
  () => call("invalid", { action: "send", target_alias: "serve" }),
  () => call("list", { action: "list_targets" }),
];

let next = 0;
async function runSteps() {
  while (!stopped) {
    await steps[next++ % steps.length]();
    await sleep(Number(pauseMs));
  }
}

const pluginThreads = () => readdirSync("/proc/self/task").filter((id) => {
  try { return readFileSync(`/proc/self/task/${id}/comm`, "utf8").startsWith("remote-agent"); } catch { return false; }
}).length;

createInterface({ input: process.stdin }).on("line", (line) => {
  const { config, sample } = JSON.parse(line);
  if (config) {
    changing.close();
    changing = new RemoteAgent(config, () => {});
  }
  if (sample) {
    gc();
    const { heapUsed, external, arrayBuffers } = process.memoryUsage();
    writeLine({ heap: heapUsed, external: external + arrayBuffers, handles: process.getActiveResourcesInfo().length, outcomes });
  }
}).on("close", () => { stopped = true; });

await Promise.all(Array.from({ length: Number(workers) }, runSteps));
changing.close();
agent.close();
while (pluginThreads() > 0) await sleep(20);
gc();
writeLine({ outcomes, updates, handles: process.getActiveResourcesInfo() });
