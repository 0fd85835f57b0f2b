// What to do about an error, in terms of the settings and of the place where the call ran.
import { targetsIn } from "./config.js";
import { hintFor } from "./report.js";
import { secretPlaces } from "./secrets.js";
import { line, word } from "./text.js";
/** @import {EnvelopeError, Settings, Target, UnresolvedSecret} from "./types.d.ts" */

/** The reasons of an agent that refuses a credential, or the lack of one. */
export const REFUSALS = new Set(["auth_required", "auth_failed", "token_expired"]);

/**
 * The place where a call ran. `envFile` is the file with the gateway's environment variables.
 * @typedef {{ config: Settings, inGateway: boolean, envFile?: string }} CallPlace
 */

/**
 * Returns the repair for an error of the target `alias`, by default of the default target.
 * @param {EnvelopeError} error
 * @param {string | undefined} alias
 * @param {CallPlace} place
 */
export function repairFor({ reason, details }, alias, place) {
  const targets = targetsIn(place.config);
  const target = targets.find((one) => one.alias === alias) ?? (alias ? undefined : targets.find((one) => one.default === true));
  const variables = variablesOf(target);
  const where = place.inGateway ? " of the gateway" : "";
  if (reason === "agent_not_allowed" && target?.allowedAgents?.length) return `Call in the name of an agent that may use it: \`--agent ${word(target.allowedAgents[0])}\`.`;
  if (reason === "credential_unresolved" && variables.length > 0) return missingVariable(variables[0], place);
  if (REFUSALS.has(reason ?? "") && variables.length > 0) return `Check the token in the environment variable \`${line(variables[0])}\`${where}: the agent refused it.`;
  if (REFUSALS.has(reason ?? "") && target?.auth) return "Check `auth` of this target: the agent refused the credential.";
  return hintFor(reason, details);
}

/** Returns the name of the file with the gateway's environment variables. */
export const envFileName = (/** @type {string | undefined} */ file) => line(file ?? "the file .env of its state directory");

/**
 * Returns the repair for an environment variable that is missing where the call ran.
 * @param {string} variable
 * @param {Pick<CallPlace, "inGateway" | "envFile">} place
 */
export function missingVariable(variable, { inGateway, envFile }) {
  const name = line(variable);
  if (!inGateway) return `Set the environment variable \`${name}\` in this shell; the gateway needs it too.`;
  return `The gateway does not have ${name}: add it to ${envFileName(envFile)} and restart the gateway (\`openclaw gateway restart\`).`;
}

/**
 * Returns the environment variables that the credentials of a target refer to.
 * @param {Target} [target]
 * @returns {string[]}
 */
export function variablesOf(target) {
  return target ? secretPlaces({ targets: [target] }).flatMap(({ value }) => variableOf(value) ?? []) : [];
}

/** Returns the environment variable that a setting refers to, if any. */
function variableOf(value) {
  return typeof value === "object" && value !== null && value.source === "env" && typeof value.id === "string" ? value.id : undefined;
}

/**
 * Describes credentials of `config` that have no value.
 * @param {Settings} config
 * @returns {UnresolvedSecret[]}
 */
export function unresolvedIn(config) {
  const references = secretPlaces(config).filter(({ value }) => typeof value === "object" && value !== null);
  return references.map(({ path, value }) => {
    const [, index] = /^targets\[(\d+)\]/.exec(path) ?? [];
    return { path, alias: index && targetsIn(config)[Number(index)]?.alias, variable: variableOf(value) };
  });
}

/**
 * The repair for a gateway with another value of a variable than this shell. A gateway that restarts in its own process keeps each variable that it has.
 *
 * @param {string | undefined} envFile
 */
export const newValue = (envFile) =>
  `Write the value to ${envFileName(envFile)}, in place of an earlier line, then end the gateway and start it again (a gateway in a terminal keeps the old value over \`openclaw gateway restart\`).`;
