// `openclaw remote-agent sign-in` and `sign-out`: a person of this terminal signs in to an agent. The library stores the token where
// the gateway's instance finds it.
import process from "node:process";
import { createInterface } from "node:readline";

import { CommandError } from "./command-support.js";
import { openInstance } from "./instance.js";
import { AUTH, FAILED, OK } from "./report.js";
import { line, note, print } from "./text.js";
/** @import {Context} from "./commands.js" */
/** @import {AddCommand} from "./call-commands.js" */
/** @import {Question} from "./types.d.ts" */

const OUTCOMES = {
  revoked: "signed out; the authorization server has revoked the token",
  removed: "signed out; the authorization server may accept the token until it expires",
  absent: "there was no sign-in",
};

/**
 * Registers the commands.
 * @param {AddCommand} command
 */
export function registerSignInCommands(command) {
  const PERSON = /** @type {const} */ (["--person <name>", "The person, for a target where each person signs in: openclaw:CHANNEL:ACCOUNT:SENDER"]);
  command("sign-in [alias]", "Sign in to an agent with a code or a browser", signIn).option(...PERSON);
  command("sign-out [alias]", "Remove the stored sign-in of an agent", signOut).option(...PERSON);
}

/**
 * @param {Context} context
 * @param {string} [alias]
 */
export async function signIn({ api, host, options }, alias, { open = openInstance, input = process.stdin } = {}) {
  const instance = await open(api, host);
  const person = terminal(input);
  try {
    const { error, isUsage, alias: name, scopes } = await instance.signIn(alias, options.person, person.ask);
    if (error) throw new CommandError(error, isUsage ? undefined : AUTH);
    if (options.json) print(JSON.stringify({ alias: name, scopes: scopes ?? null }));
    else print(`${line(name)}: signed in${scopes ? `, scopes ${line(scopes)}` : ""}`);
    return OK;
  } finally {
    person.close();
    instance.close();
  }
}

/**
 * @param {Context} context
 * @param {string} [alias]
 */
export async function signOut({ api, host, options }, alias, { open = openInstance } = {}) {
  const instance = await open(api, host);
  try {
    const { error, isUsage, alias: name, outcome } = await instance.signOut(alias, options.person);
    if (error) throw new CommandError(error, isUsage ? undefined : FAILED);
    print(options.json ? JSON.stringify({ alias: name, outcome }) : `${line(name)}: ${OUTCOMES[outcome ?? ""] ?? line(outcome)}`);
    return OK;
  } finally {
    instance.close();
  }
}

/**
 * Returns a person who reads standard error and writes to standard input.
 * @param {NodeJS.ReadableStream} input
 */
function terminal(input) {
  /** @type {import("node:readline").Interface | undefined} */
  let reader;
  /** Has the lines that no question has waited for yet. @type {AsyncIterator<string> | undefined} */
  let lines;
  /** @type {string | undefined} */
  let shown;
  // Held by `ask`: a promise that nothing refers to is collected, and the library then takes the person for unreachable.
  const never = new Promise(() => {});
  const close = () => reader?.close();
  /** @param {string} json */
  const ask = async (json) => {
    /** @type {Question & { withdrawn?: boolean }} */
    const { id, url, sign_in: prompt, error, withdrawn } = JSON.parse(json);
    if (withdrawn || !prompt) return close(), "{}";
    if (id !== shown) {
      note(`Sign in at ${line(prompt.server)}. Open this address in a browser:\n  ${line(url)}`);
      if (prompt.code) note(`and enter the code ${line(prompt.code)}`);
      else note("If the page at the end does not load there, paste its whole address here:");
    }
    shown = id;
    if (error) note(`${line(error)}. Paste it again:`);
    if (!prompt.takes_address) return await never;
    reader ??= createInterface({ input });
    lines ??= reader[Symbol.asyncIterator]();
    for (let next = await lines.next(); !next.done; next = await lines.next()) {
      const answer = next.value.trim();
      if (URL.canParse(answer)) return JSON.stringify({ action: "answer", content: { answer } });
      // The library takes a text that is no address for the word that the browser has returned.
      if (answer) note("That is no address. Paste the whole address of the page at which the browser ended:");
    }
    // The browser may still return to the library.
    return await never;
  };
  return { ask, close };
}
