// The place where a command calls agents: the running gateway, or else this process.
import { askGateway } from "./ask-gateway.js";
import { settings } from "./config.js";
import { openInstance } from "./instance.js";
import { note } from "./text.js";
/** @import {Api, HostConfig} from "./types.d.ts" */
/** @import {CallPlace} from "./repair.js" */

/** @typedef {Pick<Awaited<ReturnType<typeof openInstance>>, "run" | "close"> & CallPlace} Place */

/**
 * Uses the place where agents run: the running gateway, or else an instance in this process, with a note about that unless `isQuiet`.
 * @template T
 * @param {{ api: Api, host: HostConfig }} context
 * @param {(place: Place) => T | Promise<T>} use
 * @param {boolean} isQuiet
 */
export async function withPlace({ api, host }, use, isQuiet = false) {
  const { config } = settings({ pluginConfig: api.pluginConfig, config: host });
  const gateway = await askGateway(undefined, (reason) => void (isQuiet || note(`${reason}. This uses the environment and the secrets of this shell`)));
  const place = gateway ?? (await openInstance(api, host));
  try {
    return await use({ run: place.run, close: place.close, config, inGateway: gateway !== undefined, envFile: gateway?.settings().envFile });
  } finally {
    place.close();
  }
}
