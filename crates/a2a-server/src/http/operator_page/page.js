"use strict";

// Texts of clients are untrusted: the page shows them only with `textContent`.
const byId = (id) => document.getElementById(id);
const FILTERS = [
  ["all", "All", () => true],
  ["open", "Open", (task) => !task.settled],
  ["done", "Completed", (task) => task.state === "completed"],
  ["bad", "Failed", (task) => task.state === "failed" || task.state === "rejected"],
  ["canceled", "Canceled", (task) => task.state === "canceled"],
];
const MIN_POLL_MS = 1000;
const MAX_POLL_MS = 10000;

let tasks = [];
let total = 0;
let group = "all";
let tag = null;
let clockOffsetMs = 0;
let pollDelayMs = MIN_POLL_MS;
let timer = 0;
let taskToDelete = null;
let token = sessionStorage.getItem("token");
const rows = new Map();

function createElement(name, className, text) {
  const node = document.createElement(name);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;
  return node;
}

function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

async function sendRequest(method, path, headers = {}) {
  const all = { "X-Requested-With": "remote-agent", ...headers };
  if (token) all.Authorization = "Bearer " + token;
  return fetch(path, { method, headers: all, cache: "no-store", credentials: "omit", redirect: "error" });
}

async function errorMessage(response) {
  try {
    return (await response.json()).error.message;
  } catch {
    return "the server answered " + response.status;
  }
}

function showHealth(word, text) {
  byId("health").dataset.health = word;
  setText(byId("health-text"), text);
}

function showError(text) {
  byId("trouble").hidden = !text;
  setText(byId("trouble"), text || "");
}

function showSignIn(shown) {
  byId("sign-in").hidden = !shown;
  byId("board").hidden = shown;
}

function formatDuration(task) {
  const end = task.settled ? task.changedMs : Date.now() + clockOffsetMs;
  const ms = Math.max(0, end - task.createdMs);
  if (task.settled && ms < 1000) return ms + " ms";
  const s = Math.floor(ms / 1000);
  if (s < 10) return (ms / 1000).toFixed(1) + " s";
  if (s < 60) return s + " s";
  const twoDigits = (n) => String(n).padStart(2, "0");
  if (s < 3600) return Math.floor(s / 60) + ":" + twoDigits(s % 60) + " min";
  return Math.floor(s / 3600) + ":" + twoDigits(Math.floor(s / 60) % 60) + " h";
}

