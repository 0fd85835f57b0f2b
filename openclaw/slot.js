// One library, one list of delegated tasks and one instance per configuration, shared by the whole process.
//
// OpenClaw evaluates a plugin several times in one process, each time from a private copy of the package. Agent turns and
// direct calls use different evaluations. Without a shared slot, each would load its own copy of the library and have its
// own task handles.
import { createHash } from "node:crypto";

import manifest from "./package.json" with { type: "json" };
import { Followers } from "./followers.js";
import { loadLibrary } from "./native.js";
import { People } from "./person.js";
import { Subagents } from "./subagent.js";
import { DelegatedTasks } from "./tasks.js";
/** @import {FollowedRecord, Lease, Library, ParsedSettings, Settings} from "./types.d.ts" */

/** The longest time for which a closed instance goes on with a renewal, in milliseconds. */
const REFRESH_MS = 20_000;

/** @typedef {(record: FollowedRecord, text: string) => void} Waker */

const slotKey = Symbol.for(`openclaw-remote-agent/${manifest.version}`);

/**
 * Returns a lease on the instance for `config`. The first lease creates the instance and the last release closes it; the
 * library stays loaded. Throws the library's error for an invalid configuration.
 *
 * `wake(record, text)` wakes a session of the host. `mark(config)` returns the configuration for the library; an evaluation
 * that cannot mark the secrets shares the instance of one that can. The lease is `{ agent, api, CancelToken, definition,
 * followers, number, people, settings, subagents, tasks, share(), release() }`; `share` returns another lease on the same instance.
 * @param {Settings} config
 * @param {{ [level: string]: any }} logger
 * @param {() => Library} load
 * @param {Waker} [wake]
 * @param {(config: Settings) => Settings} mark
 * @returns {Lease}
 */
export function acquire(config, logger, load = loadLibrary, wake, mark = (config) => config) {
  const slot = (globalThis[slotKey] ??= newSlot());
  slot.library ??= load();
  const text = JSON.stringify(config);
  // All code in the process can read the slot, and a configuration contains credentials.
  const key = createHash("sha256").update(text).digest("hex");
  let instance = slot.instances.get(key);
  if (!instance) {
    const marked = mark(config);
    instance = start(slot, marked === config ? text : JSON.stringify(marked));
    slot.instances.set(key, instance);
  }
  return lease(slot, key, instance, logger, wake);
}

function newSlot() {
  const slot = { library: undefined, instances: new Map(), closed: [], started: 0, tasks: new DelegatedTasks(), people: new People(), subagents: new Subagents() };
  // The end of the process would lose a sign-in that is being renewed.
  process.once("exit", () => [...slot.closed, ...[...slot.instances.values()].map(({ agent }) => agent)].forEach((agent) => agent.closeAndWait()));
  return slot;
}

function start(slot, config) {
  const { library, tasks, people } = slot;
  const number = (slot.started += 1);
  const loggers = [];
  const wakers = [];
  // Log with the newest active evaluation, because an instance outlives the evaluation that created it.
  const log = (level, line) => loggers.at(-1)?.write(level, line);
  const agent = new library.RemoteAgent(config, log);
  const host = {
    async ask(request, caller, askPerson) {
      const envelope = await agent.execute(JSON.stringify(request), JSON.stringify(caller), new library.CancelToken(), null, askPerson);
      tasks.observe(JSON.parse(envelope), number);
      return envelope;
    },
    asker: ({ session_key: sessionKey, agent_id: agentId, user }) => people.forCall({ sessionKey, agentId, user }),
    isStopping: () => people.isStopping,
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
    /** @type {ParsedSettings} */
    const settings = JSON.parse(library.parseConfig(config));
    const { notify, targets } = settings;
    const followers = new Followers(host, { ...notify, byDefault: targets?.some((target) => target.notify === true) });
    return { agent, settings, definition: JSON.parse(agent.definition()), leases: 0, loggers, wakers, number, followers };
  } catch (error) {
    agent.close();
    throw error;
  }
}

function lease(slot, key, instance, logger, wake) {
  const { agent, settings, definition, loggers, wakers, followers, number } = instance;
  // A wrapper, because two evaluations may share one logger.
  const own = logger && { write: (level, line) => logger[level]?.(`remote-agent: ${line}`) };
  if (own) loggers.push(own);
  if (wake) wakers.push(wake);
  instance.leases += 1;
  let isReleased = false;
  return {
    agent,
    settings,
    definition,
    followers,
    tasks: slot.tasks,
    people: slot.people,
    subagents: slot.subagents,
    number,
    CancelToken: slot.library.CancelToken,
    api: { request: slot.library.apiRequest, response: slot.library.apiResponse, refusal: slot.library.apiRefusal },
    // Without a logger, because the evaluation that has this one may end first.
    share: () => lease(slot, key, instance),
    release() {
      if (isReleased) return;
      isReleased = true;
      instance.leases -= 1;
      if (own) loggers.splice(loggers.indexOf(own), 1);
      if (wake) wakers.splice(wakers.indexOf(wake), 1);
      if (instance.leases > 0) return;
      slot.instances.delete(key);
      followers.close();
      agent.close();
      slot.closed.push(agent);
      setTimeout(() => slot.closed.shift(), REFRESH_MS).unref();
    },
  };
}
