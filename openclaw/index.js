// The plugin entry that OpenClaw loads. The native library implements the behavior; these files connect it to OpenClaw.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import process from "node:process";

import { Grants, approvalHook } from "./approval.js";
import { settings, withOwnGateway } from "./config.js";
import { describeFailure } from "./failure.js";
import { Flows } from "./flows.js";
import { registerGatewayMethods } from "./gateway-methods.js";
import { registerHttpApi } from "./http-api.js";
import { registerPage } from "./page.js";
import { personHost } from "./person-host.js";
import { markResolved } from "./secrets.js";
import { auditFindings } from "./security-audit.js";
import { acquire } from "./slot.js";
import { openSubagents, registerBoundChats } from "./subagent-host.js";
import { createTool } from "./tool.js";
/** @import {Api, FollowedRecord, Lease} from "./types.d.ts" */

// In these modes OpenClaw collects metadata, and the plugin must not start.
const METADATA_MODES = new Set(["cli-metadata", "setup-only"]);

/**
 * Registers the command. Its code is loaded when it runs.
 * @param {Api} api
 */
function registerCommand(api) {
  const descriptor = {
    name: "remote-agent",
    description: "Call agents elsewhere over A2A",
    hasSubcommands: true,
    machineOutput: ({ argv }) => argv.includes("--json"),
  };
  const register = async (context) => (await import("./commands.js")).registerCommands(context, api);
  api.registerCli?.(register, { descriptors: [descriptor] });
}

/**
 * Returns a function that wakes a session: OpenClaw starts a turn at once, with the text as a system event.
 * @param {Api} api
 * @returns {(record: FollowedRecord, text: string) => void}
 */
function waker(api) {
  return ({ key, caller: { agent_id: agentId, session_key: sessionKey } }, text) => {
    const { system } = api.runtime;
    system.enqueueSystemEvent(text, { sessionKey, agentId, contextKey: `remote-agent:${key}` });
    system.requestHeartbeat({ source: "other", intent: "immediate", reason: `remote-agent:${key}`, sessionKey, agentId });
  };
}

/** Returns the settings as written, with their SecretRefs. Returns undefined and logs a warning if OpenClaw does not provide them. */
function writtenSettings(logger) {
  try {
    const { getRuntimeConfigSourceSnapshot } = createRequire(import.meta.url)("openclaw/plugin-sdk/runtime-config-snapshot");
    const source = getRuntimeConfigSourceSnapshot();
    return settings({ pluginConfig: source?.plugins?.entries?.["remote-agent"]?.config, config: source }).config;
  } catch (error) {
    // Without the message, which may contain values.
    logger.warn(`cannot read the settings as written (${error?.code ?? error?.name}); a header from a SecretRef is protected only if its name or length marks a credential`);
    return undefined;
  }
}

/** Returns the trace of the run that calls the tool, in the format of `traceparent`; undefined outside of a run. */
async function runTrace() {
  const { createDiagnosticTraceContextFromActiveScope, formatDiagnosticTraceparent } = await import("openclaw/plugin-sdk/diagnostic-runtime");
  const trace = createDiagnosticTraceContextFromActiveScope();
  // Outside of a run, OpenClaw starts a trace without a parent.
  return trace.parentSpanId && formatDiagnosticTraceparent(trace);
}

/**
 * Returns the directories outside the workspace from which an agent may send files: OpenClaw's media, unless a policy
 * restricts the agent to its workspace.
 */
function mediaRoots({ fsPolicy, sandboxed }, stateDir) {
  return fsPolicy?.workspaceOnly || sandboxed || !stateDir ? [] : [join(stateDir, "media")];
}

const plugin = {
  id: "remote-agent",
  name: "Remote Agent",
  description: "Lets agents hand work to agents elsewhere over A2A.",

/** @param {Api} api */
  register(api) {
    registerCommand(api);
    if (METADATA_MODES.has(api.registrationMode)) return;
    api.registerSecurityAuditCollector?.(auditFindings);
    const { config: own, place } = settings(api);
    const config = withOwnGateway(own, api.config, process.env);
    /** @type {Lease | undefined} */
    let lease;
    /** @type {ReturnType<typeof approvalHook>} */
    let ask;
    const rows = registerGatewayMethods(api, config, () => lease, () => ask);
    if (config.enabled !== true) {
      // The plugin registers in other modes too, which would repeat the line.
      if (api.registrationMode === "full") api.logger.info(`remote_agent is switched off: ${place}.enabled is not true`);
      return;
    }

    try {
      const mark = (config) => markResolved(config, writtenSettings(api.logger) ?? {});
      lease = acquire(config, api.logger, undefined, waker(api), mark);
    } catch (error) {
      api.logger.error(describeFailure(error, place));
      return;
    }
    const held = lease;
    api.lifecycle.onDispose?.(() => held.release());
    registerPage(api, rows);
    // OpenClaw's state directory, which also contains the delegation of each session.
    const stateDir = api.runtime?.state?.resolveStateDir?.();
    const { name, parameters } = lease.definition;
    ask = approvalHook(lease.settings, parameters, { grants: new Grants(stateDir), tasks: lease.tasks, log: (level, text) => api.logger[level]?.(text) });
    if (ask) api.on?.("before_tool_call", ask, { matcher: [name] });
    registerHttpApi(api, lease, ask);
    // OpenClaw starts services only in its gateway, once.
    let stop = [];
    api.registerService?.({
      id: "remote-agent/followers",
      start(context) {
        const folder = context?.stateDir ?? stateDir;
        const { managedFlows } = api.runtime.tasks?.async ?? {};
        const flows = managedFlows && new Flows((sessionKey) => managedFlows.bindSession({ sessionKey }), (text) => api.logger.warn(`remote-agent: ${text}`));
        stop = [held.people.open(personHost(api)), held.followers.open(folder, flows), held.tasks.open(folder, (text) => api.logger.warn(`remote-agent: ${text}`))];
        if (folder) stop.push(openSubagents(api, { lease: held, stateDir: folder, approval: ask, traceparent: runTrace }));
      },
      stop: () => stop.forEach((close) => close()),
    });
    api.on?.("before_dispatch", (event, context) => held.people.onMessage(event, context));
    registerBoundChats(api);
    api.registerCommand?.({
      name: "remote-answer",
      description: "Answer a question of a remote agent",
      acceptsArgs: true,
      requireAuth: true,
      handler: (context) => held.people.onCommand(context),
    });
    // A factory, so that each call has its agent and its session.
    const tool = (context) => createTool(lease, { ...context, stateDir, mediaRoots: mediaRoots(context, stateDir), traceparent: runTrace });
    api.registerTool(tool, { name, optional: true });
  },
};

/**
 * The metadata that `openclaw plugins validate` and `openclaw plugins build` read from an entry. `defineToolPlugin` would
 * add it, but needs the tool's parameters before registration. They come from the native library, which is loaded later.
 */
function authoringMetadata() {
  const manifest = JSON.parse(readFileSync(new URL("openclaw.plugin.json", import.meta.url), "utf8"));
  const { id, name, description, activation, configSchema, contracts, toolMetadata } = manifest;
  const tools = contracts.tools.map((tool) => ({ name: tool, optional: toolMetadata[tool]?.optional === true }));
  return { id, name, description, activation, configSchema, tools };
}

Object.defineProperty(plugin, Symbol.for("openclaw.plugin-sdk.tool-plugin.metadata"), { get: authoringMetadata });

export default plugin;
