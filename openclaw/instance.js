// A tool instance for one command, with resolved secrets.
import process from "node:process";

import { settings, withOwnGateway } from "./config.js";
import { describeFailure } from "./failure.js";
import { loadLibrary } from "./native.js";
import { markResolved, resolveSecrets } from "./secrets.js";
/** @import {Api, CallRequest, Caller, Envelope, HostConfig, Settings} from "./types.d.ts" */

/**
 * Opens an instance with the settings `change(settings)`, by default the unchanged ones. Throws an error with a sentence if
 * the library refuses them.
 * @param {Pick<Api, "pluginConfig"> & Partial<Api>} api
 * @param {HostConfig} host
 * @param {(config: Settings) => Settings} change
 */
export async function openInstance(api, host, change = (config) => config) {
  const { config, place } = settings({ pluginConfig: api.pluginConfig, config: host });
  const written = withOwnGateway(change(structuredClone(config)), host, process.env);
  const { resolved, unresolved } = await resolveSecrets(written, { host, env: process.env, place });
  const library = loadLibrary();
  let agent;
  try {
    agent = new library.RemoteAgent(JSON.stringify(markResolved(resolved, written)), () => {});
  } catch (error) {
    throw new Error(describeFailure(error, place), { cause: error });
  }
  const stateDir = api.runtime?.state?.resolveStateDir?.();
  /** Runs work that Ctrl-C ends. */
  const cancellable = async (/** @type {(token: import("./types.d.ts").CancelToken) => Promise<string>} */ work) => {
    const token = new library.CancelToken();
    const cancel = () => token.cancel();
    process.once("SIGINT", cancel);
    try {
      return JSON.parse(await work(token));
    } finally {
      process.removeListener("SIGINT", cancel);
    }
  };
  return {
    place,
    unresolved,
    /**
     * Runs a request and returns its envelope; `more` are additional fields of the caller. Ctrl-C stops waiting and does
     * not cancel the task.
     * @param {CallRequest} request
     * @param {((update: any) => void) | null} [onUpdate]
     * @param {Caller & { list_tasks?: boolean }} [more]
     * @returns {Promise<Envelope>}
     */
    async run(request, onUpdate, more = {}) {
      const caller = JSON.stringify({ operator: "shell", state_dir: stateDir, ...more });
      return await cancellable((token) => agent.execute(JSON.stringify(request), caller, token, onUpdate ? (json) => onUpdate(JSON.parse(json)) : null));
    },
    /**
     * Signs a person in. `ask` shows what they have to do.
     * @param {string | undefined} alias
     * @param {string | undefined} person
     * @param {import("./types.d.ts").AskPerson} ask
     * @returns {Promise<import("./types.d.ts").SignInResult>}
     */
    signIn: (alias, person, ask) => cancellable((token) => agent.signIn(alias ?? null, person ?? null, token, ask)),
    /**
     * Removes the stored sign-in.
     * @param {string | undefined} alias
     * @param {string | undefined} person
     * @returns {Promise<import("./types.d.ts").SignInResult>}
     */
    signOut: async (alias, person) => JSON.parse(await agent.signOut(alias ?? null, person ?? null)),
    /**
     * Looks for agents that a person may add.
     * @param {Record<string, unknown>} query
     * @returns {Promise<import("./types.d.ts").FoundAgents>}
     */
    findAgents: (query) => cancellable((token) => agent.findAgents(JSON.stringify(query), token)),
    /**
     * Compares the card of a target with what was accepted of it, and accepts it on behalf of `by`, if it has this fingerprint.
     * @param {string | undefined} alias
     * @param {string} [person]
     * @param {string} [by]
     * @param {string} [fingerprint]
     * @returns {Promise<import("./types.d.ts").PinResult>}
     */
    pin: async (alias, person, by, fingerprint) => JSON.parse(await agent.pin(alias ?? null, person ?? null, by ?? null, fingerprint ?? null)),
    // The process of a command ends soon.
    close: () => agent.closeAndWait(),
  };
}
