// `openclaw remote-agent pin`: shows what was accepted of an agent's card and what differs, and accepts the card that the agent has now.
import { userInfo } from "node:os";

import { CommandError } from "./command-support.js";
import { openInstance } from "./instance.js";
import { FAILED, OK, exitOf } from "./report.js";
import { table } from "./table.js";
import { line, note, print, withOwnCommand, word } from "./text.js";
/** @import {Context} from "./commands.js" */
/** @import {AddCommand} from "./call-commands.js" */
/** @import {CardPin, CardSigner, ListedTarget, Target} from "./types.d.ts" */

/**
 * Registers the command.
 * @param {AddCommand} command
 */
export function registerPinCommand(command) {
  command("pin [alias]", "Show what was accepted of an agent's card, and accept the one that it has now", pin)
    .option("--diff", "Show the old and the new value of each change")
    .option("--accept", "Accept the card that the agent has now, with all changes")
    .option("--fingerprint <text>", "With --accept: accept no card but the one with this fingerprint, which this command shows")
    .option("--person <name>", "The person, for a target where each person signs in: openclaw:CHANNEL:ACCOUNT:SENDER");
}

/**
 * @param {Context} context
 * @param {string} [alias]
 */
export async function pin({ api, host, options }, alias, { open = openInstance } = {}) {
  if (options.fingerprint && !options.accept) throw new CommandError("`--fingerprint` belongs to `--accept`");
  const instance = await open(api, host);
  try {
    const answer = await instance.pin(alias, options.person, options.accept ? operator() : undefined, options.fingerprint);
    const { error, isUsage, reason, target, problem, damaged, fingerprint, signers = [], changes = [], accepted_changes: accepted, stops } = answer;
    if (error) throw new CommandError(withOwnCommand(line(error)), isUsage ? undefined : exitOf(reason));
    if (damaged) note(`the damaged file is now "${line(damaged)}"`);
    if (options.json) print(JSON.stringify({ ...answer, accepted: options.accept === true }));
    else {
      if (problem) note(withOwnCommand(line(problem)));
      if (accepted) print(`${line(target)}: accepted the card${accepted.length > 0 ? ` with these changes\n${changesTable(accepted)}` : ""}`);
      else if (!problem) print(`${line(target)}: ${acceptedText(answer) ?? "nothing is accepted yet; the first call accepts what the agent has then"}`);
      print(`its card has the fingerprint ${line(fingerprint)}`);
      for (const signer of signers) print(signedText(signer));
      if (changes.length > 0) print(options.diff ? changesTable(changes) : `changes: ${changes.length}; --diff shows them`);
    }
    return stops ? FAILED : OK;
  } finally {
    instance.close();
  }
}

/**
 * Reads the card of a target before it is added. Returns what accepts that card and no other one, and then why it is not accepted, if
 * so.
 * @param {Pick<Context, "api" | "host">} context
 * @param {Target} target
 */
export async function reviewNew({ api, host }, target, { open = openInstance } = {}) {
  const instance = await open(api, host, ({ gateway, audit, ...config }) => ({ ...config, enabled: true, targets: [target] }));
  const reviewed = await instance.pin(target.alias);
  return {
    async accept() {
      const { fingerprint, unpinned } = reviewed;
      const { error } = reviewed.error ? reviewed : await instance.pin(target.alias, undefined, operator(), fingerprint);
      return unpinned ? undefined : error && withOwnCommand(line(error));
    },
    close: () => instance.close(),
  };
}

/** @param {import("./types.d.ts").CardChange[]} changes */
const changesTable = (changes) => table([["CLASS", "FIELD", "ACCEPTED", "NOW"], ...changes.map(({ class: name, path, old, new: value }) => [name, path, old ?? "-", value ?? "-"])]);

/** Returns the user of this process, for the record. */
function operator() {
  try {
    return `operator ${userInfo().username}`;
  } catch {
    return "operator";
  }
}

/** @param {CardSigner} signer */
function signedText({ alg, kid, thumbprint, configured }) {
  const name = line(`signed with ${alg}, key ${kid}`);
  if (!thumbprint) return `${name}, not verified: set \`requireSignedCard\``;
  if (configured) return `${name}, thumbprint ${line(thumbprint)}, which is in your jwksFile`;
  return `${name}, thumbprint ${line(thumbprint)}: the agent's own host has the key, so it proves only who has the host`;
}

/**
 * Returns when a card was accepted, and by whom.
 * @param {CardPin} pin
 */
const acceptedText = ({ accepted_at: at, accepted_by: by }) => (at ? `card accepted at ${line(at)} (${line(by)})` : undefined);

/**
 * Returns what a listed target has of its pins as a sentence, and whether an operator should look; undefined without pins.
 * @param {ListedTarget} target
 * @returns {[text: string, hasChanged: boolean] | undefined}
 */
export function pinState({ target_alias: alias, card_pin: pinned }) {
  if (pinned?.problem) return [withOwnCommand(line(pinned.problem)), true];
  const accepted = pinned && acceptedText(pinned);
  if (!accepted) return;
  const changes = (pinned.changes ?? []).filter(({ class: name }) => name !== "note").length;
  if (changes === 0) return [accepted, false];
  return [`${accepted}, ${changes}${pinned.more_changes ? " or more" : ""} changed since: \`openclaw remote-agent pin ${word(alias)} --diff\``, true];
}
