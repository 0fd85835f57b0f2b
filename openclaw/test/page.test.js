import assert from "node:assert/strict";
import { test } from "node:test";

import { page, registerPage } from "../page.js";

const TASK = { target: "desk", taskId: "t-1", state: "working", ageMs: 61_000, lastWord: "reading" };

function registered(scopes = ["operator.read"]) {
  const rows = { targets: () => [], tasks: () => [] };
  const seen = {};
  const api = {
    registerHttpRoute: (route) => void (seen.route = route),
    session: { controls: { registerControlUiDescriptor: (tab) => void (seen.tab = tab) } },
  };
  registerPage(api, rows, async () => scopes);
  return seen;
}

async function answer(route, method) {
  const response = {
    writeHead(status, headers) {
      Object.assign(this, { status, headers });
      return this;
    },
    end(body) {
      this.body = body;
    },
  };
  assert.equal(await route.handler({ method }, response), true);
  return response;
}

test("tab and route share a path behind the gateway's authentication", () => {
  const { route, tab } = registered();
  assert.equal(tab.path, route.path);
  assert.equal(route.auth, "gateway");
  assert.deepEqual(tab.requiredScopes, ["operator.read"]);
});

test("page shows the health of targets that were called", () => {
  const last_success_at = new Date(Date.now() - 120_000).toISOString();
  const health = { calls: 20, failed: 1, p50_ms: 350, last_success_at, retry_after_ms: 20_000 };
  const target = { alias: "desk", url: "https://desk.example/", default: true };
  const html = page([{ ...target, health }, { ...target, alias: "shop" }], []);
  assert.ok(html.includes("refuses calls for 20 s, 1 of 20 failed, half took 350 ms, answered 2 min ago"), html);
  assert.ok(!page([target], []).includes("Last hour"));
});

test("page shows targets and tasks with their age", () => {
  const html = page([{ alias: "desk", url: "https://desk.example/", description: "Answers.", default: true }], [TASK]);
  for (const text of ["desk (default)", "https://desk.example/", "t-1", "working", "1 min", "reading"]) assert.ok(html.includes(text), text);
});

test("open task has the command that cancels it", () => {
  const html = page([], [{ ...TASK, taskId: "t 1" }, { ...TASK, taskId: "t-2", state: "completed" }]);
  assert.ok(html.includes("openclaw remote-agent cancel --target desk --task &#39;t 1&#39;"), html);
  assert.ok(!html.includes("--task t-2"));
});

test("page shows what tasks used only where an agent reports it", () => {
  const usage = { tokens: { total: 1200 }, usd_micros: 12_300, estimated: false };
  const html = page([], [{ ...TASK, usage }, { ...TASK, taskId: "t-2", usage, session: "agent:main:main" }, { ...TASK, taskId: "t-3" }]);
  for (const text of ["<th scope=\"col\">Used</th>", "1200 tokens $0.0123", "Used by desk: 2400 tokens $0.0246", "Used by session agent:main:main: 1200 tokens $0.0123"]) assert.ok(html.includes(text), text);
  assert.ok(!page([], [TASK]).includes("Used"));
});

test("empty page names the next step", () => {
  const html = page([], []);
  assert.match(html, /No task of this gateway is on record/);
  assert.match(html, /openclaw remote-agent add URL/);
});

test("text of an agent stays text", () => {
  const hostile = `<img src=x onerror="alert(1)">' & \u202e\u001b[2J`;
  const html = page([{ alias: hostile, url: hostile, description: hostile }], [{ ...TASK, target: hostile, taskId: hostile, state: hostile, lastWord: hostile }]);
  assert.ok(!html.includes("<img"));
  assert.ok(!/[\u202e\u001b]/.test(html));
  assert.ok(!/class="[^"]*onerror/.test(html));
});

test("long text is bounded", () => {
  assert.ok(page([], [{ ...TASK, lastWord: "x".repeat(1_000_000) }]).length < 5000);
});

test("page has a policy without scripts and is never stored", async () => {
  const { headers, status, body } = await answer(registered().route, "GET");
  assert.equal(status, 200);
  assert.match(headers["content-security-policy"], /^default-src 'none';/);
  assert.ok(!headers["content-security-policy"].includes("script"));
  assert.equal(headers["cache-control"], "no-store");
  assert.match(body, /^<!doctype html>/);
});

test("page refuses other methods", async () => {
  const { status, headers } = await answer(registered().route, "POST");
  assert.equal(status, 405);
  assert.equal(headers.allow, "GET, HEAD");
});

test("page refuses a caller that may not read", async () => {
  assert.equal((await answer(registered(["operator.pairing"]).route, "GET")).status, 403);
  assert.equal((await answer(registered(["operator.write"]).route, "GET")).status, 200);
});

test("text that is cut is cut at whole characters", () => {
  const html = page([], [{ ...TASK, lastWord: `${"\u{1f600}".repeat(250)}x` }]);
  assert.ok(html.includes(`>${"\u{1f600}".repeat(200)}</td>`));
});
