// Selects the effective settings: those under the plugin's own id, or else those of a predecessor.
/** @import {HostConfig, Settings, Target} from "./types.d.ts" */
export const ID = "remote-agent";
export const LEGACY_ID = "openclaw-a2a-outbound";

/**
 * Returns the settings and their place in the host's configuration.
 *
 * An entry under a legacy id makes OpenClaw enable this plugin, but OpenClaw does not pass on its settings. The plugin's
 * own settings take precedence unless they are an empty object. OpenClaw would add the defaults of the manifest's schema to
 * that object, so the schema has no defaults at its top level.
 * @param {{ pluginConfig?: Record<string, unknown>, config?: HostConfig }} host
 * @returns {{ config: Settings, place: string }}
 */
export function settings({ pluginConfig, config: host }) {
  /** @type {Settings} */
  const own = pluginConfig ?? {};
  const legacy = host?.plugins?.entries?.[LEGACY_ID];
  const takenOver = Object.keys(own).length === 0 && legacy?.enabled !== false ? legacy?.config : undefined;
  return takenOver ? { config: takenOver, place: place(LEGACY_ID) } : { config: own, place: place(ID) };
}

/**
 * Returns the targets of settings that no schema has checked.
 * @param {{ targets?: unknown } | undefined} config
 * @returns {Target[]}
 */
export function targetsIn(config) {
  return Array.isArray(config?.targets) ? config.targets.filter((target) => typeof target === "object" && target !== null) : [];
}

function place(id) {
  return `plugins.entries.${id}.config`;
}
