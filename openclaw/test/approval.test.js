import assert from "node:assert/strict";
import { mkdtempSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { Grants, approvalHook } from "../approval.js";

const text = { type: "string" };
const parameters = {
  properties: {
    action: text,
    target_alias: text,
    target_url: text,
    task_handle: text,
    continuation: { properties: { target: { properties: { target_alias: text } } } },
    parts: { items: { properties: { kind: text, text } } },
  },
};
const desk = (more) => ({ alias: "desk", baseUrl: "https://desk.example/a?key=secret", ...more });
const open = { alias: "open", baseUrl: "https://open.example" };
const send = (more) => ({ params: { action: "send", parts: [{ kind: "text", text: "Pay\nthe invoice" }], ...more } });
const stateDir = () => mkdtempSync(join(tmpdir(), "approval-"));

function hook(targets, { dir = stateDir(), tasks } = {}) {
  return approvalHook({ targets }, parameters, { grants: new Grants(dir), tasks });
}

test("without a mode there is no hook", () => {
  assert.equal(hook([open]), undefined);
});

test("a send is asked about with target, origin and first words", () => {
  const { requireApproval } = hook([desk({ approval: "always" })])(send({ target_alias: "desk" }), { agentId: "main" });
  assert.equal(requireApproval.title, "Send to desk");
  assert.equal(requireApproval.description, "Agent main sends to desk at https://desk.example: Pay the invoice");
  assert.deepEqual(requireApproval.allowedDecisions, ["allow-once", "deny"]);
});

test("other actions and other targets are not asked about", () => {
  const ask = hook([desk({ approval: "always" }), open]);
  assert.equal(ask({ params: { action: "status", target_alias: "desk" } }, {}), undefined);
  assert.equal(ask(send({ target_alias: "open" }), {}), undefined);
});

test("a denied target blocks with a next step", () => {
  const { block, blockReason } = hook([desk({ approval: "deny" })])(send(), {});
  assert.ok(block && blockReason.includes("does not allow sending to desk"));
});

test("a lasting decision is remembered for the agent, the target and its origin", () => {
  const dir = stateDir();
  const first = desk({ approval: "first" });
  hook([first], { dir })(send(), { agentId: "main" }).requireApproval.onResolution("allow-always");
  assert.equal(hook([first], { dir })(send(), { agentId: "main" }), undefined);
  assert.ok(hook([first], { dir })(send(), { agentId: "other" }));
  assert.ok(hook([desk({ approval: "first", baseUrl: "https://evil.example" })], { dir })(send(), { agentId: "main" }));
  assert.equal(statSync(join(dir, "remote-agent/approvals.json")).mode & 0o777, 0o600);
});

test("other decisions are not remembered", () => {
  const dir = stateDir();
  for (const decision of ["allow-once", "deny", "timeout", "cancelled"]) {
    hook([desk({ approval: "first" })], { dir })(send(), {}).requireApproval.onResolution(decision);
  }
  assert.ok(hook([desk({ approval: "first" })], { dir })(send(), {}));
});

test("a damaged file asks again", () => {
  const dir = stateDir();
  const grants = new Grants(dir);
  grants.add("x");
  writeFileSync(join(dir, "remote-agent/approvals.json"), "{");
  assert.equal(new Grants(dir).has("x"), false);
});

test("a handle leads to its target, and an unknown one to the strictest", () => {
  const ask = hook([desk({ approval: "always" }), open], { tasks: { targetOf: (handle) => (handle === "rah_open" ? "open" : undefined) } });
  assert.equal(ask(send({ task_handle: "rah_open" }), {}), undefined);
  assert.ok(ask(send({ task_handle: "rah_other" }), {}));
});

test("camelCase, a URL and a continuation do not avoid the question", () => {
  const ask = hook([desk({ approval: "always" }), open]);
  assert.ok(ask(send({ targetAlias: "desk" }), {}));
  assert.ok(ask(send({ target_url: "https://desk.example/a?key=secret" }), {}));
  assert.ok(ask(send({ target_alias: "open", continuation: { target: { target_alias: "desk" } } }), {}));
});

test("another spelling of a URL does not avoid the question", () => {
  const { requireApproval } = hook([desk({ approval: "deny" }), open])(send({ target_url: "https://DESK.example:443/%61" }), {});
  assert.match(requireApproval.description, /at https:\/\/desk.example: /);
});

test("the default target is asked about when none is named", () => {
  assert.equal(hook([desk({ approval: "always" }), { ...open, default: true }])(send(), {}), undefined);
  assert.ok(hook([desk({ approval: "always", default: true }), open])(send(), {}));
});

test("a long message is cut and control characters are removed", () => {
  const { requireApproval } = hook([desk({ approval: "always" })])(send({ parts: [{ kind: "text", text: `\u202e${"x".repeat(5000)}` }] }), {});
  assert.ok(requireApproval.description.length <= 512 && !requireApproval.description.includes("\u202e"));
});
