// Edits a draft of the host's configuration.
import { isIP } from "node:net";

import { ID, LEGACY_ID, sameUrl, targetsIn } from "./config.js";
/** @import {HostConfig, Settings, Target} from "./types.d.ts" */

const TOOL = "remote_agent";

/** Returns the plugin's settings in `draft`; creates them if they are missing. */
function own(draft) {
  const entry = (((draft.plugins ??= {}).entries ??= {})[ID] ??= {});
  entry.enabled = true;
  return (entry.config ??= {});
}

/**
 * Adds a target, or replaces the one with its alias, enables the tool and allows it. The first target becomes the default.
 * @param {any} draft
 * @param {Target} target
 */
export function putTarget(draft, target) {
  const config = own(draft);
  const targets = (config.targets ??= []);
  if (target.default) for (const other of targets) delete other.default;
  const isDefault = !targets.some((other) => other.default === true && other.alias !== target.alias);
  const next = { ...target, ...(isDefault ? { default: true } : {}) };
  const at = targets.findIndex(({ alias }) => alias === target.alias);
  if (at < 0) targets.push(next);
  else targets[at] = next;
  config.enabled = true;
  allowTool(draft);
}

/**
 * Returns the target `alias` of the plugin's settings in `draft`.
 * @param {any} draft
 * @param {string} alias
 */
export const targetIn = (draft, alias) => targetsIn(draft.plugins?.entries?.[ID]?.config).find((target) => target.alias === alias);

/** Removes the target `alias`. */
export function removeTarget(draft, alias) {
  const targets = draft.plugins?.entries?.[ID]?.config?.targets ?? [];
  const at = targets.findIndex((target) => target.alias === alias);
  if (at < 0) throw new Error(`cannot remove \`${alias}\`: no target has that alias. \`openclaw remote-agent targets\` lists them.`);
  targets.splice(at, 1);
}

/** Removes the plugin's settings, and the tool from the policy. */
export function removeAll(draft) {
  const { [ID]: own, [LEGACY_ID]: legacy } = draft.plugins?.entries ?? {};
  // Without settings of its own, the plugin would use those of the predecessor.
  if (legacy?.config && legacy.enabled !== false) draft.plugins.entries[ID] = { ...own, config: { enabled: false } };
  else delete own?.config;
  disallowTool(draft);
}

/**
 * Returns the settings `config` with those of the predecessor. The plugin's own values and aliases take precedence, and a
 * target at a known address is the same agent.
 * @param {Settings} config
 * @param {Settings} legacy
 * @returns {Settings}
 */
export function merged(config, legacy) {
  const own = targetsIn(config);
  const isKnown = ({ alias, baseUrl }) => own.some((target) => target.alias === alias || isSameAgent(target.baseUrl, baseUrl));
  const hasDefault = own.some((target) => target.default === true);
  const added = targetsIn(legacy).filter((target) => !isKnown(target));
  for (const target of hasDefault ? added : []) delete target.default;
  return { ...legacy, ...config, targets: [...own, ...added] };
}

/**
 * Moves the settings of the predecessor to the plugin's own id. Returns the aliases that it adds; undefined if there are no
 * such settings.
 * @param {any} draft
 */
export function migrateSettings(draft) {
  const entries = draft.plugins?.entries;
  const legacy = entries?.[LEGACY_ID]?.config;
  if (!legacy) return undefined;
  const config = own(draft);
  const before = new Set(targetsIn(config).map(({ alias }) => alias));
  entries[ID].config = merged(config, legacy);
  delete entries[LEGACY_ID];
  allowTool(draft);
  return targetsIn(entries[ID].config).flatMap(({ alias }) => (before.has(alias) ? [] : [alias]));
}

/** Returns whether two base URLs are the same agent: one origin and one path, without final slashes. */
export const isSameAgent = (left, right) => left === right || sameUrl(left, right);

/**
 * Returns whether the policy for all agents allows the tool.
 * @param {HostConfig} [config]
 */
export function toolIsAllowed({ tools } = {}) {
  const allowed = [...(tools?.allow ?? []), ...(tools?.alsoAllow ?? [])];
  return allowed.some((name) => ["*", TOOL, ID, "group:plugins"].includes(name));
}

/** Allows the tool in the policy for all agents: in `tools.allow` if that list has entries, else in `tools.alsoAllow`. */
export function allowTool(draft) {
  if (toolIsAllowed(draft)) return;
  const tools = (draft.tools ??= {});
  const list = tools.allow?.length > 0 ? "allow" : "alsoAllow";
  tools[list] = [...(tools[list] ?? []), TOOL];
}

/** Removes the tool from the policy for all agents. */
export function disallowTool(draft) {
  for (const list of ["allow", "alsoAllow"]) {
    const names = draft.tools?.[list];
    if (!names?.includes(TOOL)) continue;
    const rest = names.filter((name) => name !== TOOL);
    if (rest.length > 0) draft.tools[list] = rest;
    else delete draft.tools[list];
  }
  if (draft.tools && Object.keys(draft.tools).length === 0) delete draft.tools;
}

/**
 * Returns an alias for the agent at `url` that is not in `taken`: the first label of its host, or the address and the port
 * where the host has no name.
 * @param {string} url
 * @param {string[]} taken
 */
export function aliasFor(url, taken) {
  const { hostname, port } = new URL(url);
  const address = hostname.replace(/^\[|\]$/g, "");
  const hasName = !isIP(address) && address !== "localhost";
  const name = hasName ? hostname.split(".").find((label) => label !== "www") : [address.replace(/:+/g, "-").replace(/^-+|-+$/g, ""), port].filter(Boolean).join("-");
  for (let number = 1; ; number += 1) {
    const alias = number === 1 ? (name ?? "agent") : `${name ?? "agent"}-${number}`;
    if (!taken.includes(alias)) return alias;
  }
}

/**
 * Returns the targets with `url` instead of `baseUrl`.
 * @param {{ targets?: unknown } | undefined} config
 * @returns {Target[]}
 */
export function misnamedTargets(config) {
  return targetsIn(config).filter((target) => typeof target.url === "string" && target.baseUrl === undefined);
}
