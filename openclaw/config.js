// Selects the effective settings: those under the plugin's own id, or else those of a predecessor.
/** @import {HostConfig, Settings, Target} from "./types.d.ts" */
export const ID = "remote-agent";
export const LEGACY_ID = "openclaw-a2a-outbound";
const DEFAULT_GATEWAY_PORT = 18789;

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

/**
 * Returns the settings with the URL and the token of the gateway in which the plugin runs, if the agents of a gateway are
 * targets and no URL names another one. Only its port, its TLS and its token in the host's configuration count, or the
 * variables that override them, as for OpenClaw's own clients.
 * @param {Settings} config
 * @param {HostConfig | undefined} host
 * @param {Record<string, string | undefined>} env
 * @returns {Settings}
 */
export function withOwnGateway(config, host, env) {
  const { gateway } = config;
  if (gateway?.enabled !== true || gateway.url !== undefined) return config;
  const { port, tls, auth } = host?.gateway ?? {};
  const url = `${tls?.enabled === true ? "wss" : "ws"}://127.0.0.1:${env.OPENCLAW_GATEWAY_PORT?.trim() || (port ?? DEFAULT_GATEWAY_PORT)}`;
  const takesToken = (auth?.mode ?? "token") === "token";
  const token = gateway.token ?? (takesToken ? env.OPENCLAW_GATEWAY_TOKEN?.trim() || auth?.token : undefined);
  return { ...config, gateway: { ...gateway, url, ...(token === undefined ? {} : { token }) } };
}

/** Returns whether both URLs are the same target. Like the library, ignores the query and trailing slashes. */
export function sameUrl(one, other) {
  if (!URL.canParse(one) || !URL.canParse(other)) return false;
  const [a, b] = [new URL(one), new URL(other)];
  return a.origin === b.origin && pathOf(a) === pathOf(b);
}

function pathOf({ pathname }) {
  let end = pathname.length;
  while (pathname[end - 1] === "/") end -= 1;
  return pathname.slice(0, end);
}

function place(id) {
  return `plugins.entries.${id}.config`;
}
