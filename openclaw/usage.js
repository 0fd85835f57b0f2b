// What agents report that tasks used, and its sums.
/** @import {Usage} from "./types.d.ts" */

const MICROS = 1_000_000;
const COUNTS = /** @type {const} */ (["input", "output", "cache_read", "cache_write", "total"]);

/** Returns a count of a stored or reported usage; undefined for anything else. */
const count = (value) => (Number.isSafeInteger(value) && value >= 0 ? value : undefined);

/** Returns the sum of two counts, either of which may be unknown. */
const plus = (one, other) => (one === undefined && other === undefined ? undefined : Math.min((one ?? 0) + (other ?? 0), Number.MAX_SAFE_INTEGER));

/**
 * Returns the usage in a value, which may come from a file; undefined if there is none.
 * @returns {Usage | undefined}
 */
export function usageOf(value) {
  const { tokens, usd_micros, unknown_currency, duration_ms, estimated } = value ?? {};
  const currency = /^([A-Z]{3}|unknown)$/.test(unknown_currency) ? unknown_currency : undefined;
  const counts = Object.fromEntries(COUNTS.map((name) => [name, count(tokens?.[name])]).filter(([, known]) => known !== undefined));
  const hasTokens = Object.keys(counts).length > 0;
  if (!hasTokens && count(usd_micros) === undefined && !currency) return undefined;
  return { tokens: hasTokens ? counts : undefined, usd_micros: count(usd_micros), unknown_currency: currency, duration_ms: count(duration_ms), estimated: estimated === true };
}

/**
 * Returns the sums of tasks with a reported usage by what `nameOf` returns, where that is not undefined.
 * @param {{ target?: string, session?: string, usage?: Usage }[]} tasks
 * @param {(task: { target?: string, session?: string }) => string | undefined} nameOf
 * @returns {Record<string, Usage>}
 */
export function sumsBy(tasks, nameOf) {
  /** @type {Map<string, Usage>} */
  const sums = new Map();
  for (const task of tasks) {
    const name = nameOf(task);
    if (name === undefined || !task.usage) continue;
    const { tokens, usd_micros, unknown_currency, duration_ms, estimated } = task.usage;
    const sum = sums.get(name);
    const counts = Object.fromEntries(COUNTS.map((key) => [key, plus(sum?.tokens?.[key], tokens?.[key])]).filter(([, known]) => known !== undefined));
    sums.set(name, { tokens: Object.keys(counts).length > 0 ? counts : undefined, usd_micros: plus(sum?.usd_micros, usd_micros), unknown_currency: unknown_currency ?? sum?.unknown_currency, duration_ms: plus(sum?.duration_ms, duration_ms), estimated: estimated || sum?.estimated === true });
  }
  return Object.fromEntries(sums);
}

/**
 * Returns a usage for a table: `1200 tokens $0.0123`, with `~` before an estimate.
 * @param {Usage} [usage]
 */
export function usageText(usage) {
  if (!usage) return "-";
  const parts = [];
  if (usage.tokens?.total !== undefined) parts.push(`${usage.tokens.total} tokens`);
  if (usage.usd_micros !== undefined) parts.push(`$${(usage.usd_micros / MICROS).toFixed(4)}`);
  if (usage.unknown_currency) parts.push(usage.unknown_currency === "unknown" ? "in an unknown currency" : `in ${usage.unknown_currency}`);
  return (usage.estimated ? "~" : "") + parts.join(" ");
}
