// The tool as OpenClaw sees it: one object per agent turn or direct call.
import { argumentCleaner } from "./arguments.js";
import { throttled } from "./throttle.js";

/** The tool for one context; `agentId` and `sessionKey` of the context go with every call as its caller. */
export function createTool({ agent, definition, CancelToken }, { agentId, sessionKey } = {}) {
  const caller = JSON.stringify({ agent_id: agentId, session_key: sessionKey });
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
      const updates = onUpdate && throttled((update) => onUpdate(toolResult(update)));
      try {
        const envelope = await agent.execute(JSON.stringify(request ?? null), caller, token, updates?.offer ?? null);
        await updates?.finish();
        return toolResult(envelope);
      } finally {
        updates?.stop();
        signal?.removeEventListener("abort", cancel);
      }
    },
  };
}

/** `content` is what the model reads, `details` what OpenClaw grades and programs read; both are the same envelope. */
function toolResult(json) {
  return { content: [{ type: "text", text: json }], details: JSON.parse(json) };
}
