import assert from "node:assert/strict";
import { test } from "node:test";

import { repairFor } from "../repair.js";

const bearer = (token) => ({ type: "bearer", token });
const config = {
  targets: [
    { alias: "open", baseUrl: "https://open.example", default: true },
    { alias: "env", baseUrl: "https://env.example", auth: bearer({ source: "env", provider: "default", id: "ENV_TOKEN" }) },
    { alias: "text", baseUrl: "https://text.example", auth: bearer("a-token-in-the-file") },
    { alias: "key", baseUrl: "https://key.example", headers: { "X-Key": { source: "env", provider: "default", id: "KEY" } } },
    { alias: "js", baseUrl: "https://js.example", allowedAgents: ["the writer"] },
  ],
};
const gateway = { config, inGateway: true, envFile: "/state/.env" };
const shell = { config, inGateway: false };

test("repair names the credential of the target, and where it is", () => {
  for (const [reason, alias, place, expected] of [
    ["auth_required", "open", gateway, "Add the agent with `--bearer-env VAR`, or set `auth` of this target."],
    ["auth_required", undefined, gateway, "Add the agent with `--bearer-env VAR`, or set `auth` of this target."],
    ["auth_required", "env", gateway, "Check the token in the environment variable `ENV_TOKEN` of the gateway: the agent refused it."],
    ["token_expired", "env", shell, "Check the token in the environment variable `ENV_TOKEN`: the agent refused it."],
    ["auth_required", "key", shell, "Check the token in the environment variable `KEY`: the agent refused it."],
    ["auth_failed", "text", gateway, "Check `auth` of this target: the agent refused the credential."],
    ["credential_unresolved", "env", gateway, "The gateway does not have ENV_TOKEN: add it to /state/.env and restart the gateway (`openclaw gateway restart`)."],
    ["credential_unresolved", "env", shell, "Set the environment variable `ENV_TOKEN` in this shell; the gateway needs it too."],
    ["agent_not_allowed", "js", gateway, "Call in the name of an agent that may use it: `--agent 'the writer'`."],
    ["auth_required", "unknown", gateway, "Add the agent with `--bearer-env VAR`, or set `auth` of this target."],
  ]) assert.equal(repairFor({ reason }, alias, place), expected, `${reason} ${alias}`);
});

test("other errors keep the hint of the library", () => {
  assert.equal(repairFor({ reason: "tls", details: { hint: "Check it." } }, "env", gateway), "Check it.");
});
