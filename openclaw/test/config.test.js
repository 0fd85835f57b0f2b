import assert from "node:assert/strict";
import { test } from "node:test";

import { withOwnGateway } from "../config.js";

const enabled = (more = {}) => ({ gateway: { enabled: true, ...more } });
const host = { gateway: { port: 41800, auth: { mode: "token", token: "host-token" } } };

test("gateway without a URL is the one of the host", () => {
  for (const [config, openclaw, env, expected] of [
    [enabled(), host, {}, { url: "ws://127.0.0.1:41800", token: "host-token" }],
    [enabled(), {}, {}, { url: "ws://127.0.0.1:18789" }],
    [enabled(), host, { OPENCLAW_GATEWAY_PORT: "5000", OPENCLAW_GATEWAY_TOKEN: "other" }, { url: "ws://127.0.0.1:5000", token: "other" }],
    [enabled({ token: "own" }), host, {}, { url: "ws://127.0.0.1:41800", token: "own" }],
    [enabled(), { gateway: { tls: { enabled: true } } }, {}, { url: "wss://127.0.0.1:18789" }],
    [enabled(), { gateway: { auth: { mode: "none", token: "unused" } } }, {}, { url: "ws://127.0.0.1:18789" }],
  ]) {
    assert.deepEqual(withOwnGateway(config, openclaw, env).gateway, { enabled: true, ...expected });
  }
});

test("named or disabled gateway stays as it is", () => {
  for (const config of [enabled({ url: "ws://127.0.0.1:1" }), { gateway: { enabled: false } }, {}]) {
    assert.equal(withOwnGateway(config, host, {}), config);
  }
});
