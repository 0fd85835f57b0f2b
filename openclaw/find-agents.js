// Looks for the agent that `add` adds where no URL names it: in the catalogs of a domain, at a registry, or in a file with a card.
import { existsSync } from "node:fs";
import { resolve } from "node:path";
import process from "node:process";
import { createInterface } from "node:readline/promises";

import { CommandError } from "./command-support.js";
import { CREDENTIAL_OPTIONS, fieldOf } from "./credential-options.js";
import { exitOf } from "./report.js";
import { line, note, print, safe, word } from "./text.js";
/** @import {Context} from "./commands.js" */
/** @import {FoundAgent, FoundAgents} from "./types.d.ts" */

/** The path of an agent card, and the one before A2A 0.3. */
const CARD_PATH = /\/\.well-known\/(agent-card|agent)\.json$/;

/** The URL of an agent card with a query, which some servers need: first its base URL. */
const CARD_WITH_QUERY = /^(https?:\/\/[^/?#]+[^?#]*?)(?:\/\.well-known)?\/(?:agent-card|agent)\.json\?/i;

/**
 * Returns the settings that the place of an agent stands for: its base URL, and where its card is unless it is below that.
 * Returns undefined if the person only sees what there is.
 * @param {Context} context
 * @param {string | undefined} given
 * @param {{ open: Function, person?: typeof terminal }} surroundings
 * @returns {Promise<NonNullable<FoundAgent["target"]> | undefined>}
 */
export async function findTarget({ api, host, options }, given, { open, person = terminal }) {
  const { search, registry, pick, allowPrivate } = options;
  if (Boolean(search) !== Boolean(registry)) throw new CommandError("`--search TEXT` and `--registry URL` belong together");
  if (Boolean(given) === Boolean(registry)) throw new CommandError("name a domain, a URL or a file with a card, or give `--search TEXT --registry URL`");
  const query = registry ? { place: registry, search } : queryFor(given ?? "");
  if ("baseUrl" in query) return query;
  const instance = await open(api, host, ({ gateway, audit, ...config }) => ({ ...config, enabled: true, targets: [] }));
  /** @type {FoundAgents} */
  let found;
  try {
    found = await instance.findAgents({ ...query, pick: pick ?? null, allowPrivate: allowPrivate === true });
  } finally {
    instance.close();
  }
  if (found.error) throw new CommandError(`cannot add an agent: ${safe(found.error)}`);
  const agent = await picked(found, options, person, "file" in query);
  if (!agent) return undefined;
  if (!agent.target) throw new CommandError(`cannot add \`${line(agent.name)}\`: ${agent.odd.map(line).join("; ")}`);
  await confirm(agent, options, person);
  return agent.target;
}

/**
 * Returns the query for a place, or the base URL that it is, with the URL of the card if that has a query.
 * @param {string} given
 * @returns {{ place: string } | { baseUrl: string, cardUrl?: string } | { file: string }}
 */
function queryFor(given) {
  if (/^https?:\/\//i.test(given) && URL.canParse(given)) {
    const base = CARD_WITH_QUERY.exec(given)?.[1];
    if (base) return { baseUrl: base, cardUrl: given };
    const baseUrl = given.replace(CARD_PATH, "");
    return baseUrl === given && given.endsWith(".json") ? { place: given } : { baseUrl };
  }
  if (given.includes("://")) throw new CommandError(`cannot add \`${given}\`: it is no http or https URL`);
  if (existsSync(given)) return { file: resolve(given) };
  if (given.includes("/") || given.endsWith(".json")) throw new CommandError(`cannot add \`${given}\`: it is no URL, no domain, and no file that exists`);
  return { place: given };
}

/**
 * Shows the agents, and returns the one that the person picks, if any.
 * @param {FoundAgents} found
 * @param {Record<string, any>} options
 * @param {typeof terminal} person
 * @param {boolean} isFile
 * @returns {Promise<FoundAgent | undefined>}
 */
async function picked(found, { pick, json }, person, isFile) {
  const { agents, problems, left, others, registries } = found;
  if (agents.length === 0) throw new CommandError(`found no agent to add: ${problems.map(line).join("; ") || "it names none"}`, exitOf("unreachable"));
  if (agents.length === 1 && (pick || isFile)) {
    note(safe(agents[0].text));
    return agents[0];
  }
  if (json) print(JSON.stringify(found));
  else {
    for (const { text } of agents) print(safe(text));
    if (left > 0) print(`and ${left} more, not read`);
    if (others > 0) print(`and ${others} that are no A2A agents`);
    for (const url of registries) print(`a search endpoint: --search TEXT --registry ${word(url)}`);
    for (const problem of problems) note(`warn: ${line(problem)}`);
  }
  const number = await person("Which one? Its number, or an empty line for none: ");
  const agent = agents.find((one) => String(one.number) === number);
  if (!agent) note("nothing was added; pick one with `--pick NUMBER`, its name or its identifier");
  return agent;
}

/**
 * Lets the person confirm what only a catalog vouches for: a card that is part of it, and where a credential goes.
 * @param {FoundAgent} agent
 * @param {Record<string, any>} options
 * @param {typeof terminal} person
 */
async function confirm({ inline, foreign, name, catalog, card, interfaces }, options, person) {
  const hasCredential = CREDENTIAL_OPTIONS.some(([flags]) => options[fieldOf(flags)] !== undefined);
  if (options.yes || !(inline || (foreign && hasCredential))) return;
  const claim = inline
    ? `the card of \`${line(name)}\` is part of ${line(catalog)}, and leads calls to ${interfaces.map(line).join(", ")}`
    : `only ${line(catalog)} says that \`${line(name)}\` is at ${line(card)}, which would get the credential`;
  if ((await person(`${claim}. Type yes to accept that: `)) !== "yes") throw new CommandError(`${claim}; accept that with \`--yes\`. Nothing was added`);
}

/**
 * Asks the person at the terminal. Without a terminal, the answer is empty.
 * @param {string} question
 */
async function terminal(question) {
  if (!process.stdin.isTTY || !process.stderr.isTTY) return "";
  const reader = createInterface({ input: process.stdin, output: process.stderr });
  try {
    return (await reader.question(question)).trim();
  } finally {
    reader.close();
  }
}
