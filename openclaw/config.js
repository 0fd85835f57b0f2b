// Which settings hold: those under the plugin's own id, or, when there are none, those a predecessor left behind.
const ID = "remote-agent";
const LEGACY_ID = "openclaw-a2a-outbound";

/**
 * The settings and where they stand in the host's configuration.
 *
 * OpenClaw lets an entry under a legacy id enable this plugin, but does not hand over the settings in it. Own settings
 * always win; "none" means an empty object, so the manifest's schema has no defaults at its top level, which OpenClaw
 * would write in.
 */
export function settings({ pluginConfig, config: host }) {
  const own = pluginConfig ?? {};
  const legacy = host?.plugins?.entries?.[LEGACY_ID];
  const takenOver = Object.keys(own).length === 0 && legacy?.config && legacy.enabled !== false;
  return takenOver ? { config: legacy.config, place: place(LEGACY_ID) } : { config: own, place: place(ID) };
}

function place(id) {
  return `plugins.entries.${id}.config`;
}
