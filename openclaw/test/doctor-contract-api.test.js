import assert from "node:assert/strict";
import { test } from "node:test";

import { legacyConfigRules, normalizeCompatibilityConfig } from "../doctor-contract-api.js";

const host = (...targets) => ({ plugins: { entries: { "remote-agent": { config: { targets } } } } });

test("url of a target becomes its baseUrl", () => {
  const cfg = host({ alias: "one", url: "https://one.example" }, { alias: "two", baseUrl: "https://two.example" });
  const { config, changes } = normalizeCompatibilityConfig({ cfg });
  assert.deepEqual(config, host({ alias: "one", baseUrl: "https://one.example" }, { alias: "two", baseUrl: "https://two.example" }));
  assert.equal(changes.length, 1);
  assert.deepEqual([cfg, config].map(({ plugins }) => legacyConfigRules[0].match(plugins.entries["remote-agent"].config.targets)), [true, false]);
});

test("sound settings stay as they are", () => {
  for (const cfg of [host({ alias: "one", baseUrl: "https://one.example" }), {}]) assert.deepEqual(normalizeCompatibilityConfig({ cfg }), { config: cfg, changes: [] });
});
