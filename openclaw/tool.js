// The tool as OpenClaw sees it: one object per agent turn or direct call.
import { setImmediate } from "node:timers/promises";

import { argumentCleaner } from "./arguments.js";
import { FileError, NO_FILES, attach, describe, save, withPaths, withoutSaved } from "./files.js";

/** The least time between two updates of a call, in milliseconds. The library delivers the first, the last, and between them the newest. */
const UPDATE_INTERVAL_MS = 100;

/** Every envelope, also that of an error. `schema/result.schema.json` describes it whole; OpenClaw fails calls whose result differs. */
const OUTPUT_SCHEMA = {
  type: "object",
  required: ["ok", "operation"],
  properties: {
    ok: { type: "boolean" },
    operation: { const: "remote_agent" },
    action: { type: ["string", "null"] },
    summary: { type: "object" },
    error: { type: "object", required: ["code", "message"], properties: { code: { type: "string" }, message: { type: "string" } } },
  },
};

/**
 * The tool for one context; `agentId`, `sessionKey` and `stateDir` of the context go with every call as its caller, and so does
 * the trace that `traceparent()` resolves to, if it does. With a `workspaceDir`, parts may name files in it or in the directories `mediaRoots`, and files of results are saved in it.
 */
export function createTool({ agent, definition, followers, tasks, CancelToken }, context = {}) {
  const { agentId, sessionKey, stateDir, oneShotCliRun, workspaceDir, mediaRoots, traceparent } = context;
  const caller = { agent_id: agentId, session_key: sessionKey, state_dir: stateDir };
  const parameters = workspaceDir ? withPaths(definition.parameters) : definition.parameters;
  return {
    ...definition,
    parameters,
    outputSchema: OUTPUT_SCHEMA,
    // Without this OpenClaw hides plugin tools behind its tool search, and the model has to find the tool first.
    catalogMode: "direct-only",
    prepareArguments: argumentCleaner(parameters),
    async execute(_toolCallId, request, signal, onUpdate) {
      const token = new CancelToken();
      const cancel = () => token.cancel();
      if (signal?.aborted) cancel();
      else signal?.addEventListener("abort", cancel, { once: true });
      let release;
      try {
        if (workspaceDir) request = await attach(request, { workspaceDir, mediaRoots });
        if (sessionKey && !oneShotCliRun) release = followers?.reserve(request ?? {});
        const host = JSON.stringify({ ...caller, traceparent: traceparent && (await traceparent().catch(() => undefined)), can_notify: release !== undefined, update_interval_ms: UPDATE_INTERVAL_MS });
        const deliver = onUpdate ? (update) => onUpdate(toolResult(agent, update)) : null;
        const [text, ...pieces] = await agent.executeRendered(JSON.stringify(request ?? null), host, token, deliver);
        const details = await assemble(pieces);
        tasks?.saw(details);
        followers?.saw(details, caller);
        const files = workspaceDir ? await save(details, workspaceDir) : NO_FILES;
        const shown = files.saved.length > 0 ? agent.render(JSON.stringify(withoutSaved(details, files))) : text;
        return { content: [{ type: "text", text: shown }, ...describe(files)], details };
      } catch (error) {
        if (error instanceof FileError) return toolResult(agent, invalidRequest(request, error));
        throw error;
      } finally {
        release?.();
        signal?.removeEventListener("abort", cancel);
      }
    },
  };
}

/** The envelope whose pieces `executeRendered` returned. The event loop takes a turn before each further piece. */
export async function assemble([first, ...pieces]) {
  const envelope = JSON.parse(first);
  for (const piece of pieces) {
    await setImmediate();
    const [path, items] = JSON.parse(piece);
    const array = path.reduce((value, key) => value[key], envelope);
    for (const item of items) array.push(item);
  }
  return envelope;
}

/** `content` is what the model reads, the library's text of the envelope; `details` is the envelope, which OpenClaw grades and programs read. */
function toolResult(agent, json) {
  return { content: [{ type: "text", text: agent.render(json) }], details: JSON.parse(json) };
}

/** The envelope of a request that the library never saw, in the form of its own refusals. */
function invalidRequest({ action }, { place, message }) {
  const complaint = { instancePath: place, keyword: "path", message, params: {}, schemaPath: "#/properties/parts/items/properties/path" };
  const hint = `Name a file in your workspace, or send its content as \`bytes\`. First: ${place} ${message}.`;
  const details = { errors: [complaint], hint, source: "ajv", tool: "remote_agent" };
  const error = { code: "VALIDATION_ERROR", reason: "invalid_request", retryable: false, message: "remote_agent input validation failed", path: place, details };
  return JSON.stringify({ ok: false, isError: true, operation: "remote_agent", action, error });
}
