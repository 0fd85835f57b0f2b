import assert from "node:assert/strict";
import { test } from "node:test";

import { credentialsIn } from "../credential-options.js";

const KEY = { source: "env", provider: "default", id: "KEY" };

test("each kind of credential becomes settings with a reference", () => {
  for (const [options, settings] of [
    [{}, {}],
    [{ bearerEnv: "KEY" }, { auth: { type: "bearer", token: KEY } }],
    [{ apiKeyEnv: "X-Key=KEY" }, { auth: { type: "apiKey", in: "header", name: "X-Key", value: KEY } }],
    [{ apiKeyEnv: "key=KEY", apiKeyIn: "query" }, { auth: { type: "apiKey", in: "query", name: "key", value: KEY } }],
    [{ basicEnv: "a=b=KEY" }, { auth: { type: "basic", username: "a=b", password: KEY } }],
    [
      { oauth2Env: "me=KEY", oauth2TokenUrl: "https://login.example/token", oauth2Scope: ["a", "b"] },
      { auth: { type: "oauth2", tokenUrl: "https://login.example/token", clientId: "me", clientSecret: KEY, scopes: ["a", "b"] } },
    ],
    [{ certFile: "/c.pem", keyFile: "/k.pem" }, { auth: { type: "mtls", certFile: "/c.pem", keyFile: "/k.pem" } }],
    [{ headerEnv: ["X-A=KEY", "X-B=KEY"], caFile: "/ca.pem" }, { headers: { "X-A": KEY, "X-B": KEY }, tls: { caFile: "/ca.pem" } }],
  ])
    assert.deepEqual(credentialsIn(options), settings);
});

test("options that do not fit together are refused with their names", () => {
  for (const [options, message] of [
    [{ bearerEnv: "KEY", basicEnv: "a=KEY" }, /give one of `--bearer-env` and `--basic-env`/],
    [{ oauth2Env: "me=KEY" }, /`--oauth2-env` needs `--oauth2-token-url`/],
    [{ oauth2Scope: ["a"] }, /`--oauth2-scope` needs `--oauth2-env`/],
    [{ apiKeyIn: "query" }, /`--api-key-in` needs `--api-key-env`/],
    [{ apiKeyEnv: "a=KEY", apiKeyIn: "body" }, /`--api-key-in` is one of header, query, cookie/],
    [{ basicEnv: "KEY" }, /`--basic-env` is USER=VAR/],
  ])
    assert.throws(() => credentialsIn(options), message);
});

test("secret in place of a variable is refused and not repeated", () => {
  assert.throws(() => credentialsIn({ bearerEnv: "s3cr3t-token" }), (error) => /names an environment variable/.test(error.message) && !error.message.includes("s3cr3t"));
});
