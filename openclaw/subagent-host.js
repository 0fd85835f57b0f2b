// How the gateway that the plugin runs in has remote agents as sub-agents.
import { connect } from "./person-host.js";
import { BACKEND } from "./subagent.js";
/** @import {Api, Lease, SubagentHost} from "./types.d.ts" */

const EXCHANGE_MS = 10_000;

/**
 * Opens the sub-agents and registers them as a backend of OpenClaw's ACP. Returns a function that ends this.
 * @param {Api} api
 * @param {Pick<SubagentHost, "lease" | "stateDir" | "approval" | "traceparent">} own
 */
export function openSubagents(api, own) {
  const { subagents } = own.lease;
  const close = subagents.open({ ...own, ...gatewayHost(api) });
  let unregister = () => {};
  let isClosed = false;
  const register = async () => {
    const acp = await acpBackends();
    if (isClosed) return;
    acp.registerAcpRuntimeBackend({ id: BACKEND, runtime: subagents, healthy: () => subagents.isOpen });
    // A later evaluation of the plugin registers the same sub-agents, and goes on.
    unregister = () => void (subagents.isOpen || acp.unregisterAcpRuntimeBackend(BACKEND));
  };
  register().catch((error) => api.logger.warn(`remote-agent: remote agents are no sub-agents: OpenClaw has no such backends (${error?.code ?? error?.name})`));
  return () => {
    isClosed = true;
    close();
    unregister();
  };
}

/** Imports OpenClaw's backends. They are no declared part of its SDK: without them the tool works, and remote agents are no sub-agents. */
const acpBackends = () => import(/** @type {string} */ ("openclaw/plugin-sdk/acp-runtime-backend"));

/**
 * Lets chats be bound to a sub-agent (`/acp spawn … --bind here`): OpenClaw leaves the messages of such a chat to a plugin.
 * @param {Api} api
 */
export function registerBoundChats(api) {
  const dispatch = async (event, context) => (await acpBackends().catch(() => undefined))?.tryDispatchAcpReplyHook(event, context);
  api.on?.("reply_dispatch", dispatch, { eligibleDispatchKinds: ["acp"] });
}

/**
 * @param {Api} api
 * @returns {Omit<SubagentHost, "lease" | "stateDir" | "approval" | "traceparent">}
 */
function gatewayHost(api) {
  const request = async (scopes, method, params, timeoutMs, signal) => {
    const connection = await connect(api, scopes);
    const stop = () => connection.stop();
    signal?.addEventListener("abort", stop, { once: true });
    try {
      return await connection.request(method, params, timeoutMs);
    } finally {
      signal?.removeEventListener("abort", stop);
      stop();
    }
  };
  return {
    parentOf: (session) => {
      /** @type {any} */
      const entry = api.runtime.agent.session.getSessionEntry(session);
      return entry?.spawnedBy ?? entry?.parentSessionKey;
    },
    workspaceOf: (agentId) => agentId && api.runtime.agent.resolveAgentWorkspaceDir?.(/** @type {any} */ (api.runtime.config.current?.() ?? api.config), agentId),
    approve: async (approval, timeoutMs, signal) => (await request(["operator.approvals"], "plugin.approval.request", { pluginId: BACKEND, ...approval }, timeoutMs, signal))?.decision ?? undefined,
    // As OpenClaw starts the turn of a sub-agent.
    runAgain: (turn) => request(["operator.write"], "agent", { ...turn, lane: "subagent", acpTurnSource: "manual_spawn", deliver: false }, EXCHANGE_MS),
    warn: (text) => api.logger.warn(`remote-agent: ${text}`),
  };
}
