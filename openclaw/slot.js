// One library and one instance per configuration for the whole process.
//
// OpenClaw evaluates a plugin several times in one process, each time from a private copy of the package. Agent turns
// and direct calls go through different evaluations: without a shared slot each would map its own image of the library
// and keep its own task handles.
import { createHash } from "node:crypto";

import manifest from "./package.json" with { type: "json" };
import { Followers } from "./followers.js";
import { loadLibrary } from "./native.js";
import { DelegatedTasks } from "./tasks.js";

const slotKey = Symbol.for(`openclaw-remote-agent/${manifest.version}`);

/**
 * A share in the instance for `config`. The first share starts it and the last release closes it; the image stays
 * mapped, ready for the next. Throws what the library says about a wrong config.
 *
 * `wake(record, text)` wakes a session of the host. `mark(config)` returns the configuration for the library: an evaluation that cannot mark
 * the secrets shares the instance of one that can. Returns `{ agent, api, CancelToken, definition, followers, tasks, release() }`.
 */
export function acquire(config, logger, load = loadLibrary, wake = undefined, mark = (config) => config) {
  const slot = (globalThis[slotKey] ??= { library: undefined, instances: new Map() });
  slot.library ??= load();
  const text = JSON.stringify(config);
  // The slot can be seen by everything in the process, and a configuration holds credentials.
  const key = createHash("sha256").update(text).digest("hex");
  let instance = slot.instances.get(key);
  if (!instance) {
    instance = start(slot.library, JSON.stringify(mark(config)));
    slot.instances.set(key, instance);
  }
  return lease(slot, key, instance, logger, wake);
}

function start(library, config) {
  const loggers = [];
  const wakers = [];
  // Lines go to the newest evaluation that still lives; an instance outlives the one that started it.
  const log = (level, line) => loggers.at(-1)?.write(level, line);
  const agent = new library.RemoteAgent(config, log);
  const tasks = new DelegatedTasks();
  const host = {
    async ask(request, caller) {
      const envelope = await agent.execute(JSON.stringify(request), JSON.stringify(caller), new library.CancelToken(), null);
      tasks.saw(JSON.parse(envelope));
      return envelope;
    },
    render: (envelope, maxChars) => agent.render(envelope, maxChars),
    wake: (record, text) => wakers.at(-1)(record, text),
    warn: (line) => log("warn", line),
    now: () => Date.now(),
    later(ms, run) {
      const timer = setTimeout(run, ms);
      timer.unref();
      return () => clearTimeout(timer);
    },
  };
  try {
    const { notify, targets } = JSON.parse(library.parseConfig(config));
    const settings = { ...notify, byDefault: targets?.some((target) => target.notify === true) };
    return { agent, definition: JSON.parse(agent.definition()), loggers, wakers, tasks, followers: new Followers(host, settings) };
  } catch (error) {
    agent.close();
    throw error;
  }
}

function lease(slot, key, instance, logger, wake) {
  const { agent, definition, loggers, wakers, followers, tasks } = instance;
  // Wrapped, because two evaluations may share one logger.
  const own = { write: (level, line) => logger[level]?.(`remote-agent: ${line}`) };
  loggers.push(own);
  if (wake) wakers.push(wake);
  return {
    agent,
    definition,
    followers,
    tasks,
    CancelToken: slot.library.CancelToken,
    api: { request: slot.library.apiRequest, response: slot.library.apiResponse, refusal: slot.library.apiRefusal },
    release() {
      const at = loggers.indexOf(own);
      if (at < 0) return;
      loggers.splice(at, 1);
      if (wake) wakers.splice(wakers.indexOf(wake), 1);
      if (loggers.length > 0) return;
      slot.instances.delete(key);
      followers.close();
      agent.close();
    },
  };
}
