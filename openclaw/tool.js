// The tool object for OpenClaw, created for each agent turn or direct call.
import { setImmediate } from "node:timers/promises";

import { argumentCleaner } from "./arguments.js";
import { FileError, NO_FILES, attach, describe, save, withPaths, withoutSaved } from "./files.js";
import { isShared } from "./person.js";
import { senderOf } from "./sender.js";
import { withOwnCommand } from "./text.js";
/** @import {Followers} from "./followers.js" */
/** @import {CallRequest, Lease} from "./types.d.ts" */

/**
 * The minimum interval between two updates of a call, in milliseconds. The library delivers the first and the last update,
 * and the newest of those in between.
 */
const UPDATE_INTERVAL_MS = 100;

/**
 * The schema of every envelope, including errors. `schema/result.schema.json` has all fields. OpenClaw fails calls whose
 * result does not match this schema.
 */
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
 * Creates the tool for one context. The caller of each call contains `agentId`, `sessionKey` and `stateDir` of the context,
 * the sender of the message, and the trace that `traceparent()` resolves to, if any. With a `workspaceDir`, parts may name files in it or in
 * `mediaRoots`, and the tool saves files of results in it.
 * @param {Pick<Lease, "agent" | "definition" | "CancelToken"> & Partial<Lease>} lease
 * @param {Record<string, any>} context
 */
export function createTool({ agent, definition, followers, number = 0, people, tasks, CancelToken }, context = {}) {
  const { agentId, sessionKey, stateDir, oneShotCliRun, workspaceDir, mediaRoots, traceparent } = context;
  // Where several people write, any of them could sign in with an account of their own.
  const caller = { agent_id: agentId, user: senderOf(context), session_key: sessionKey, state_dir: stateDir, ...(isShared(sessionKey) && { no_sign_in: true }) };
  const parameters = workspaceDir ? withPaths(definition.parameters) : definition.parameters;
  return {
    ...definition,
    parameters,
    outputSchema: OUTPUT_SCHEMA,
    // Otherwise OpenClaw hides plugin tools behind its tool search, and the model must search for the tool first.
    catalogMode: /** @type {const} */ ("direct-only"),
    prepareArguments: argumentCleaner(parameters),
    async execute(_toolCallId, request, signal, onUpdate) {
      const token = new CancelToken();
      const cancel = () => token.cancel();
      if (signal?.aborted) cancel();
      else signal?.addEventListener("abort", cancel, { once: true });
      let release;
      const asker = sessionKey && !oneShotCliRun ? people?.forCall({ sessionKey, agentId, user: caller.user }) : undefined;
      let details;
      /** One for each question; those of a group ask for several tasks. @type {Set<NonNullable<ReturnType<Followers["hold"]>>>} */
      const held = new Set();
      let isFollowed = false;
      try {
        if (workspaceDir) request = await attach(request, { workspaceDir, mediaRoots });
        if (tasks) request = tasks.resumed(request, number);
        if (sessionKey && !oneShotCliRun) release = followers?.reserve(request ?? {});
        const host = JSON.stringify({ ...caller, traceparent: traceparent && (await traceparent().catch(() => undefined)), can_notify: release !== undefined, update_interval_ms: UPDATE_INTERVAL_MS });
        const deliver = onUpdate && ((update) => onUpdate(toolResult(agent, update)));
        const ask = asker && ((question) => {
          // From its question on the task is saved, so that the gateway asks again if it is killed meanwhile.
          const goesOn = release && followers?.hold(JSON.parse(question).continuation, caller);
          if (goesOn) held.add(goesOn);
          return asker.ask(question);
        });
        const [text, ...pieces] = await agent.executeRendered(JSON.stringify(request ?? null), host, token, deliver ?? null, ask);
        details = await assemble(pieces);
        tasks?.observe(details, number, sessionKey);
        for (const goesOn of held) goesOn();
        // The gateway goes on asking where it was to follow the task.
        isFollowed = followers?.observe(details, caller, asker?.isOpen && release !== undefined) === true;
        const files = workspaceDir ? await save(details, workspaceDir) : NO_FILES;
        const shown = files.saved.length > 0 ? agent.render(JSON.stringify(withoutSaved(details, files))) : details.error?.reason === "token_unavailable" ? withOwnCommand(text) : text;
        return { content: [{ type: "text", text: shown }, ...describe(files)], details };
      } catch (error) {
        if (error instanceof FileError) return toolResult(agent, invalidRequest(request, error));
        throw error;
      } finally {
        // A call that failed leaves its task to the gateway.
        for (const goesOn of held) isFollowed = goesOn() || isFollowed;
        asker?.end(isFollowed, details);
        release?.();
        signal?.removeEventListener("abort", cancel);
      }
    },
  };
}

/**
 * Joins the pieces of an envelope from `executeRendered`. Yields to the event loop before each further piece.
 * @param {string[]} pieces
 */
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

/**
 * Returns the result for OpenClaw. `content` is the library's text for the model; `details` is the envelope for OpenClaw
 * and for programs.
 */
function toolResult(agent, json) {
  return { content: [{ type: "text", text: agent.render(json) }], details: JSON.parse(json) };
}

/**
 * Returns the envelope of a request that was refused before the library received it, in the format of the library's errors.
 * @param {CallRequest} request
 * @param {FileError} error
 */
function invalidRequest({ action }, { place, message }) {
  const complaint = { instancePath: place, keyword: "path", message, params: {}, schemaPath: "#/properties/parts/items/properties/path" };
  const hint = `Name a file in your workspace, or send its content as \`bytes\`. First: ${place} ${message}.`;
  const details = { errors: [complaint], hint, source: "ajv", tool: "remote_agent" };
  const error = { code: "VALIDATION_ERROR", reason: "invalid_request", retryable: false, message: "remote_agent input validation failed", path: place, quotes_peer: false, details };
  return JSON.stringify({ ok: false, isError: true, operation: "remote_agent", action, error });
}