function formatTime(ms) {
  return new Date(ms).toLocaleString([], { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", second: "2-digit" });
}

function sizeText(bytes) {
  return bytes < 1024 ? bytes + " B" : bytes < 1 << 20 ? (bytes / 1024).toFixed(1) + " KiB" : (bytes / (1 << 20)).toFixed(1) + " MiB";
}

function partNode({ text, data, file, type, bytes, url }) {
  if (text !== undefined) return createElement("div", "whole", text);
  if (data !== undefined) return createElement("code", "whole", data);
  const what = [file || "a file", type, bytes === undefined ? url : sizeText(bytes)];
  return createElement("div", "whole", what.filter(Boolean).join(" · "));
}

function section(title, parts) {
  const made = createElement("div", "part");
  made.appendChild(createElement("h3", "", title));
  for (const part of parts) made.appendChild(partNode(part));
  return made;
}

// What a row opens to: the messages in order, the artifacts, and the times.
function detailNodes(task) {
  const times = "asked " + formatTime(task.createdMs) + " · " + task.state.replace("-", " ") + " since " + formatTime(task.statusMs || task.changedMs);
  const messages = task.messages.map(({ from, parts }) => section(from === "client" ? "From the client" : "From the agent", parts));
  const artifacts = task.artifacts.map(({ name, parts }) => section("Artifact " + name, parts));
  const empty = messages.length + artifacts.length > 0 ? [] : [createElement("p", "", "The task has no messages.")];
  return [...messages, ...artifacts, ...empty, createElement("p", "times", times)];
}

async function loadDetail(id) {
  const parts = rows.get(id);
  if (!parts || !parts.more) return;
  parts.loadedAt = parts.changedAt;
  let nodes;
  try {
    const response = await sendRequest("GET", "/api/tasks/" + encodeURIComponent(id));
    nodes = response.ok ? detailNodes(await response.json()) : [createElement("p", "", "Cannot show the task: " + (await errorMessage(response)))];
  } catch {
    nodes = [createElement("p", "", "Cannot show the task: the connection failed.")];
  }
  if (parts.more) parts.more.firstChild.replaceChildren(...nodes);
}

function toggle(id) {
  const parts = rows.get(id);
  if (!parts) return;
  if (parts.more) {
    parts.more.remove();
    parts.more = null;
  } else {
    parts.more = createElement("tr", "more");
    const cell = parts.more.appendChild(createElement("td", "", "loading"));
    cell.colSpan = 7;
    parts.row.after(parts.more);
    loadDetail(id);
  }
  parts.open.setAttribute("aria-expanded", String(parts.more !== null));
  setText(parts.open, parts.more ? "Close" : "Open");
}

function createRow(id) {
  const row = createElement("tr");
  row.dataset.task = id;
  const cell = (className, label) => {
    const made = row.appendChild(createElement("td", className));
    if (label) made.dataset.label = label;
    return made;
  };
  const state = cell("where").appendChild(createElement("span", "state"));
  const asked = cell("asked");
  const parts = { row, state, asked: asked.appendChild(createElement("div", "text")) };
  parts.says = asked.appendChild(createElement("div", "says text"));
  asked.appendChild(createElement("code", "id", id));
  parts.agent = cell("agent", "agent");
  parts.client = cell("client", "client");
  parts.since = cell("since");
  parts.took = cell("took number");
  parts.more = null;
  const actions = cell("do");
  parts.open = actions.appendChild(createElement("button", "open-task", "Open"));
  parts.open.setAttribute("aria-expanded", "false");
  parts.open.addEventListener("click", () => toggle(id));
  parts.cancel = actions.appendChild(createElement("button", "cancel", "Cancel"));
  parts.remove = actions.appendChild(createElement("button", "delete", "Delete"));
  for (const button of [parts.open, parts.cancel, parts.remove]) button.type = "button";
  parts.cancel.addEventListener("click", () => runAction(id, "cancel"));
  parts.remove.addEventListener("click", () => confirmDelete(id));
  return parts;
}

function updateRow(parts, task) {
  if (parts.row.className !== task.state) parts.row.className = task.state;
  setText(parts.state, task.state.replace("-", " "));
  setText(parts.asked, task.asked || "(no text)");
  setText(parts.says, task.says || "");
  parts.says.hidden = !task.says;
  setText(parts.agent, task.agent || "default");
  setText(parts.client, task.client);
  setText(parts.since, formatTime(task.createdMs));
  parts.since.title = new Date(task.createdMs).toISOString();
  setText(parts.took, formatDuration(task));
  parts.cancel.hidden = task.settled;
  const label = (task.asked || task.id).slice(0, 60);
  parts.cancel.setAttribute("aria-label", "Cancel: " + label);
  parts.remove.setAttribute("aria-label", "Delete: " + label);
  parts.changedAt = task.changedMs + task.state;
  if (parts.more && parts.loadedAt !== parts.changedAt) loadDetail(task.id);
}

function render() {
  const matches = FILTERS.find(([id]) => id === group)[2];
  const shown = tasks.filter(matches);
  const visibleIds = new Set(shown.map((task) => task.id));
  for (const [id, parts] of rows) {
    if (visibleIds.has(id)) continue;
    if (parts.row.contains(document.activeElement)) byId("tasks").focus();
    parts.row.remove();
    if (parts.more) parts.more.remove();
    rows.delete(id);
  }
  const body = byId("rows");
  const nodes = shown.flatMap((task) => {
    let parts = rows.get(task.id);
    if (!parts) rows.set(task.id, (parts = createRow(task.id)));
    updateRow(parts, task);
    return parts.more ? [parts.row, parts.more] : [parts.row];
  });
  nodes.forEach((node, i) => {
    // Move a row only if its position changed, because a move takes the focus from its buttons.
    if (body.children[i] !== node) body.insertBefore(node, body.children[i] || null);
  });
  for (const button of byId("filters").children) {
    const [id, , matches] = FILTERS.find(([name]) => name === button.dataset.group);
    button.setAttribute("aria-pressed", String(id === group));
    setText(button.querySelector("b"), String(tasks.filter(matches).length));
  }
  byId("tasks").hidden = shown.length === 0;
  byId("none").hidden = shown.length > 0;
  setText(byId("none-title"), tasks.length ? "None of these" : "No tasks yet");
  setText(byId("none-text"), tasks.length ? "There are tasks in other states." : "Ask something, and it shows up here:");
  byId("none-line").hidden = tasks.length > 0;
  setText(byId("shown"), total > tasks.length ? "the newest " + tasks.length + " of " + total : "");
}

async function refresh() {
  clearTimeout(timer);
  try {
    const response = await sendRequest("GET", "/api/tasks", tag ? { "If-None-Match": tag } : {});
    const date = Date.parse(response.headers.get("Date"));
    // The `Date` header has a resolution of one second.
    clockOffsetMs = Math.abs(date - Date.now()) > 2000 ? date - Date.now() : 0;
    if (response.status === 401 || response.status === 403) {
      tag = null;
      const hadToken = token !== null;
      token = null;
      sessionStorage.removeItem("token");
      showSignIn(response.status === 401);
      showError(hadToken || response.status === 403 ? await errorMessage(response) : "");
      showHealth("wait", "locked");
      return;
    }
    if (response.status === 200) {
      const listing = await response.json();
      tag = response.headers.get("ETag");
      tasks = listing.tasks;
      total = listing.total;
      setText(byId("server"), listing.server);
      showHealth(listing.ready === true ? "good" : "bad", listing.ready === true ? "ready" : "not ready");
      showError(listing.ready === true ? "" : "The server is not ready: " + listing.ready);
      showSignIn(false);
      render();
    } else if (response.status !== 304) {
      throw new Error(await errorMessage(response));
    } else {
      showError(byId("health").dataset.health === "bad" ? byId("trouble").textContent : "");
    }
    pollDelayMs = MIN_POLL_MS;
  } catch (error) {
    tag = null;
    showHealth("bad", "no answer");
    const cause = error instanceof TypeError ? "the connection failed" : error.message;
    showError("The server does not answer (" + cause + "). What is below may be old; trying again.");
    pollDelayMs = Math.min(MAX_POLL_MS, pollDelayMs * 2);
  }
  // A concurrent refresh may have finished first and set the timer.
  clearTimeout(timer);
  if (!document.hidden) timer = setTimeout(refresh, pollDelayMs);
}

async function runAction(id, action) {
  const parts = rows.get(id);
  const buttons = parts ? [parts.cancel, parts.remove] : [];
  for (const button of buttons) button.disabled = true;
  const path = "/api/tasks/" + encodeURIComponent(id);
  let failed = "";
  try {
    const response = action === "cancel" ? await sendRequest("POST", path + "/cancel") : await sendRequest("DELETE", path);
    if (!response.ok) failed = await errorMessage(response);
  } catch {
    failed = "the connection failed";
  }
  for (const button of buttons) button.disabled = false;
  setText(byId("said"), failed ? "" : action === "cancel" ? "The task is canceled." : "The task is deleted.");
  tag = null;
  await refresh();
  if (failed) showError("Could not " + action + " the task: " + failed);
}

function confirmDelete(id) {
  const task = tasks.find((task) => task.id === id);
  const running = task && !task.settled ? " It is stopped first." : "";
  setText(byId("sure-text"), "Its messages and artifacts are gone afterwards." + running);
  taskToDelete = id;
  const dialog = byId("sure");
  dialog.returnValue = "no";
  dialog.showModal();
}

byId("sure").addEventListener("close", () => {
  const dialog = byId("sure");
  // The event fires one frame later. By then the dialog may be open for another task.
  if (dialog.open || taskToDelete === null) return;
  const id = taskToDelete;
  taskToDelete = null;
  if (dialog.returnValue === "yes") runAction(id, "delete");
});

for (const [id, title] of FILTERS) {
  const button = createElement("button", "", title + " ");
  button.type = "button";
  button.dataset.group = id;
  button.appendChild(createElement("b", "", "0"));
  button.addEventListener("click", () => {
    group = id;
    render();
  });
  byId("filters").appendChild(button);
}
setText(byId("example"), "remote-agent send --url " + location.origin + " 'What can you do?'");
byId("copy").addEventListener("click", async () => {
  await navigator.clipboard.writeText(byId("example").textContent);
  setText(byId("said"), "Copied.");
});
byId("sign-in").addEventListener("submit", (event) => {
  event.preventDefault();
  token = byId("token").value.trim();
  byId("token").value = "";
  sessionStorage.setItem("token", token);
  refresh();
});
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) refresh();
});
setInterval(() => {
  for (const task of tasks) {
    const parts = rows.get(task.id);
    if (parts && !task.settled) setText(parts.took, formatDuration(task));
  }
}, 500);
render();
refresh();
