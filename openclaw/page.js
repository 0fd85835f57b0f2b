// A tab of Control UI with the targets and the delegated tasks. The page has no script; it reloads itself.

import { age, healthText } from "./text.js";
import { sumsBy, usageText } from "./usage.js";
/** @import {Api} from "./types.d.ts" */

const PATH = "/remote_agent/page";
const RELOAD_SECONDS = 5;
const MAX_CELL_CHARS = 200;
const ENDED = new Set(["completed", "failed", "rejected", "canceled"]);

// The colors, fonts and cards of Control UI.
const STYLE = `
:root { color-scheme: light dark; --card: light-dark(#fff, #161920); --line: light-dark(#e8e4dc, #1e2028); --text: light-dark(#403c35, #bcbcc0); --strong: light-dark(#211e1a, #f4f4f5); --dim: light-dark(#6e6960, #8b8b94); --ok: light-dark(#166534, #22c55e); --work: light-dark(#1d4ed8, #60a5fa); --ask: light-dark(#92400e, #f59e0b); --bad: light-dark(#b91c1c, #f87171); }
* { box-sizing: border-box; }
body { margin: 0; padding: 1.5rem; font: 14px/1.5 "Instrument Sans", -apple-system, BlinkMacSystemFont, "Segoe UI", Roboto, sans-serif; background: light-dark(#faf9f7, #0e1015); color: var(--text); }
h1 { font-size: 1.05rem; margin: 0 0 .75rem; color: var(--strong); }
section { margin-bottom: 1.25rem; padding: 1rem 1.25rem; background: var(--card); border: 1px solid var(--line); border-radius: 14px; }
table { border-collapse: collapse; width: 100%; } th { text-align: left; font-weight: 500; font-size: .8rem; color: var(--dim); }
th, td { padding: .5rem .9rem .5rem 0; border-bottom: 1px solid var(--line); vertical-align: top; overflow-wrap: anywhere; }
tr:last-child td { border-bottom: 0; }
td:first-child { color: var(--strong); min-width: 6.5rem; } p, .dim { color: var(--dim); margin: 0; } td.age, th { white-space: nowrap; }
code { font: .85em/1.5 "JetBrains Mono", ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; color: var(--dim); user-select: all; }
.state::before { content: "\\25cf\\a0"; } .state { color: var(--work); white-space: nowrap; } .submitted, .input-required, .auth-required { color: var(--ask); }
.completed { color: var(--ok); } .failed, .rejected { color: var(--bad); } .canceled { color: var(--dim); }
@media (max-width: 46rem) { body { padding: .75rem; } section { padding: .9rem 1rem; } thead { display: none; } table, tbody, tr, td { display: block; } td { padding: .1rem 0; border: 0; } td:empty { display: none; } tr { padding: .6rem 0; border-bottom: 1px solid var(--line); } tr:last-child { border-bottom: 0; } td[data-label]::before { content: attr(data-label) " "; color: var(--dim); } }`;

const HEADERS = {
  "content-type": "text/html; charset=utf-8",
  "cache-control": "no-store",
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer",
  // Control UI embeds the page in a frame. The page has one inline style and loads nothing.
  "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'self'; form-action 'none'; base-uri 'none'",
};

// The operator scopes that include read access.
const READ_SCOPES = ["operator.read", "operator.write", "operator.admin"];

/** Returns the scopes of the caller of the current HTTP request. */
async function callerScopes() {
  const { getPluginRuntimeGatewayRequestScope } = await import("openclaw/plugin-sdk/plugin-runtime");
  return getPluginRuntimeGatewayRequestScope()?.client?.connect?.scopes ?? [];
}

/**
 * Registers the tab and its page. `targets` and `tasks` return the rows of the gateway methods, `scopes` the scopes of the
 * caller.
 * @param {Api} api
 * @param {ReturnType<typeof import("./gateway-methods.js").registerGatewayMethods>} rows
 */
