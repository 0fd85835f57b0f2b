import assert from "node:assert/strict";
import { test } from "node:test";
import { pin, pinState } from "../pin.js";

/** Runs the command with an answer of the library, and returns its exit code or error, what it printed, and the arguments. */
async function ran(options, answer) {
  const shown = [];
  let asked;
  const open = async () => ({ close() {}, pin: async (...args) => ((asked = args), answer) });
  const streams = [process.stdout, process.stderr];
  const originals = streams.map((stream) => stream.write);
  // The test runner writes bytes.
  streams.forEach((stream, index) => (stream.write = (text, ...more) => (typeof text === "string" ? (shown.push(text), true) : originals[index].call(stream, text, ...more))));
  try {
    const context = /** @type {any} */ ({ api: {}, host: {}, options, args: [] });
    const exit = await pin(context, "desk", { open: /** @type {any} */ (open) }).catch(({ exit, message }) => [exit, message]);
    return { exit, shown: shown.join(""), asked };
  } finally {
    streams.forEach((stream, index) => (stream.write = originals[index]));
  }
}

const signer = { alg: "ES256", kid: "k\u001b", thumbprint: "abc", configured: false };
const changes = [{ path: "/provider/organization", old: "Desk", new: "Evil\u202e", class: "stop" }];
const answer = { fingerprint: "f1", target: "desk", path: "/pins/a.json", mode: "enforce", accepted_at: "2026-01-02T00:00:00Z", accepted_by: "first use", signers: [signer], changes, stops: true };

test("pins are shown with what a key proves, and a stop fails", async () => {
  const { exit, shown, asked } = await ran({ person: "anna" }, answer);
  assert.deepEqual([exit, asked], [1, ["desk", "anna", undefined, undefined]]);
  assert.match(shown, /^desk: card accepted at 2026-01-02T00:00:00Z \(first use\)\nits card has the fingerprint f1\nsigned with ES256, key k, thumbprint abc: the agent's own host .*\nchanges: 1; --diff shows them\n$/);
  assert.match((await ran({ diff: true }, answer)).shown, /stop +\/provider\/organization +Desk +Evil\n/);
});

test("acceptance names the operator", async () => {
  const accepted = { ...answer, changes: undefined, stops: false, accepted_changes: changes, damaged: "/pins/a.json.damaged" };
  const { exit, shown, asked } = await ran({ accept: true, fingerprint: "f1" }, accepted);
  assert.equal(exit, 0);
  assert.match(asked[2], /^operator /);
  assert.equal(asked[3], "f1");
  assert.match(shown, /the damaged file is now "\/pins\/a\.json\.damaged"\ndesk: accepted the card with these changes\nCLASS .*\nstop +\/provider/);
  assert.deepEqual((await ran({ fingerprint: "f1" }, answer)).exit, [2, "`--fingerprint` belongs to `--accept`"]);
});

test("errors have the exit code of their reason, and the command of this plugin", async () => {
  const { exit } = await ran({}, { error: "see `remote-agent pin desk`", isUsage: false, reason: "unreachable" });
  assert.deepEqual(exit, [3, "see `openclaw remote-agent pin desk`"]);
  assert.deepEqual((await ran({}, { error: "no", isUsage: true })).exit, [2, "no"]);
});

test("a listed target shows age and drift", () => {
  const listed = (card_pin) => pinState(/** @type {any} */ ({ target_alias: "the desk", card_pin }));
  assert.equal(listed(undefined), undefined);
  assert.deepEqual(listed({ problem: "see `remote-agent pin x`" }), ["see `openclaw remote-agent pin x`", true]);
  const accepted = { accepted_at: "2026-01-02T00:00:00Z", accepted_by: "first use" };
  assert.deepEqual(listed({ ...accepted, changes: [{ class: "note" }] }), ["card accepted at 2026-01-02T00:00:00Z (first use)", false]);
  assert.match(listed({ ...accepted, changes })?.[0] ?? "", /, 1 changed since: `openclaw remote-agent pin 'the desk' --diff`$/);
});
