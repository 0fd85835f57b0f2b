"use strict";

// What clients say is data: it is only ever put into a page as text.
const byId = (id) => document.getElementById(id);
const GROUPS = [
  ["all", "All", () => true],
  ["open", "Open", (task) => !task.settled],
  ["done", "Completed", (task) => task.state === "completed"],
  ["bad", "Failed", (task) => task.state === "failed" || task.state === "rejected"],
  ["canceled", "Canceled", (task) => task.state === "canceled"],
];
const SOONEST = 1000;
const LATEST = 10000;

let tasks = [];
let total = 0;
let group = "all";
let tag = null;
let skew = 0;
let wait = SOONEST;
let timer = 0;
let deleting = null;
let token = sessionStorage.getItem("token");
const rows = new Map();

function element(name, className, text) {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

function put(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

async function ask(method, path, headers = {}) {
  const all = { "X-Requested-With": "remote-agent", ...headers };
  if (token) all.Authorization = "Bearer " + token;
  return fetch(path, { method, headers: all, cache: "no-store", credentials: "omit", redirect: "error" });
}

async function why(response) {
  try {
    return (await response.json()).error.message;
  } catch {
    return "the server answered " + response.status;
  }
}

function health(word, text) {
  byId("health").dataset.health = word;
  put(byId("health-text"), text);
}

function trouble(text) {
  byId("trouble").hidden = !text;
  put(byId("trouble"), text || "");
}

function signIn(shown) {
  byId("sign-in").hidden = !shown;
  byId("board").hidden = shown;
}

function took(task) {
  const end = task.settled ? task.changedMs : Date.now() + skew;
  const ms = Math.max(0, end - task.createdMs);
  if (task.settled && ms < 1000) return ms + " ms";
  const s = Math.floor(ms / 1000);
  if (s < 10) return (ms / 1000).toFixed(1) + " s";
  if (s < 60) return s + " s";
  const two = (n) => String(n).padStart(2, "0");
  if (s < 3600) return Math.floor(s / 60) + ":" + two(s % 60) + " min";
  return Math.floor(s / 3600) + ":" + two(Math.floor(s / 60) % 60) + " h";
}

function since(ms) {
  const then = new Date(ms);
  const today = then.toDateString() === new Date().toDateString();
  const time = then.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit" });
  return today ? time : then.toLocaleDateString([], { day: "numeric", month: "short" }) + ", " + time;
}

function makeRow(id) {
  const row = element("tr");
  row.dataset.task = id;
  const cell = (className) => row.appendChild(element("td", className));
  const state = cell("where").appendChild(element("span", "state"));
  const asked = cell("asked");
  const parts = { row, state, asked: asked.appendChild(element("div", "text")) };
  parts.says = asked.appendChild(element("div", "says text"));
  asked.appendChild(element("code", "id", id));
  parts.agent = cell("agent");
  parts.client = cell("client");
  parts.since = cell("since");
  parts.took = cell("took number");
  const actions = cell("do");
  parts.cancel = actions.appendChild(element("button", "cancel", "Cancel"));
  parts.remove = actions.appendChild(element("button", "delete", "Delete"));
  for (const button of [parts.cancel, parts.remove]) button.type = "button";
  parts.cancel.addEventListener("click", () => act(id, "cancel"));
  parts.remove.addEventListener("click", () => confirmDelete(id));
  return parts;
}

function fill(parts, task) {
  if (parts.row.className !== task.state) parts.row.className = task.state;
  put(parts.state, task.state.replace("-", " "));
  put(parts.asked, task.asked || "(no text)");
  put(parts.says, task.says || "");
  parts.says.hidden = !task.says;
  put(parts.agent, task.agent || "default");
  put(parts.client, task.client);
  put(parts.since, since(task.createdMs));
  parts.since.title = new Date(task.createdMs).toISOString();
  put(parts.took, took(task));
  parts.cancel.hidden = task.settled;
  const named = (task.asked || task.id).slice(0, 60);
  parts.cancel.setAttribute("aria-label", "Cancel: " + named);
  parts.remove.setAttribute("aria-label", "Delete: " + named);
}

function draw() {
  const fits = GROUPS.find(([id]) => id === group)[2];
  const shown = tasks.filter(fits);
  const kept = new Set(shown.map((task) => task.id));
  for (const [id, parts] of rows) {
    if (kept.has(id)) continue;
    if (parts.row.contains(document.activeElement)) byId("tasks").focus();
    parts.row.remove();
    rows.delete(id);
  }
  const body = byId("rows");
  shown.forEach((task, i) => {
    let parts = rows.get(task.id);
    if (!parts) rows.set(task.id, (parts = makeRow(task.id)));
    fill(parts, task);
    // A row is only moved when it has to be: moving it would take the focus from its buttons.
    if (body.children[i] !== parts.row) body.insertBefore(parts.row, body.children[i] || null);
  });
  for (const button of byId("filters").children) {
    const [id, , takes] = GROUPS.find(([name]) => name === button.dataset.group);
    button.setAttribute("aria-pressed", String(id === group));
    put(button.querySelector("b"), String(tasks.filter(takes).length));
  }
  byId("tasks").hidden = shown.length === 0;
  byId("none").hidden = shown.length > 0;
  put(byId("none-title"), tasks.length ? "None of these" : "No tasks yet");
  put(byId("none-text"), tasks.length ? "There are tasks in other states." : "Ask something, and it shows up here:");
  byId("none-line").hidden = tasks.length > 0;
  put(byId("shown"), total > tasks.length ? "the newest " + tasks.length + " of " + total : "");
}

async function look() {
  clearTimeout(timer);
  try {
    const response = await ask("GET", "/api/tasks", tag ? { "If-None-Match": tag } : {});
    const date = Date.parse(response.headers.get("Date"));
    // The header counts whole seconds.
    skew = Math.abs(date - Date.now()) > 2000 ? date - Date.now() : 0;
    if (response.status === 401 || response.status === 403) {
      tag = null;
      const known = token !== null;
      token = null;
      sessionStorage.removeItem("token");
      signIn(response.status === 401);
      trouble(known || response.status === 403 ? await why(response) : "");
      health("wait", "locked");
      return;
    }
    if (response.status === 200) {
      const news = await response.json();
      tag = response.headers.get("ETag");
      tasks = news.tasks;
      total = news.total;
      put(byId("server"), news.server);
      health(news.ready === true ? "good" : "bad", news.ready === true ? "ready" : "not ready");
      trouble(news.ready === true ? "" : "The server is not ready: " + news.ready);
      signIn(false);
      draw();
    } else if (response.status !== 304) {
      throw new Error(await why(response));
    } else {
      trouble(byId("health").dataset.health === "bad" ? byId("trouble").textContent : "");
    }
    wait = SOONEST;
  } catch (error) {
    tag = null;
    health("bad", "no answer");
    const said = error instanceof TypeError ? "the connection failed" : error.message;
    trouble("The server does not answer (" + said + "). What is below may be old; trying again.");
    wait = Math.min(LATEST, wait * 2);
  }
  // Another look may have been begun meanwhile, and ended first.
  clearTimeout(timer);
  if (!document.hidden) timer = setTimeout(look, wait);
}

async function act(id, what) {
  const parts = rows.get(id);
  const buttons = parts ? [parts.cancel, parts.remove] : [];
  for (const button of buttons) button.disabled = true;
  const path = "/api/tasks/" + encodeURIComponent(id);
  let failed = "";
  try {
    const response = what === "cancel" ? await ask("POST", path + "/cancel") : await ask("DELETE", path);
    if (!response.ok) failed = await why(response);
  } catch {
    failed = "the connection failed";
  }
  for (const button of buttons) button.disabled = false;
  put(byId("said"), failed ? "" : what === "cancel" ? "The task is canceled." : "The task is deleted.");
  tag = null;
  await look();
  if (failed) trouble("Could not " + what + " the task: " + failed);
}

function confirmDelete(id) {
  const task = tasks.find((one) => one.id === id);
  const running = task && !task.settled ? " It is stopped first." : "";
  put(byId("sure-text"), "Its messages and artifacts are gone afterwards." + running);
  deleting = id;
  const dialog = byId("sure");
  dialog.returnValue = "no";
  dialog.showModal();
}

byId("sure").addEventListener("close", () => {
  const dialog = byId("sure");
  // The event comes a frame late: the dialog may be open again, for another task.
  if (dialog.open || deleting === null) return;
  const id = deleting;
  deleting = null;
  if (dialog.returnValue === "yes") act(id, "delete");
});

for (const [id, title] of GROUPS) {
  const button = element("button", "", title + " ");
  button.type = "button";
  button.dataset.group = id;
  button.appendChild(element("b", "", "0"));
  button.addEventListener("click", () => {
    group = id;
    draw();
  });
  byId("filters").appendChild(button);
}
put(byId("example"), "remote-agent send --url " + location.origin + " 'What can you do?'");
byId("copy").addEventListener("click", async () => {
  await navigator.clipboard.writeText(byId("example").textContent);
  put(byId("said"), "Copied.");
});
byId("sign-in").addEventListener("submit", (event) => {
  event.preventDefault();
  token = byId("token").value.trim();
  byId("token").value = "";
  sessionStorage.setItem("token", token);
  look();
});
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) look();
});
setInterval(() => {
  for (const task of tasks) {
    const parts = rows.get(task.id);
    if (parts && !task.settled) put(parts.took, took(task));
  }
}, 500);
draw();
look();
