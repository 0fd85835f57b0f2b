import assert from "node:assert/strict";
import { test } from "node:test";

import { registerGatewayMethods } from "../gateway-methods.js";

function methods(config, lease = () => undefined) {
  const seen = new Map();
  registerGatewayMethods({ registerGatewayMethod: (name, handler, options) => seen.set(name, { handler, options }) }, config, lease);
  const call = (name) => {
    const answers = [];
    seen.get(name).handler({ respond: (...answer) => answers.push(answer) });
    return answers;
  };
  return { seen, call };
}

test("both methods need the scope to read", () => {
  const { seen } = methods({});
  assert.deepEqual([...seen].map(([name, { options }]) => [name, options]), [
    ["remoteAgent.targets", { scope: "operator.read" }],
    ["remoteAgent.tasks", { scope: "operator.read" }],
  ]);
});

test("targets have no secret, also in settings that the library refuses", () => {
  const auth = { type: "bearer", token: "secret-token" };
  const urls = { "https://user:password@a.example/x?key=value#part": "https://a.example/x", "https://a.example": "https://a.example", "https://a.example/": "https://a.example/", "not a URL": "" };
  for (const [baseUrl, url] of Object.entries(urls)) {
    const [[, { targets }]] = methods({ targets: [{ alias: "a", baseUrl, auth, headers: { "x-key": "secret-token" } }] }).call("remoteAgent.targets");
    assert.deepEqual(targets, [{ alias: "a", url, description: undefined, default: false }]);
  }
});

test("settings of the wrong type have no targets", () => {
  for (const targets of [{}, "x", [null], null]) assert.deepEqual(methods({ targets }).call("remoteAgent.targets"), [[true, { targets: [] }]]);
});
