import assert from "node:assert/strict";
import { PassThrough } from "node:stream";
import { test } from "node:test";
import { setImmediate } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { signIn, signOut } from "../sign-in.js";

const URL_OF_CODE = "https://login.example/go";
const browser = { id: "b", url: "https://login.example/authorize", sign_in: { server: "https://login.example", takes_address: true } };

/** Runs a command, and returns its exit code or error, and what it printed. */
async function ran(run) {
  const shown = [];
  const streams = [process.stdout, process.stderr];
  const originals = streams.map((stream) => stream.write);
  // The test runner writes bytes.
  streams.forEach((stream, index) => (stream.write = (text, ...more) => (typeof text === "string" ? (shown.push(text), true) : originals[index].call(stream, text, ...more))));
  try {
    const exit = await run().catch(({ exit, message }) => [exit, message]);
    return { exit, shown: shown.join("") };
  } finally {
    streams.forEach((stream, index) => (stream.write = originals[index]));
  }
}

const context = (options = {}) => /** @type {any} */ ({ api: {}, host: {}, options, args: [] });
const opening = (instance) => async () => ({ close() {}, ...instance });

test("a code is shown, and nothing is read", async () => {
  const question = { id: "q", url: URL_OF_CODE, sign_in: { server: "https://login.example", code: "WDJB", takes_address: false } };
  const open = opening({
    async signIn(alias, person, ask) {
      assert.deepEqual([alias, person], ["desk", "anna"]);
      ask(JSON.stringify(question));
      await ask('{"id":"q","withdrawn":true}');
      return { alias: "desk", scopes: "read" };
    },
  });
  const { exit, shown } = await ran(() => signIn(context({ person: "anna" }), "desk", { open }));
  assert.equal(exit, 0);
  assert.match(shown, /Sign in at https:\/\/login\.example\. Open this address in a browser:\n  https:\/\/login\.example\/go\nand enter the code WDJB\n/);
  assert.match(shown, /desk: signed in, scopes read\n$/);
});

test("a sign-in that waits for the person is not collected", async () => {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc");
  const question = { id: "q", url: URL_OF_CODE, sign_in: { server: "https://login.example", code: "WDJB", takes_address: false } };
  let isWaiting = false;
  const open = opening({
    async signIn(_alias, _person, ask) {
      const waiting = new WeakRef(ask(JSON.stringify(question)));
      for (let turn = 0; turn < 3; turn += 1) {
        await setImmediate();
        collect();
      }
      isWaiting = waiting.deref() !== undefined;
      await ask('{"id":"q","withdrawn":true}');
      return { alias: "desk" };
    },
  });
  await ran(() => signIn(context(), undefined, { open }));
  assert.equal(isWaiting, true);
});

test("an address is pasted, and again after a wrong one", async () => {
  const input = new PassThrough();
  const pasted = [];
  const open = opening({
    async signIn(_alias, _person, ask) {
      input.write("wrong\nhttp://127.0.0.1:1/other\n");
      pasted.push(JSON.parse(await ask(JSON.stringify(browser))).content.answer);
      input.write("\nhttp://127.0.0.1:1/callback?code=c\n");
      pasted.push(JSON.parse(await ask(JSON.stringify({ ...browser, error: "no address" }))).content.answer);
      return { alias: "desk" };
    },
  });
  const { exit, shown } = await ran(() => signIn(context(), undefined, { open, input }));
  assert.equal(exit, 0);
  assert.match(shown, /That is no address/);
  assert.deepEqual(pasted, ["http://127.0.0.1:1/other", "http://127.0.0.1:1/callback?code=c"]);
  assert.match(shown, /no address\. Paste it again:/);
  assert.equal(shown.match(/Open this address/g).length, 1);
});

test("a refused sign-in exits with 4, and wrong arguments with 2", async () => {
  for (const [result, expected] of [
    [{ error: "the sign-in was declined", isUsage: false }, [4, "the sign-in was declined"]],
    [{ error: "no target is named `x`", isUsage: true }, [2, "no target is named `x`"]],
  ]) {
    const open = opening({ signIn: async () => result });
    const { exit } = await ran(() => signIn(context(), "x", { open }));
    assert.deepEqual(exit, expected);
  }
});

test("a sign-out says what became of the token", async () => {
  const open = opening({ signOut: async () => ({ alias: "desk", outcome: "revoked" }) });
  const { exit, shown } = await ran(() => signOut(context(), undefined, { open }));
  assert.deepEqual([exit, shown], [0, "desk: signed out; the authorization server has revoked the token\n"]);
});
