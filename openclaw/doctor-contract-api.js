// The module that `openclaw doctor` loads: the migration of settings that the schema refuses.
import { misnamedTargets } from "./configuration.js";

const PLACE = ["plugins", "entries", "remote-agent", "config"];

export const legacyConfigRules = [
  {
    path: [...PLACE, "targets"],
    message: "plugins.entries.remote-agent.config.targets[].url is called baseUrl. Run `openclaw doctor --fix`.",
    match: (targets) => misnamedTargets({ targets }).length > 0,
  },
];

/** Renames the field `url` of a target to `baseUrl`. */
export function normalizeCompatibilityConfig({ cfg }) {
  const config = structuredClone(cfg);
  const misnamed = misnamedTargets(config.plugins?.entries?.["remote-agent"]?.config);
  for (const target of misnamed) {
    target.baseUrl = target.url ?? "";
    delete target.url;
  }
  if (misnamed.length === 0) return { config: cfg, changes: [] };
  return { config, changes: misnamed.map(({ alias }) => `Renamed url of the remote-agent target ${alias} to baseUrl.`) };
}
