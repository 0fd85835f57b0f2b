import assert from "node:assert/strict";
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { findTarget } from "../find-agents.js";

const TARGET = { baseUrl: "https://harbour.example/agents/pilot", cardUrl: "https://harbour.example/agents/pilot/.well-known/agent-card.json" };
const agent = (number, more = {}) => ({ number, name: `agent ${number}`, catalog: "https://harbour.example/.well-known/ard.json", interfaces: ["https://harbour.example"], odd: [], target: TARGET, inline: false, text: `${number}. agent ${number}`, ...more });
const list = (agents, more = {}) => ({ agents, left: 0, others: 0, registries: [], problems: [], ...more });

/** Runs `findTarget` where a search finds `found`, and a person gives `answers`. */
async function find(t, given, { found, options = {}, answers = [] } = {}) {
  const printed = [];
  for (const stream of [process.stdout, process.stderr]) {
    const { write } = stream;
    t.mock.method(stream, "write", (text, ...rest) => (typeof text === "string" ? printed.push(text) > 0 : write.call(stream, text, ...rest)));
  }
  const queries = [];
  const open = async () => ({ findAgents: async (query) => (queries.push(query), found), close() {} });
  try {
    const target = await findTarget({ options }, given, { open, person: async () => answers.shift() ?? "" });
    return { target, queries, text: printed.join("") };
  } finally {
    t.mock.restoreAll();
  }
}

test("the base URL or the card of an agent needs no search", async (t) => {
  for (const url of ["https://a.example/x", "https://a.example/x/.well-known/agent-card.json", "https://a.example/x/.well-known/agent.json"]) {
    const { target, queries } = await find(t, url);
    assert.deepEqual([target, queries], [{ baseUrl: "https://a.example/x" }, []]);
  }
});

test("the card of an agent with a query is read where it is", async (t) => {
  for (const [path, base] of [["/x/.well-known/agent-card.json", "/x"], ["/.well-known/agent.json", ""], ["/cards/agent.json", "/cards"]]) {
    const cardUrl = `https://a.example${path}?assistant_id=1.json`;
    const { target, queries } = await find(t, cardUrl);
    assert.deepEqual([target, queries], [{ baseUrl: `https://a.example${base}`, cardUrl }, []]);
  }
});

test("a domain, a document and a registry are searched", async (t) => {
  const found = list([agent(1)]);
  for (const [given, options, query] of [
    ["harbour.example", {}, { place: "harbour.example" }],
    ["127.0.0.1:7801", { allowPrivate: true }, { place: "127.0.0.1:7801" }],
    ["https://harbour.example/list.json", {}, { place: "https://harbour.example/list.json" }],
    [undefined, { search: "berth", registry: "https://r.example" }, { place: "https://r.example", search: "berth" }],
  ]) {
    const { queries, target } = await find(t, given, { found, options: { pick: "1", ...options } });
    assert.deepEqual(queries, [{ ...query, pick: "1", allowPrivate: options.allowPrivate === true }]);
    assert.deepEqual(target, TARGET);
  }
});

test("a file with a card is added without a pick", async (t) => {
  const file = join(mkdtempSync(join(tmpdir(), "card-")), "card.json");
  writeFileSync(file, "{}");
  const { target, queries } = await find(t, file, { found: list([agent(1)]) });
  assert.deepEqual([queries[0].file, target], [file, TARGET]);
});

test("a list without a pick adds nothing, and says how to pick", async (t) => {
  const found = list([agent(1), agent(2)], { left: 3, others: 1, registries: ["https://r.example"], problems: ["x: \u001b[2Jgone"] });
  const { target, text } = await find(t, "harbour.example", { found });
  assert.equal(target, undefined);
  for (const part of ["1. agent 1", "2. agent 2", "and 3 more", "and 1 that are no A2A agents", "--registry https://r.example", "warn: x: [2Jgone", "--pick NUMBER"]) assert.ok(text.includes(part), text);
});

test("a person picks by number", async (t) => {
  const other = { baseUrl: "https://b.example" };
  const found = list([agent(1), agent(2, { target: other })]);
  assert.deepEqual((await find(t, "harbour.example", { found, answers: ["2"] })).target, other);
  assert.equal((await find(t, "harbour.example", { found, answers: ["3"] })).target, undefined);
});

test("a card of a catalog needs a confirmation", async (t) => {
  const found = list([agent(1, { inline: true, interfaces: ["https://desk.example"] })]);
  const options = { pick: "1" };
  await assert.rejects(find(t, "harbour.example", { found, options }), /leads calls to https:\/\/desk.example; accept that with `--yes`/);
  await assert.rejects(find(t, "harbour.example", { found, options, answers: ["y"] }), /--yes/);
  assert.deepEqual((await find(t, "harbour.example", { found, options, answers: ["yes"] })).target, TARGET);
  assert.deepEqual((await find(t, "harbour.example", { found, options: { ...options, yes: true } })).target, TARGET);
});

test("a credential for an agent elsewhere needs a confirmation", async (t) => {
  const found = list([agent(1, { foreign: true, card: "https://evil.example/a.json" })]);
  const options = { pick: "1", bearerEnv: "KEY" };
  await assert.rejects(find(t, "harbour.example", { found, options }), /is at https:\/\/evil.example\/a.json, which would get the credential; accept that with `--yes`/);
  for (const more of [{ yes: true }, { bearerEnv: undefined }]) assert.deepEqual((await find(t, "harbour.example", { found, options: { ...options, ...more } })).target, TARGET);
});

test("what cannot be added is an error that says why", async (t) => {
  const odd = list([agent(1, { target: undefined, odd: ["it has both `url` and `data`"] })]);
  await assert.rejects(find(t, "harbour.example", { found: odd, options: { pick: "1" } }), /cannot add `agent 1`: it has both/);
  await assert.rejects(find(t, "harbour.example", { found: list([], { problems: ["404"] }) }), /found no agent to add: 404/);
  await assert.rejects(find(t, "harbour.example", { found: { error: "`x` is no URL", isUsage: true } }), /cannot add an agent: `x` is no URL/);
  await assert.rejects(find(t, undefined), /name a domain/);
  await assert.rejects(find(t, "harbour.example", { options: { search: "x" } }), /belong together/);
});
