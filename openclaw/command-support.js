// What the commands of `openclaw remote-agent` share.
import { USAGE } from "./report.js";
/** @import {Api} from "./types.d.ts" */

/** A user error, or another reason to stop. */
export class CommandError extends Error {
  constructor(message, exit = USAGE) {
    super(message);
    this.exit = exit;
  }
}

/** @type {(api: Api, mutate: (draft: any) => void) => Promise<unknown>} */
export const edit = (api, mutate) => api.runtime.config.mutateConfigFile({ afterWrite: { mode: "auto" }, mutate });

/**
 * @param {string} text
 * @param {string} option
 */
export function positive(text, option) {
  const number = Number(text);
  if (!Number.isInteger(number) || number < 1) throw new CommandError(`give \`${option}\` a number, 1 or more`);
  return number;
}