export function registerPage(api, { targets, tasks }, scopes = callerScopes) {
  const handler = async (request, response) => {
    const granted = await scopes();
    if (!READ_SCOPES.some((scope) => granted.includes(scope))) response.writeHead(403, HEADERS).end("This page needs the scope operator.read.");
    else if (request.method !== "GET" && request.method !== "HEAD") response.writeHead(405, { allow: "GET, HEAD" }).end();
    else response.writeHead(200, HEADERS).end(request.method === "HEAD" ? undefined : page(targets(), tasks()));
    return true;
  };
  api.registerHttpRoute?.({ path: PATH, auth: "gateway", gatewayRuntimeScopeSurface: "trusted-operator", match: "exact", handler });
  api.session?.controls?.registerControlUiDescriptor?.({
    surface: "tab",
    id: "remote-agents",
    label: "Remote agents",
    description: "The agents elsewhere, and the tasks that were delegated to them.",
    icon: "link",
    group: "control",
    slug: "remote-agents",
    path: PATH,
    requiredScopes: ["operator.read"],
  });
}

/** Returns the HTML of the page, with all texts escaped. */
export function page(targets, tasks) {
  const calls = (html) => (targets.some(({ health }) => health) ? [html] : []);
  const targetRows = targets.map(({ alias, url, description, default: isDefault, health }) => [cell(isDefault ? `${alias} (default)` : alias), cell(url), cell(description), ...calls(cell(healthText(health), "Last hour"))]);
  const sums = Object.entries(sumsBy(tasks, (task) => task.target));
  const sessions = Object.entries(sumsBy(tasks, (task) => task.session && `session ${task.session}`));
  const used = (html) => (sums.length > 0 ? [html] : []);
  const taskRows = tasks.map(({ target, taskId, state, ageMs, lastWord, notify, usage }) => [
    cell(target),
    `<td><span class="state ${/^[a-z-]+$/.test(state ?? "") ? state : ""}">${escaped(state || "unknown")}</span>${notify ? ' <span class="dim">wakes the session</span>' : ""}</td>`,
    `<td class="age" data-label="Age">${escaped(age(ageMs))}</td>`,
    ...used(cell(usageText(usage), "Used")),
    cell(lastWord, "Last words"),
    `<td data-label="Task">${escaped(taskId)}${ENDED.has(state ?? "") ? "" : cancelCommand(target, taskId)}</td>`,
  ]);
  return `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><meta http-equiv="refresh" content="${RELOAD_SECONDS}"><title>Remote agents</title><style>${STYLE}</style></head>
<body>
<section><h1>Tasks</h1>
${table(["Target", "State", "Age", ...used("Used"), "Last words", "Task, and how to cancel it"], taskRows, "No task of this gateway is on record.")}${[...sums, ...sessions].map(([name, sum]) => `\n<p>Used by ${escaped(name)}: ${escaped(usageText(sum))}</p>`).join("")}
</section>
<section><h1>Targets</h1>
${table(["Alias", "URL", "Description", ...calls("Last hour")], targetRows, "No target is configured. Add one with: openclaw remote-agent add URL")}
</section>
</body>
</html>
`;
}

function table(heads, rows, empty) {
  if (rows.length === 0) return `<p>${escaped(empty)}</p>`;
  const head = heads.map((name) => `<th scope="col">${name}</th>`).join("");
  return `<table><thead><tr>${head}</tr></thead><tbody>${rows.map((cells) => `<tr>${cells.join("")}</tr>`).join("\n")}</tbody></table>`;
}

function cell(text, label) {
  return `<td${label && text ? ` data-label="${label}"` : ""}>${escaped(text)}</td>`;
}

/** Returns the HTML of the command that cancels a task; empty for one that would have to be cut. */
function cancelCommand(target, taskId) {
  const quoted = (text) => (/^[\w.:@/-]+$/.test(text) ? text : `'${String(text).replaceAll("'", "'\\''")}'`);
  const command = `openclaw remote-agent cancel --target ${quoted(target)} --task ${quoted(taskId)}`;
  return command.length > MAX_CELL_CHARS ? "" : `<br><code>${escaped(command)}</code>`;
}

const ENTITIES = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };

/** Truncates and escapes a text. Replaces control characters and bidirectional formatting characters with a space. */
function escaped(text) {
  // A character has up to two code units.
  const shown = [...String(text ?? "").slice(0, 2 * MAX_CELL_CHARS)].slice(0, MAX_CELL_CHARS).join("");
  return shown.replace(/[\p{Cc}\p{Cf}\u2028\u2029]/gu, " ").replace(/[&<>"']/g, (character) => ENTITIES[character]);
}
