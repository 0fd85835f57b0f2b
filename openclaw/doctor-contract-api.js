// The module that `openclaw doctor` loads: the health check, and the migration of settings that the schema refuses.
import { getHealthCheck, registerHealthCheck } from "openclaw/plugin-sdk/health";

import { misnamedTargets } from "./configuration.js";

const ID = "remote-agent/setup";
const PLACE = ["plugins", "entries", "remote-agent", "config"];

// OpenClaw may evaluate this file more than once per process.
if (!getHealthCheck(ID)) {
  registerHealthCheck({
    id: ID,
    kind: "plugin",
    source: "remote-agent",
    description: "The remote_agent tool is allowed, its credentials resolve and its agents answer.",
    async detect({ cfg, env }) {
      const { diagnose } = await import("./doctor.js");
      const found = await diagnose({ host: cfg, env });
      const problems = found.filter(({ severity }) => severity !== "info");
      return problems.map(({ severity, message, fixHint, path }) => ({ checkId: ID, severity, message, fixHint, path }));
    },
    async repair({ cfg, env }, findings) {
      const { diagnose, repair } = await import("./doctor.js");
      const config = structuredClone(cfg);
      const changes = repair(config, await diagnose({ host: cfg, env }));
      if (changes.length > 0) return { config, changes };
      return { status: "skipped", changes: [], reason: findings[0]?.fixHint ?? "No finding has a safe repair." };
    },
  });
}

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
