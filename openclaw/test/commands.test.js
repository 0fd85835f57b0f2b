import assert from "node:assert/strict";
import { test } from "node:test";

import { registerCommands } from "../commands.js";

/** Runs a command of `openclaw remote-agent`. Returns its exit code and what it printed. */
async function run(t, name, values = [], options = {}, config = {}) {
  const actions = new Map();
  const builder = (action) => new Proxy({}, { get: (_, key) => (key === "action" ? (run) => (actions.set(action, run), builder(action)) : () => builder(action)) });
  const program = { command: () => ({ description: () => ({ command: (words) => builder(words.split(" ")[0]) }) }) };
  const host = { plugins: { entries: { "remote-agent": { config } } } };
  registerCommands({ program, config: host }, { pluginConfig: config });
  const printed = [];
  const exitCode = process.exitCode;
  for (const stream of [process.stdout, process.stderr]) t.mock.method(stream, "write", (text) => printed.push(text) > 0);
  try {
    await actions.get(name)(...values, options, { args: values });
  } finally {
    t.mock.restoreAll();
  }
  const exit = process.exitCode;
  process.exitCode = exitCode;
  return { exit, text: printed.join("") };
}

test("add refuses an address that is no http or https URL", async (t) => {
  for (const url of ["ftp://x", "x", "javascript:1", "http://", "//x"]) {
    const { exit, text } = await run(t, "add", [url]);
    assert.equal(exit, 2, url);
    assert.match(text, /^error: cannot add `.*`: it is no http or https URL; try `https:/, url);
  }
});
