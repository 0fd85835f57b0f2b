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

const UNITS = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/**
 * Returns the milliseconds of a duration in one of the units; undefined for another text.
 * @param {string} text
 * @param {string[]} units
 */
export function duration(text, units) {
  const [, number, unit] = /^(\d+)([a-z]+)$/.exec(text) ?? [];
  return units.includes(unit) ? Number(number) * UNITS[unit] : undefined;
}

/**
 * Returns the milliseconds of `--timeout`.
 * @param {string} text
 */
export function timeout(text) {
  const milliseconds = duration(text, ["ms", "s", "m", "h"]) ?? 0;
  if (milliseconds >= 1) return milliseconds;
  if (/^\d+$/.test(text)) throw new CommandError(`\`--timeout ${text}\` has no unit; try \`${text}s\` for seconds`);
  throw new CommandError("give `--timeout` a duration such as 500ms, 5s, 10m or 1h");
}
