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
      const token = new library.CancelToken();
      const cancel = () => token.cancel();
      process.once("SIGINT", cancel);
      try {
        return JSON.parse(await agent.execute(JSON.stringify(request), caller, token, onUpdate ? (json) => onUpdate(JSON.parse(json)) : null));
      } finally {
        process.removeListener("SIGINT", cancel);
      }
    },
    // The process of a command ends soon.
    close: () => agent.closeAndWait(),
  };
}
