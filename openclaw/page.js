// A tab of Control UI with the targets and the delegated tasks. The page has no script; it reloads itself.

import { age } from "./report.js";
/** @import {Api} from "./types.d.ts" */

const PATH = "/remote_agent/page";
const RELOAD_SECONDS = 5;
const MAX_CELL_CHARS = 200;

const STYLE = `
:root { color-scheme: light dark; --line: light-dark(#d8dbe0, #383d46); --dim: light-dark(#5b626d, #9aa3b0); --bad: light-dark(#b3261e, #ff8a80); }
body { margin: 0; padding: 1.5rem; font: 15px/1.45 system-ui, sans-serif; background: light-dark(#fff, #14171c); color: light-dark(#16191d, #e6e9ee); }
h1 { font-size: 1.15rem; margin: 0 0 .75rem; } h1:not(:first-child) { margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; } th { text-align: left; font-weight: 600; color: var(--dim); }
th, td { padding: .4rem .9rem .4rem 0; border-bottom: 1px solid var(--line); vertical-align: top; overflow-wrap: anywhere; }
.failed, .rejected, .auth-required { color: var(--bad); } p, .dim { color: var(--dim); } th, td.age { white-space: nowrap; } td:first-child { min-width: 7rem; }`;

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
  const targetRows = targets.map(({ alias, url, description, default: isDefault }) => [cell(isDefault ? `${alias} (default)` : alias), cell(url), cell(description)]);
  const taskRows = tasks.map(({ target, taskId, state, ageMs, lastWord, notify }) => [
    cell(target),
    cell(taskId),
    `<td class="${/^[a-z-]+$/.test(state ?? "") ? state : ""}">${escaped(state)}${notify ? ' <span class="dim">wakes the session</span>' : ""}</td>`,
    `<td class="age">${escaped(age(ageMs))}</td>`,
    cell(lastWord),
  ]);
  return `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta http-equiv="refresh" content="${RELOAD_SECONDS}"><title>Remote agents</title><style>${STYLE}</style></head>
<body>
<h1>Tasks</h1>
${table(["Target", "Task", "State", "Age", "Last word"], taskRows, "No task of this gateway is on record.")}
<h1>Targets</h1>
${table(["Alias", "URL", "Description"], targetRows, "No target is configured. Add one with: openclaw remote-agent add URL")}
</body>
</html>
`;
}

function table(heads, rows, empty) {
  if (rows.length === 0) return `<p>${escaped(empty)}</p>`;
  const head = heads.map((name) => `<th scope="col">${name}</th>`).join("");
  return `<table><thead><tr>${head}</tr></thead><tbody>${rows.map((cells) => `<tr>${cells.join("")}</tr>`).join("\n")}</tbody></table>`;
}

function cell(text) {
  return `<td>${escaped(text)}</td>`;
}

const ENTITIES = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };

/** Truncates and escapes a text. Replaces control characters and bidirectional formatting characters with a space. */
function escaped(text) {
  // A character has up to two code units.
  const shown = [...String(text ?? "").slice(0, 2 * MAX_CELL_CHARS)].slice(0, MAX_CELL_CHARS).join("");
  return shown.replace(/[\p{Cc}\p{Cf}\u2028\u2029]/gu, " ").replace(/[&<>"']/g, (character) => ENTITIES[character]);
}
