// The tool as OpenClaw sees it: one object per agent turn or direct call.
import { argumentCleaner } from "./arguments.js";
import { throttled } from "./throttle.js";

/** The tool for one context; `agentId`, `sessionKey` and `stateDir` of the context go with every call as its caller. */
export function createTool({ agent, definition, followers, tasks, CancelToken }, { agentId, sessionKey, stateDir, oneShotCliRun } = {}) {
  const caller = { agent_id: agentId, session_key: sessionKey, state_dir: stateDir };
  return {
    ...definition,
    // Without this OpenClaw hides plugin tools behind its tool search, and the model has to find the tool first.
    catalogMode: "direct-only",
    prepareArguments: argumentCleaner(definition.parameters),
    async execute(_toolCallId, request, signal, onUpdate) {
      const token = new CancelToken();
      const cancel = () => token.cancel();
      if (signal?.aborted) cancel();
      else signal?.addEventListener("abort", cancel, { once: true });
      const updates = onUpdate && throttled((update) => onUpdate(toolResult(agent, update)));
      try {
        const canNotify = Boolean(sessionKey) && !oneShotCliRun && followers?.hasRoom() === true;
        const host = JSON.stringify({ ...caller, can_notify: canNotify });
        const envelope = await agent.execute(JSON.stringify(request ?? null), host, token, updates?.offer ?? null);
        await updates?.finish();
        const result = toolResult(agent, envelope);
        tasks?.saw(result.details);
        followers?.saw(result.details, caller);
        return result;
      } finally {
        updates?.stop();
        signal?.removeEventListener("abort", cancel);
      }
    },
  };
}

/** `content` is what the model reads, the library's text of the envelope; `details` is the envelope, which OpenClaw grades and programs read. */
function toolResult(agent, json) {
  return { content: [{ type: "text", text: agent.render(json) }], details: JSON.parse(json) };
}
