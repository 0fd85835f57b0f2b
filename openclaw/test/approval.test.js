import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { Grants, approvalHook } from "../approval.js";
import { DelegatedTasks } from "../tasks.js";

const text = { type: "string" };
const parameters = {
  properties: {
    action: text,
    target_alias: text,
    target_url: text,
    target_aliases: { items: text },
    task_handle: text,
    continuation: { properties: { target: { properties: { target_alias: text } } } },
    parts: { items: { properties: { kind: text, text } } },
  },
};
const desk = (more) => ({ alias: "desk", baseUrl: "https://desk.example/a?key=secret", ...more });
const open = { alias: "open", baseUrl: "https://open.example" };
const send = (more) => ({ params: { action: "send", parts: [{ kind: "text", text: "Pay\nthe invoice" }], ...more } });
const stateDir = () => mkdtempSync(join(tmpdir(), "approval-"));

const at = (url, alias) => ({ continuation: { target: { target_url: url, target_alias: alias } } });

/** The tasks of the calls that `targets` name as `{ alias, url, id, handle }`. */
function delegated(...targets) {
  const tasks = new DelegatedTasks();
  for (const { alias, url, id, handle } of targets) tasks.observe({ ok: true, summary: { continuation: { target: { target_alias: alias, target_url: url }, task: { task_id: id, task_handle: handle } } } });
  return tasks;
}

function hook(targets, { dir = stateDir(), tasks, ...settings } = {}) {
  return approvalHook({ targets, ...settings }, parameters, { grants: new Grants(dir), tasks });
}

test("without a mode there is no hook", () => {
  assert.equal(hook([open]), undefined);
});

test("a send is asked about with target, origin and first words", () => {
  const { requireApproval } = hook([desk({ approval: "always" })])(send({ target_alias: "desk" }), { agentId: "main" });
  assert.equal(requireApproval.title, "Send to desk");
  assert.equal(requireApproval.description, "Agent main sends to desk at https://desk.example: Pay the invoice");
  assert.deepEqual(requireApproval.allowedDecisions, ["allow-once", "deny"]);
  assert.match(requireApproval.timeoutReason, /^The message to desk was not sent: .* expired .* send it again/);
});

test("other actions and other targets are not asked about", () => {
  const ask = hook([desk({ approval: "always" }), open]);
  assert.equal(ask({ params: { action: "status", target_alias: "desk" } }, {}), undefined);
  assert.equal(ask(send({ target_alias: "open" }), {}), undefined);
});

test("a message to several targets has one question, with every target", () => {
  const law = { alias: "law", baseUrl: "https://law.example", approval: "first" };
  const ask = hook([desk({ approval: "always" }), law, open]);
  const { requireApproval } = ask(send({ target_aliases: ["desk", "open", "law"] }), { agentId: "main" });
  assert.equal(requireApproval.title, "Send to desk, open, law");
  assert.deepEqual(requireApproval.scope.recipients, ["desk", "open", "law"]);
  assert.deepEqual(requireApproval.allowedDecisions, ["allow-once", "deny"]);
  assert.equal(ask(send({ target_aliases: ["open"] }), {}), undefined);
  assert.ok(hook([desk({ approval: "deny" }), open])(send({ target_aliases: ["open", "desk"] }), {}).block);
  assert.ok(ask(send({ targetAliases: ["open", "desk"] }), {}).requireApproval);
});

test("the continuation of a group is text for each target whose task no result contains", () => {
  const target = { target_alias: "desk", target_url: "https://desk.example/a?key=secret", card_path: CARD };
  const about = (task_id) => ({ params: { action: "watch", continuation: { group: { id: "g", members: [{ target, task: { task_id } }] } } } });
  const tasks = new DelegatedTasks();
  const member = { target_alias: "desk", state: "working", summary: { continuation: { target, task: { task_id: "7" } } } };
  tasks.observe({ ok: true, summary: { group: { id: "g", mode: "all", results: [member] } } });
  const ask = hook([desk({ approval: "always" }), open], { tasks });
  assert.equal(ask(about("7"), {}), undefined);
  assert.ok(isStopped(ask(about("the plan: 42"), {})));
  assert.ok(isStopped(hook([desk({ approval: "deny" })])(about("the plan: 42"), {})));
  assert.ok(isStopped(hook([desk({ approval: "deny" })])({ params: { action: "watch", continuation: { group: { members: "x" } } } }, {})));
});

