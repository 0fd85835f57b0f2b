// Findings for `openclaw security audit`: settings that widen the network access of the tool or expose a credential.
import { isIPv4 } from "node:net";

import { settings, targetsIn } from "./config.js";
import { plaintextSecrets } from "./secrets.js";
/** @import {HostConfig} from "./types.d.ts" */

/**
 * Returns the findings for a host configuration with unresolved secrets.
 * @param {{ sourceConfig?: HostConfig, config: HostConfig }} context
 */
export function auditFindings({ sourceConfig, config: host }) {
  const source = sourceConfig ?? host;
  const { config, place } = settings({ pluginConfig: source?.plugins?.entries?.["remote-agent"]?.config, config: source });
  const found = [];
  const add = (checkId, severity, title, detail, remediation) => found.push({ checkId: `remote-agent.${checkId}`, severity, title, detail, remediation });
  for (const { path } of plaintextSecrets(config)) {
    add("plaintext_secret", "warn", "A credential of a remote agent is in plain text", `${place}.${path} is a literal.`, "Replace it with a SecretRef.");
  }
  for (const target of targetsIn(config)) {
    const at = `${place}.targets (${target.alias})`;
    if (target.allowPrivateNetwork === true) add("private_network", "warn", "A remote agent may be at a private address", `${at}.allowPrivateNetwork is true: its name may lead into this network.`, "Remove it where the agent has a public address.");
    if (/^\s*http:/i.test(target.baseUrl ?? "") && target.auth && !isLoopback(target.baseUrl)) add("cleartext", "critical", "A credential travels unencrypted", `${at} has auth and an http address.`, "Use https.");
  }
  const { policy = {}, gateway = {} } = config;
  if (policy.allowTargetUrlOverride === true) add("url_override", "warn", "Agents may call any address", `${place}.policy.allowTargetUrlOverride is true: a request names its target by URL.`, "Configure the targets and remove it.");
  if (policy.allowTargetUrlOverride === true && policy.allowPrivateTargetUrls === true) add("private_urls", "critical", "Agents may call addresses of this network", `${place}.policy.allowPrivateTargetUrls is true together with allowTargetUrlOverride.`, "Remove it.");
  if (gateway.allowRemote === true) add("remote_gateway", "warn", "The gateway may be on another machine", `${place}.gateway.allowRemote is true.`, "Remove it where the gateway is on this machine.");
  if (gateway.tokenInQuery === true) add("token_in_query", "warn", "The gateway's token is part of a URL", `${place}.gateway.tokenInQuery is true: proxies and logs record URLs.`, "Remove it where the gateway takes the token in a frame.");
  return found;
}

/**
 * Returns whether a URL leads to this machine.
 * @param {string} url
 */
export function isLoopback(url) {
  if (!URL.canParse(url)) return false;
  const { hostname } = new URL(url);
  return hostname === "localhost" || hostname === "[::1]" || (isIPv4(hostname) && hostname.startsWith("127."));
}
