import assert from "node:assert/strict";
import { test } from "node:test";

import { plaintextSecrets, secretPlaces } from "../secrets.js";

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