test("a question about a group shows the ids that leave for every member", () => {
  const target = { target_alias: "desk", target_url: "https://desk.example/a?key=secret", card_path: CARD };
  const members = ["plan 1", "plan 2"].map((id) => ({ target, task: { task_id: id }, conversation: { context_id: `talk about ${id}` } }));
  const about = (members) => hook([desk({ approval: "always" })])({ params: { action: "cancel", continuation: { group: { id: "g", members } } } }, {}).requireApproval.description;
  assert.ok(about(members).endsWith("[cancel] [task plan 1] [task plan 2] [context talk about plan 1] [context talk about plan 2]"), about(members));
  const many = about(Array.from({ length: 40 }, (_, index) => ({ target, task: { task_id: `${index}${"x".repeat(100)}` } })));
  assert.ok(many.length <= 512 && /\[cancel\] \[task 0x.*\[and \d\d more\]$/.test(many), many);
});

test("a question names every target of a message, or is not asked", () => {
  const group = (count, name) => {
    const targets = Array.from({ length: count }, (_, index) => desk({ alias: name(index), baseUrl: `https://host-${index}.example/a`, approval: "always" }));
    return hook(targets)(send({ target_aliases: targets.map(({ alias }) => alias) }), { agentId: "main" });
  };
  const few = group(7, (index) => `department-${index}`).requireApproval;
  assert.equal(few.title, "Send to 7 targets");
  for (let index = 0; index < 7; index += 1) assert.ok(few.description.includes(`[to department-${index} at https://host-${index}.example]`), few.description);
  const { description } = group(10, (index) => `department-${index}`).requireApproval;
  for (let index = 0; index < 10; index += 1) assert.ok(description.includes(`department-${index}`), description);
  for (const text of [few.description, description]) assert.ok(text.length <= 512 && text.includes("Pay the invoice"), text);
  assert.match(group(10, (index) => `${index}${"x".repeat(40)}`).blockReason, /no room for the names of all 10 targets/);
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
  const ask = hook([desk({ approval: "always" }), open], { tasks: delegated({ alias: "open", url: open.baseUrl, id: "t", handle: "rah_open" }) });
  assert.equal(ask(send({ task_handle: "rah_open" }), {}), undefined);
  assert.ok(ask(send({ task_handle: "rah_other" }), {}));
});

test("an unknown handle is asked about with every target", () => {
  const dir = stateDir();
  const targets = [{ ...open, approval: "first" }, desk({ approval: "first" })];
  const named = hook(targets, { dir })(send({ target_alias: "open" }), {});
  named.requireApproval.onResolution("allow-always");
  const { requireApproval } = hook(targets, { dir, tasks: delegated() })(send({ task_handle: "rah_other" }), {});
  assert.match(requireApproval.description, /sends to open or desk at https:\/\/open.example or https:\/\/desk.example: /);
  assert.deepEqual([requireApproval.allowedDecisions, requireApproval.scope.recipients], [["allow-once", "deny"], ["open", "desk"]]);
});

test("the URL of a continuation decides, not an alias elsewhere", () => {
  const dir = stateDir();
  const targets = [{ ...open, approval: "first" }, desk({ approval: "first" })];
  hook(targets, { dir })(send({ target_alias: "open" }), {}).requireApproval.onResolution("allow-always");
  const { requireApproval } = hook(targets, { dir })(send(at("https://desk.example/a", "open")), {});
  assert.match(requireApproval.description, /sends to desk at https:\/\/desk.example: /);
});

test("the alias of a continuation chooses among targets at its URL", () => {
  const ask = hook([{ ...open, alias: "strict", approval: "always" }, open]);
  assert.equal(ask(send(at(open.baseUrl, "open")), {}), undefined);
  assert.ok(ask(send(at(open.baseUrl, "elsewhere")), {}));
});

test("a continuation of another URL is asked about", () => {
  const { requireApproval } = hook([desk({ approval: "first" }), open])(send(at("https://evil.example/x", "open")), {});
  assert.match(requireApproval.description, /at https:\/\/evil.example: /);
  assert.deepEqual(requireApproval.allowedDecisions, ["allow-once", "deny"]);
});

test("a continuation of a local gateway is not asked about", () => {
  const target = { target_url: "http://127.0.0.1:18789", target_alias: "gateway:desk", preferred_transports: ["GATEWAY"] };
  assert.equal(hook([desk({ approval: "deny" })])(send({ continuation: { target } }), {}), undefined);
});

test("a restart does not change the target of a continuation", () => {
  const continuation = { ...at(open.baseUrl, "open").continuation, task: { task_id: "t", task_handle: "rah_old" } };
  assert.equal(hook([desk({ approval: "deny" }), open], { tasks: delegated() })(send({ continuation }), {}), undefined);
});

test("camelCase, a URL and a continuation do not avoid the question", () => {
  const ask = hook([desk({ approval: "always" }), open]);
  assert.ok(ask(send({ targetAlias: "desk" }), {}));
  assert.ok(ask(send({ target_url: "https://desk.example/a?key=secret" }), {}));
  assert.ok(ask(send({ target_alias: "open", continuation: { target: { target_alias: "desk" } } }), {}));
});

test("another spelling of a URL is the same target", () => {
  const ask = hook([desk({ approval: "deny" }), open]);
  for (const url of ["https://DESK.example:443/a", "https://desk.example/x/../a//", "https://desk.example/a/?other#x"]) {
    assert.ok(ask(send({ target_url: url }), {}).block, url);
    assert.ok(ask(send(at(url, "open")), {}).block, url);
  }
});

test("an unknown URL at the origin of a denied target is denied", () => {
  assert.ok(hook([desk({ approval: "deny" }), open])(send({ target_url: "https://desk.example/%61" }), {}).block);
});

test("headers and unknown task ids need the approval of a send", () => {
  const ask = hook([desk({ approval: "always" }), open], { tasks: delegated({ alias: "desk", url: "https://desk.example/a/", id: "t-1" }, { alias: "open", url: open.baseUrl, id: "t-2" }) });
  const status = (more) => ask({ params: { action: "status", target_alias: "desk", ...more } }, {});
  assert.equal(status({ task_id: "t-1" }), undefined);
  assert.equal(ask({ params: { action: "cancel", target_alias: "open", task_id: "secret" } }, {}), undefined);
  assert.match(status({ task_id: "t-2" }).requireApproval.description, /: \[status\] \[task t-2\]$/);
  assert.match(status({ task_id: "t-1", service_parameters: { "x-note": "secret" } }).requireApproval.description, /\[service_parameters x-note \(19 characters\)\]/);
  assert.equal(ask({ params: { action: "list_targets" } }, {}), undefined);
});

const CARD = "/.well-known/agent-card.json";
const MODES = ["first", "always", "deny"];
const isStopped = (answer) => Boolean(answer?.block ?? answer?.requireApproval);

/** A call of another action than `send` with a continuation of the target. */
const follow = (action, target) => ({ params: { action, continuation: { target: { preferred_transports: ["JSONRPC"], card_path: CARD, ...target }, task: { task_id: "t" } } } });

test("a place other than the configured one is text", () => {
  const url = "https://desk.example/a";
  const tasks = delegated({ alias: "desk", url, id: "t" });
  const places = [
    { target_url: url, card_path: "/x?PRIVATE text" },
    { target_url: url, card_path: "/PRIVATE text", target_alias: "elsewhere" },
    { target_url: url, card_path: `${CARD}#PRIVATE` },
    { target_url: url, card_path: CARD.toUpperCase() },
    { target_url: "https://desk.example/PRIVATE%20text" },
    { target_url: "https://desk.example/a/PRIVATE" },
    { target_url: "https://PRIVATE.desk.example/a" },
    { target_url: "https://desk.example:8443/a" },
  ];
  for (const approval of MODES)
    for (const action of ["status", "watch", "cancel"])
      for (const place of places) assert.ok(isStopped(hook([desk({ approval, baseUrl: url }), open], { tasks })(follow(action, place), {})), `${approval} ${action} ${JSON.stringify(place)}`);
});

test("the configured place is no text", () => {
  const url = "https://desk.example/a";
  const tasks = delegated({ alias: "desk", url, id: "t" });
  const ask = hook([desk({ approval: "deny", baseUrl: url }), open], { tasks });
  const cards = hook([desk({ approval: "deny", baseUrl: url, cardPath: "/own.json" }), open], { tasks });
  const defaults = hook([desk({ approval: "deny", baseUrl: url }), open], { tasks, defaults: { cardPath: "/default.json" } });
  for (const action of ["status", "watch", "cancel"]) {
    assert.equal(ask(follow(action, { target_url: url }), {}), undefined);
    assert.equal(ask(follow(action, { target_url: url, target_alias: "desk", card_path: "/ignored by the library" }), {}), undefined);
    assert.equal(cards(follow(action, { target_url: url, card_path: "/own.json" }), {}), undefined);
    assert.equal(defaults(follow(action, { target_url: url, card_path: "/default.json" }), {}), undefined);
    assert.ok(isStopped(defaults(follow(action, { target_url: url }), {})));
  }
});

test("without normalized URLs another spelling is another place", () => {
  const url = "https://desk.example/a";
  const ask = hook([desk({ approval: "deny", baseUrl: url }), open], { tasks: delegated({ alias: "desk", url, id: "t" }), policy: { normalizeBaseUrl: false } });
  assert.equal(ask(follow("status", { target_url: url }), {}), undefined);
  assert.ok(ask(follow("status", { target_url: `${url}//` }), {}).block);
});

test("a place that an earlier result contains is no text, and the question shows any other", () => {
  const place = { target_url: "https://new.example/x", card_path: "/card.json" };
  const tasks = new DelegatedTasks();
  tasks.observe({ ok: true, summary: { continuation: { target: place, task: { task_id: "t" } } } });
  const ask = hook([desk({ approval: "always" }), open], { tasks });
  assert.equal(ask(follow("status", place), {}), undefined);
  assert.match(ask(follow("status", { ...place, card_path: "/PRIVATE" }), {}).requireApproval.description, /\[status\] \[at https:\/\/new.example\/x\] \[at \/PRIVATE\]/);
});

test("a denied address is denied in every spelling", () => {
  const spellings = {
    "http://127.0.0.1:9/": ["http://[::ffff:127.0.0.1]:9/x", "http://[::FFFF:7F00:1]:9/x", "http://[0:0:0:0:0:ffff:127.0.0.1]:9/x", "http://[64:ff9b::127.0.0.1]:9/x", "http://2130706433:9/x", "http://0x7f.1:9/x", "http://0177.0.0.1:9/x", "http://127.1:9/x", "http://127.0.0.1.:9/x", "http://localhost:9/x", "http://LOCALHOST.:9/x", "http://a.localhost:9/x", "http://[::1]:9/x", "http://0.0.0.0:9/x", "http://[::]:9/x", "http://127.0.0.2:9/x", "http://u:p@127.0.0.1:9/x", "http://\uff11\uff12\uff17.0.0.1:9/x", "http:127.0.0.1:9/x"],
    "http://[::ffff:192.0.2.1]/": ["http://192.0.2.1/x", "http://192.0.2.1:80/x", "http://3221225985/x", "http://[::ffff:c000:201]/x"],
    "https://[2001:db8::1]/": ["https://[2001:DB8:0:0:0:0:0:1]:443/x", "https://[2001:0db8::0001]/x"],
    "https://b\u00fccher.example/": ["https://xn--bcher-kva.example/x", "https://B\u00dcCHER.example./x", "https://b%C3%BCcher.example/x", "https://b\u00fccher\u3002example:443/x"],
  };
  for (const [baseUrl, others] of Object.entries(spellings))
    for (const url of others) assert.ok(hook([desk({ approval: "deny", baseUrl }), open])(send({ target_url: url }), {})?.block, `${baseUrl} ${url}`);
  assert.ok(!hook([desk({ approval: "deny", baseUrl: "http://127.0.0.1:9/" }), open])(send({ target_url: "http://127.0.0.1:8/" }), {}).block);
});

test("a prototype does not change the target", () => {
  const ask = hook([desk({ approval: "deny", default: true }), open]);
  const inherited = (prototype, own) => Object.assign(Object.create(prototype), own);
  assert.ok(ask({ params: inherited({ target_alias: "open" }, send().params) }, {}).block);
  assert.ok(ask({ params: JSON.parse('{"action":"send","parts":[],"__proto__":{"target_alias":"open"}}') }, {}).block);
});

test("a long path of slashes takes no time", () => {
  assert.ok(hook([desk({ approval: "always" })])(send({ target_url: `https://desk.example${"/".repeat(2_000_000)}x` }), {}));
});

test("a removed file revokes the grants", () => {
  const dir = stateDir();
  const ask = hook([desk({ approval: "first" })], { dir });
  ask(send(), {}).requireApproval.onResolution("allow-always");
  assert.equal(ask(send(), {}), undefined);
  rmSync(join(dir, "remote-agent/approvals.json"));
  assert.ok(ask(send(), {}));
});

test("a question shows files by path, before the text", () => {
  const parts = [{ kind: "text", text: "Weekly summary. ".repeat(40) }, { kind: "file", path: ".env", name: "cat.png" }];
  const { description } = hook([desk({ approval: "always" })])(send({ parts }), {}).requireApproval;
  assert.match(description, /: \[file .env as cat.png\] Weekly summary.*… \(339 more characters\)$/);
});

test("a question shows data, metadata keys and the callback", () => {
  const parts = [{ kind: "data", data: { k: "v" }, metadata: { note: 1 } }];
  const more = { parts, metadata: { key: "v" }, push_notification_config: { url: "https://evil.example/x?y" } };
  const { description } = hook([desk({ approval: "always" })])(send(more), {}).requireApproval;
  assert.ok(description.endsWith('[callback https://evil.example] [metadata key (11 characters)] [metadata note (10 characters)] {"k":"v"}'), description);
});

test("a question says how many files it has no room for", () => {
  const parts = Array.from({ length: 40 }, (_, index) => ({ kind: "file", path: `${"long/".repeat(30)}${index}.txt` }));
  const { description } = hook([desk({ approval: "always" })])(send({ parts: [...parts, { kind: "text", text: "x".repeat(5000) }] }), {}).requireApproval;
  assert.ok(description.length <= 512, description);
  assert.match(description, /0.txt\] .*\[and 3\d more\] x+… \(49\d\d more characters\)$/);
});

