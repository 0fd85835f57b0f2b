// The options of `add` with the credentials of an agent, and the settings that they stand for.
import { resolve } from "node:path";

import { CommandError } from "./command-support.js";
/** @import {Target} from "./types.d.ts" */

/** The options, as Commander writes them. */
export const CREDENTIAL_OPTIONS = [
  ["--bearer-env <var>", "Send the bearer token in this environment variable"],
  ["--api-key-env <name=var>", "Send the API key in the environment variable VAR as the header NAME"],
  ["--api-key-in <place>", "Place of the API key: header, query or cookie; by default the header"],
  ["--basic-env <user=var>", "Send the user name USER and the password in the environment variable VAR"],
  ["--oauth2-env <id=var>", "Get access tokens for the OAuth 2 client ID, with its secret in the environment variable VAR"],
  ["--oauth2-token-url <url>", "The token endpoint of --oauth2-env"],
  ["--oauth2-scope <scope>", "Request this scope for --oauth2-env; may be given several times"],
  ["--cert-file <file>", "Send the client certificate in this PEM file, with its key in --key-file"],
  ["--key-file <file>", "The private key of --cert-file, a PEM file"],
  ["--header-env <name=var>", "Send the header NAME with the value of the environment variable VAR; may be given several times"],
  ["--ca-file <file>", "Trust the certificates in this PEM file, instead of those that the system trusts"],
];

/** The options that may be given several times. */
export const REPEATABLE = new Set(["--oauth2-scope", "--header-env"]);

const PLACES = ["header", "query", "cookie"];

/** The options that need another one. */
const NEEDS = { apiKeyIn: "apiKeyEnv", oauth2Env: "oauth2TokenUrl", oauth2TokenUrl: "oauth2Env", oauth2Scope: "oauth2Env", certFile: "keyFile", keyFile: "certFile" };

/** The settings `auth` by the option that selects its type. */
const AUTH = {
  bearerEnv: ({ bearerEnv }) => ({ type: "bearer", token: reference(bearerEnv, "--bearer-env") }),
  apiKeyEnv({ apiKeyEnv, apiKeyIn = "header" }) {
    if (!PLACES.includes(apiKeyIn)) throw new CommandError(`\`--api-key-in\` is one of ${PLACES.join(", ")}`);
    const [name, value] = assignment(apiKeyEnv, "--api-key-env", "NAME");
    return { type: "apiKey", in: apiKeyIn, name, value };
  },
  basicEnv({ basicEnv }) {
    const [username, password] = assignment(basicEnv, "--basic-env", "USER");
    return { type: "basic", username, password };
  },
  oauth2Env({ oauth2Env, oauth2TokenUrl: tokenUrl, oauth2Scope: scopes }) {
    const [clientId, clientSecret] = assignment(oauth2Env, "--oauth2-env", "ID");
    return { type: "oauth2", tokenUrl, clientId, clientSecret, ...(scopes && { scopes }) };
  },
  // The gateway has another working directory.
  certFile: ({ certFile, keyFile }) => ({ type: "mtls", certFile: resolve(certFile), keyFile: resolve(keyFile) }),
};

/** Returns the name of the field in which Commander puts the value of an option. */
export const fieldOf = (/** @type {string} */ flags) => nameOf(flags).slice(2).replace(/-(\w)/g, (_, letter) => letter.toUpperCase());

/** Returns the name of an option, without its value. */
export const nameOf = (/** @type {string} */ flags) => flags.split(" ")[0];

const optionOf = (field) => nameOf(CREDENTIAL_OPTIONS.find(([flags]) => fieldOf(flags) === field)?.[0] ?? field);

/**
 * Returns the settings that the options stand for: `auth`, `headers` and `tls`, as far as they are given.
 * @param {Record<string, any>} options
 * @returns {Pick<Target, "auth" | "headers" | "tls">}
 */
export function credentialsIn(options) {
  for (const [field, other] of Object.entries(NEEDS)) {
    if (options[field] && !options[other]) throw new CommandError(`\`${optionOf(field)}\` needs \`${optionOf(other)}\``);
  }
  const kinds = Object.keys(AUTH).filter((field) => options[field]);
  if (kinds.length > 1) throw new CommandError(`an agent takes one kind of authentication; give one of \`${kinds.map(optionOf).join("` and `")}\``);
  const headers = (options.headerEnv ?? []).map((text) => assignment(text, "--header-env", "NAME"));
  return {
    ...(kinds.length > 0 && { auth: AUTH[kinds[0]](options) }),
    ...(headers.length > 0 && { headers: Object.fromEntries(headers) }),
    ...(options.caFile && { tls: { caFile: resolve(options.caFile) } }),
  };
}

/** Parses `NAME=VAR`, and returns the name and a reference to the variable. A name may contain `=`. */
function assignment(text, option, name) {
  const at = text.lastIndexOf("=");
  if (at < 1) throw new CommandError(`\`${option}\` is ${name}=VAR, with the name of an environment variable`);
  return [text.slice(0, at), reference(text.slice(at + 1), option)];
}

/** Returns a SecretRef to an environment variable. OpenClaw refuses other names than these. */
function reference(id, option) {
  if (!/^[A-Z][A-Z0-9_]{0,127}$/.test(id)) throw new CommandError(`\`${option}\` names an environment variable: capital letters, digits and \`_\`. Put the secret into the variable, and give its name`);
  return { source: "env", provider: "default", id };
}
