import assert from "node:assert/strict";
import { test } from "node:test";

import { markResolved, plaintextSecrets, secretPlaces } from "../secrets.js";

const reference = { source: "env", provider: "default", id: "TEAM_KEY" };

test("headers are secret inputs of their own names", () => {
  const config = { targets: [{ headers: { "X-Key": reference, "X-Team": "blue" } }], defaults: { serviceParameters: { Cookie: "a=b" } } };
  const paths = secretPlaces(config).map(({ path }) => path);
  assert.deepEqual(paths, ['targets[0].headers["X-Key"]', 'targets[0].headers["X-Team"]', "defaults.serviceParameters.Cookie"]);
});

test("header that is no credential may be plain text", () => {
  const config = { targets: [{ headers: { "X-Key": "k", "X-Team": "blue", "X-Long": "0123456789abcdef0123" } }] };
  const paths = plaintextSecrets(config).map(({ path }) => path);
  assert.deepEqual(paths, ['targets[0].headers["X-Key"]', 'targets[0].headers["X-Long"]']);
});

test("header of a reference is marked where the host has resolved it", () => {
  const written = { targets: [{ headers: { "X-Team": reference, "X-Client": "openclaw" }, auth: { type: "bearer", token: reference } }], defaults: { serviceParameters: { "X-Room": reference } } };
  const resolved = { targets: [{ headers: { "X-Team": "blue", "X-Client": "openclaw" }, auth: { type: "bearer", token: "t" } }], defaults: { serviceParameters: { "X-Room": "" } } };
  const { targets, defaults } = markResolved(resolved, written);
  assert.deepEqual(targets[0].headers, { "X-Team": { source: "resolved", id: "blue" }, "X-Client": "openclaw" });
  assert.deepEqual([targets[0].auth.token, defaults.serviceParameters["X-Room"], resolved.targets[0].headers["X-Team"]], [{ source: "resolved", id: "t" }, "", "blue"]);
});

test("references are matched by the alias of their target", () => {
  const written = { targets: [{ alias: "a", headers: { "X-Team": reference } }, { alias: "b", headers: { "X-Team": "green" } }] };
  const resolved = { targets: [{ alias: "b", headers: { "X-Team": "green" } }, { alias: "a", headers: { "X-Team": "blue" } }] };
  const { targets } = markResolved(resolved, written);
  assert.deepEqual(targets.map(({ headers }) => headers["X-Team"]), ["green", { source: "resolved", id: "blue" }]);
});

test("references of a target with a variable as alias are matched by its index", () => {
  const written = { targets: [{ alias: "a", headers: { "X-Team": "green" } }, { alias: "${DESK}", headers: { "X-Team": reference } }] };
  const resolved = { targets: [{ alias: "a", headers: { "X-Team": "green" } }, { alias: "desk", headers: { "X-Team": "blue" } }] };
  const { targets } = markResolved(resolved, written);
  assert.deepEqual(targets.map(({ headers }) => headers["X-Team"]), ["green", { source: "resolved", id: "blue" }]);
});

test("configuration without resolved references is not copied", () => {
  const config = { targets: [{ alias: "a", headers: { "X-Team": "green" } }] };
  assert.equal(markResolved(config, config), config);
  const unresolved = { targets: [{ alias: "a", headers: { "X-Team": reference } }] };
  assert.equal(markResolved(unresolved, unresolved), unresolved);
});

test("settings of the wrong type have no mark", () => {
  const config = { targets: [{ alias: "a", headers: { "X-Key": "value" } }] };
  for (const targets of [{}, [null], "x"]) assert.equal(markResolved(config, { targets }), config);
});

test("a header called __proto__ changes no other object", () => {
  const config = JSON.parse('{"targets":[{"alias":"a","headers":{"__proto__":"value","X-Key":"value"}}]}');
  const source = JSON.parse('{"targets":[{"alias":"a","headers":{"__proto__":{"source":"env","id":"A"},"X-Key":{"source":"env","id":"A"}}}]}');
  markResolved(config, source);
  assert.equal({}.source, undefined);
});