test("fields of the wrong type do not break the question", () => {
  const ask = hook([desk({ approval: "always", default: true })]);
  for (const more of [{ continuation: null }, { continuation: 5 }, { metadata: null }, { metadata: 5 }, { parts: [null, 5, { kind: "file" }] }, { task_handle: {} }]) assert.ok(ask(send(more), {}), JSON.stringify(more));
});

test("the default target is asked about when none is named", () => {
  assert.equal(hook([desk({ approval: "always" }), { ...open, default: true }])(send(), {}), undefined);
  assert.ok(hook([desk({ approval: "always", default: true }), open])(send(), {}));
});

test("a long message is cut and control characters are removed", () => {
  const { requireApproval } = hook([desk({ approval: "always" })])(send({ parts: [{ kind: "text", text: `\u202e${"x".repeat(5000)}` }] }), {});
  assert.ok(requireApproval.description.length <= 512 && !requireApproval.description.includes("\u202e"));
});

test("a request that cannot be read is blocked, not passed", () => {
  const ask = hook([desk({ approval: "always" })]);
  const hostile = { toString: 5, valueOf: 5 };
  for (const more of [{ push_notification_config: { url: hostile } }, { parts: [{ kind: "file", path: hostile }] }, { parts: [{ kind: "file", bytes: hostile }] }]) assert.ok(isStopped(ask(send(more), {})), JSON.stringify(more));
  let deep = {};
  for (let depth = 0; depth < 100_000; depth += 1) deep = { deep };
  assert.ok(ask(send({ metadata: deep }), {}).block);
});

test("grants are not written through a link", { skip: process.platform === "win32" }, () => {
  const dir = stateDir();
  const grants = new Grants(dir);
  grants.add("x");
  writeFileSync(join(dir, "other"), "other");
  symlinkSync(join(dir, "other"), join(dir, "remote-agent/approvals.json.new"));
  grants.add("y");
  assert.equal(readFileSync(join(dir, "other"), "utf8"), "other");
  assert.ok(grants.has("y"));
});

test("targets that are none are ignored", () => {
  for (const targets of [{}, "x", 5, [null], [5]]) assert.equal(hook(targets), undefined);
  assert.ok(hook([null, desk({ approval: "deny" })])(send({ target_alias: "desk" }), {}).block);
});
