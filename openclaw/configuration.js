// Edits a draft of the host's configuration.
import { isIP } from "node:net";

import { targetsIn } from "./config.js";
/** @import {HostConfig, Target} from "./types.d.ts" */

const TOOL = "remote_agent";
const ID = "remote-agent";

/** Returns the plugin's settings in `draft`; creates them if they are missing. */
function own(draft) {
  const entry = (((draft.plugins ??= {}).entries ??= {})[ID] ??= {});
  entry.enabled = true;
  return (entry.config ??= {});
}

/**
 * Adds a target, enables the tool and allows it. The first target becomes the default.
 * @param {any} draft
 * @param {Target} target
 */
export function addTarget(draft, target) {
  const config = own(draft);
  const targets = (config.targets ??= []);
  if (targets.some(({ alias }) => alias === target.alias)) throw new Error(`cannot add \`${target.alias}\`: a target has that alias. Name another with \`--alias\`.`);
  if (target.default) for (const other of targets) delete other.default;
  const first = !targets.some((other) => other.default === true);
  targets.push({ ...target, ...(first ? { default: true } : {}) });
  config.enabled = true;
  allowTool(draft);
}

/** Removes the target `alias`. */
export function removeTarget(draft, alias) {
  const targets = draft.plugins?.entries?.[ID]?.config?.targets ?? [];
  const at = targets.findIndex((target) => target.alias === alias);
  if (at < 0) throw new Error(`cannot remove \`${alias}\`: no target has that alias. \`openclaw remote-agent targets\` lists them.`);
  targets.splice(at, 1);
}

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
 * Returns an alias for the agent at `url` that is not in `taken`: the first label of its host.
 * @param {string} url
 * @param {string[]} taken
 */
export function aliasFor(url, taken) {
  const { hostname } = new URL(url);
  const name = isIP(hostname.replace(/^\[|\]$/g, "")) ? "agent" : (hostname.split(".").find((label) => label !== "www") ?? "agent");
  for (let number = 1; ; number += 1) {
    const alias = number === 1 ? name : `${name}-${number}`;
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
