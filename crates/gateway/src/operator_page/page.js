"use strict";

// Names and texts of agents are data: the page only ever sets them as text.
const byId = (id) => document.getElementById(id);
const MAX_EVENTS = 200;
const MAX_PROPOSALS = 50;
const FIRST_WAIT = 1000;
const LAST_WAIT = 15000;
// Sessions, and how the gateway runs agents, have no channel of their own.
const SESSIONS_EVERY = 5000;

const agents = new Map();
const proposals = new Map();
let socket = null;
let cursor = null;
let wait = FIRST_WAIT;
let number = 0;
let lateVoter = null;
let key = sessionStorage.getItem("gateway-key");

function element(name, className, text) {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

// A generated id is cut. The whole id is in the title of its cell.
function shortId(text) {
  return text.replace(/^((?:client|sess|prop|msg)-[0-9a-f]{8})-[0-9a-f-]{27}$/, "$1…");
}

function row(className, cells) {
  const made = element("tr", className);
  for (const [name, whole, label] of cells) {
    const cell = element("td", name);
    const content = typeof whole === "string" ? shortId(whole) : whole;
    if (content !== whole) cell.title = whole;
    // The label is visible where the table has no head. A cell without text has none.
    if (label && content !== "") cell.dataset.label = label;
    cell.append(content);
    made.append(cell);
  }
  return made;
}

function health(word, text) {
  byId("health").dataset.health = word;
  byId("health-text").textContent = text;
}

function trouble(text) {
  byId("trouble").hidden = !text;
  byId("trouble").textContent = text || "";
}

function clock(ms) {
  return new Date(ms).toLocaleString([], { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", second: "2-digit" });
}

function send(type, content) {
  number += 1;
  const id = "page-" + number;
  socket.send(JSON.stringify({ type, id, content, timestamp: Date.now() }));
  return id;
}

// How the gateway runs an agent: restarts, the wait for the next start, and the last exit.
function runText(run) {
  if (!run) return "";
  const parts = [run.restarts === 1 ? "1 restart" : run.restarts + " restarts"];
  if (run.startsInMs !== undefined) parts.push("starts in " + Math.ceil(run.startsInMs / 1000) + " s");
  if (run.lastExit) parts.push("ended last: " + run.lastExit);
  return parts.join(", ");
}

// The state of a link to another gateway, since when, and its last error.
function linkText(link) {
  const since = link.since ? " since " + new Date(link.since).toLocaleString() : "";
  const errorTime = link.lastErrorAt ? " at " + new Date(link.lastErrorAt).toLocaleString() : "";
  return "link " + link.name + ": " + link.status + since + (link.lastError ? ", last error" + errorTime + ": " + link.lastError : "");
}

function drawAgents() {
  const isAway = (name) => (agents.get(name).status || "offline") === "offline";
  const names = [...agents.keys()].sort((a, b) => isAway(a) - isAway(b) || (a < b ? -1 : 1));
  // The gateway also lists agents that it knows by name only.
  const isUnused = (name) => isAway(name) && !agents.get(name).sessions && !agents.get(name).backend;
  const rows = names.filter((name) => !isUnused(name)).map((name) => {
    const agent = agents.get(name);
    const status = agent.status || "offline";
    return row(status, [
      ["where", element("span", "state", status)],
      ["name", name],
      ["role", agent.role || ""],
      ["agent", agent.backend || (status === "offline" ? "" : "a client"), "runs in"],
      ["run", runText(agent.run)],
      ["number", agent.sessions === undefined ? "" : String(agent.sessions), "sessions"],
    ]);
  });
  const unused = names.filter(isUnused);
  if (unused.length > 0) {
    const cell = element("td", "unused", "known by name, not connected: " + unused.join(", "));
    cell.colSpan = 5;
    const away = row("offline", [["where", element("span", "state", "offline")]]);
    away.append(cell);
    rows.push(away);
  }
  byId("agent-rows").replaceChildren(...rows);
  const present = names.filter((name) => !isAway(name)).length;
  byId("shown").textContent = present + " of " + names.length + " connected";
}

function drawProposals() {
  const rows = [...proposals.values()].reverse().map((proposal) => {
    const votes = element("span", "votes");
    for (const [member, vote] of proposal.votes) {
      const line = element("div", vote);
      line.append(element("span", "state", member + " " + vote));
      votes.append(line);
    }
    for (const [member, vote] of proposal.late) votes.append(element("div", "late", member + " " + vote + ", after the decision"));
    const named = element("div");
    if (proposal.text) named.append(element("div", "text", proposal.text));
    named.append(element("code", "id", proposal.id));
    return row(proposal.state, [
      ["where", element("span", "state", proposal.state)],
      ["asked", named],
      ["client", proposal.by, "by"],
      ["votes", votes],
      ["since", clock(proposal.time)],
    ]);
  });
  byId("proposal-rows").replaceChildren(...rows);
}

function onProposal(event) {
  const id = event.proposalId;
  if (!id) return;
  if (!proposals.has(id)) {
    proposals.set(id, { id, by: "", time: event.time, votes: new Map(), late: new Map(), state: "open" });
    if (proposals.size > MAX_PROPOSALS) proposals.delete(proposals.keys().next().value);
  }
  const proposal = proposals.get(id);
  if (event.happened === "proposal") {
    proposal.by = event.from || "";
    proposal.text = event.text;
  }
  if (event.happened === "vote") proposal.votes.set(event.from, event.vote);
  if (event.happened === "late-vote" && !proposal.votes.has(event.from)) proposal.late.set(event.from, event.vote);
  if (event.happened === "decision") proposal.state = event.result;
  drawProposals();
}

function eventText(event) {
  if (event.happened === "late-vote") return event.vote + ": the vote of " + event.from + " came after the decision and does not count";
  if (event.happened === "refused") return [event.type, event.error].filter(Boolean).join(": ");
  return event.text || event.error || event.vote || event.result || "";
}

function onEvent(event) {
  cursor = event.cursor || cursor;
  if (["proposal", "vote", "late-vote", "decision"].includes(event.happened)) onProposal(event);
  if (event.happened === "late-vote") lateVoter = event.from;
  // The gateway also refuses a late vote. The row of the vote has said so.
  const isLateVote = event.happened === "refused" && event.type === "vote" && event.from === lateVoter;
  if (event.happened !== "late-vote") lateVoter = null;
  if (isLateVote) return;
  const missed = event.missed ? event.missed + " events are missing before this one. " : "";
  const rows = byId("event-rows");
  rows.prepend(row(event.happened, [
    ["since", clock(event.time)],
    ["name", event.happened === "late-vote" ? "vote" : event.happened],
    ["client", event.from || "", "from"],
    ["agent", event.to || event.proposalId || "", event.to ? "to" : "proposal"],
    ["agent", event.sessionId || "", "session"],
    ["asked", missed + eventText(event)],
  ]));
  while (rows.children.length > MAX_EVENTS) rows.lastChild.remove();
}

function subscribe() {
  const content = { channel: "gateway:events", content: byId("texts").checked };
  // Without a known cursor, the gateway sends the recent events.
  content.after = cursor || "none";
  send("subscribe", content);
}

function onMessage(message) {
  const content = message.content || {};
  switch (message.type) {
    case "ping":
      socket.send(JSON.stringify({ type: "pong", id: "page-pong", parentId: message.id, content: {}, timestamp: Date.now() }));
      break;
    case "auth-response":
      if (content.status === "ok") greet();
      else refuse(content.error || content.message || "the gateway refused the key");
      break;
    case "handshake":
      if (content.action !== "acknowledge") break;
      wait = FIRST_WAIT;
      health("good", "connected");
      trouble("");
      byId("sign-in").hidden = true;
      byId("boards").hidden = false;
      byId("server").textContent = location.host + " · a2a-v1 " + (content.protocolVersion || "");
      send("discovery", { action: "list" });
      send("workspace", { action: "list" });
      send("subscribe", { channel: "agent:status" });
      subscribe();
      break;
    case "discovery":
      for (const agent of content.agents || []) agents.set(agent.name, { ...agents.get(agent.name), ...agent });
      drawAgents();
      byId("links").textContent = (content.links || []).map(linkText).join("; ");
      break;
    case "workspace":
      for (const { agent, sessions } of content.workspaces || []) agents.set(agent, { ...agents.get(agent), sessions });
      drawAgents();
      break;
    case "status":
      if (!content.agent) break;
      agents.set(content.agent, { ...agents.get(content.agent), status: content.status });
      drawAgents();
      break;
    case "event":
      if (content.channel === "gateway:events") onEvent(content);
      break;
    case "subscribe":
      if (cursor) cursor = content.cursor || cursor;
      break;
    case "error":
      if (content.code === 5001 || content.code === 5002 || content.code === 5003) refuse(content.error || content.message);
      else trouble("The gateway refused a request: " + (content.error || content.message || content.code));
      break;
  }
}

// Shows the form for a key. The connection is not opened again until the operator enters one.
function refuse(why) {
  const known = key !== null;
  key = null;
  sessionStorage.removeItem("gateway-key");
  byId("sign-in").hidden = false;
  byId("boards").hidden = true;
  trouble(known ? why : "");
  health("wait", "locked");
  const refused = socket;
  socket = null;
  refused.close();
}

function greet() {
  const capabilities = { supportedMessageTypes: ["status", "event", "error"], supportedAgents: [], version: "1.0.0" };
  send("handshake", { action: "advertise", capabilities });
}

function connect() {
  const opened = new WebSocket(location.origin.replace(/^http/, "ws") + "/", "a2a-v1");
  socket = opened;
  opened.addEventListener("open", () => {
    if (key) send("auth", { token: key });
    else greet();
  });
  opened.addEventListener("message", ({ data }) => {
    if (socket !== opened) return;
    let message;
    try {
      message = JSON.parse(data);
    } catch {
      return;
    }
    onMessage(message);
  });
  opened.addEventListener("close", () => {
    if (socket !== opened) return;
    socket = null;
    health("bad", "no connection");
    trouble("The connection to the gateway is lost. What is below may be old; connecting again.");
    setTimeout(connect, wait);
    wait = Math.min(LAST_WAIT, wait * 2);
  });
}

byId("texts").addEventListener("change", () => {
  if (socket && socket.readyState === WebSocket.OPEN) subscribe();
});
byId("sign-in").addEventListener("submit", (event) => {
  event.preventDefault();
  key = byId("token").value.trim();
  byId("token").value = "";
  sessionStorage.setItem("gateway-key", key);
  trouble("");
  connect();
});
setInterval(() => {
  if (socket && socket.readyState === WebSocket.OPEN && !document.hidden && !byId("boards").hidden) {
    send("workspace", { action: "list" });
    send("discovery", { action: "list" });
  }
}, SESSIONS_EVERY);
connect();
