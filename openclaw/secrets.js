// Credentials in the settings: their places, and the resolution of their references.
import manifest from "./openclaw.plugin.json" with { type: "json" };

// The library's rule for headers with credentials.
const CREDENTIAL_WORDS = ["auth", "cookie", "key", "token", "secret", "password", "session"];
const MIN_CREDENTIAL_CHARS = 20;

// The library redacts no shorter secret, because words of that length occur in every text.
const MIN_REDACTED_BYTES = 6;

/**
 * Returns every place in `config` with a value that the manifest declares as a secret input: `{ holder, key, path, value
 * }`.
 */
export function secretPlaces(config) {
  return manifest.configContracts.secretInputs.paths.flatMap(({ path }) => places(config, path.split("."), ""));
}

const isHeader = (path) => /(^|\.)(headers|serviceParameters)[.[]/.test(path);

/**
 * Marks the values of `config` that are SecretRefs in `source`, the settings as written. The mark lets the library
 * recognize a credential in a header of any name. Returns a copy, or `config` itself if it has no such value.
 */
export function markResolved(config, source) {
  const written = secretPlaces(source).filter(({ value }) => typeof value === "object" && value !== null);
  const references = new Set(written.map(({ path }) => path));
  const isResolved = ({ path, value }) => typeof value === "string" && value !== "" && references.has(writtenPath(path, config, source));
  if (!secretPlaces(config).some(isResolved)) return config;
  const marked = structuredClone(config);
  for (const { holder, key, value } of secretPlaces(marked).filter(isResolved)) holder[key] = { source: "resolved", id: value };
  return marked;
}

/**
 * Returns the path in `source` of a setting of `config`. The two configurations may order targets differently, so a target
 * is found by its alias; if `source` has no such alias, as for a `${VARIABLE}` that the host replaces, by its index.
 */
function writtenPath(path, { targets }, source) {
  return path.replace(/^targets\[(\d+)\]/, (_, index) => {
    const at = Array.isArray(source.targets) ? source.targets.findIndex((target) => target?.alias === targets[index]?.alias) : -1;
    return `targets[${at < 0 ? index : at}]`;
  });
}

/**
 * Returns the places of plain-text credentials. Like the library, detects a credential in a header by its name or its
 * length.
 */
export function plaintextSecrets(config) {
  return secretPlaces(config).filter(
    ({ key, path, value }) => typeof value === "string" && (!isHeader(path) || value.length >= MIN_CREDENTIAL_CHARS || CREDENTIAL_WORDS.some((word) => key.toLowerCase().includes(word))),
  );
}

/**
 * Returns the paths of credentials that are too short for redaction. `resolved` is `config` with the values of its
 * SecretRefs.
 */
export function shortSecrets(config, resolved) {
  const references = secretPlaces(config).filter(({ value }) => typeof value === "object");
  const credentials = new Set([...references, ...plaintextSecrets(config)].map(({ path }) => path));
  const isShort = (value) => typeof value === "string" && value !== "" && Buffer.byteLength(value) < MIN_REDACTED_BYTES;
  return secretPlaces(resolved).flatMap(({ path, value }) => (credentials.has(path) && isShort(value) ? [path] : []));
}

/**
 * @param {any} holder
 * @param {string[]} steps
 * @param {string} before
 * @returns {{ holder: any, key: string, path: string, value: unknown }[]}
 */
function places(holder, [key, ...rest], before) {
  if (typeof holder !== "object" || holder === null) return [];
  const keys = key === "*" ? Object.keys(holder) : Object.hasOwn(holder, key) ? [key] : [];
  return keys.flatMap((name) => {
    const step = Array.isArray(holder) ? `[${name}]` : /^[A-Za-z_]\w*$/.test(name) ? `.${name}` : `[${JSON.stringify(name)}]`;
    const path = `${before}${step}`.replace(/^\./, "");
    return rest.length > 0 ? places(holder[name], rest, path) : [{ holder, key: name, path, value: holder[name] }];
  });
}

/**
 * Returns a copy of `config` with the SecretRefs that the host could resolve, and the unresolved references: `[{ path,
 * reason }]`. The copy keeps the unresolved references, so that the library refuses only the targets that need them.
 */
export async function resolveSecrets(config, { host, env, place }) {
  const resolved = structuredClone(config);
  const unresolved = [];
  const references = secretPlaces(resolved).filter(({ value }) => typeof value === "object" && value !== null);
  if (references.length === 0) return { resolved, unresolved };
  const { resolveConfiguredSecretInputString } = await import("openclaw/plugin-sdk/secret-input-runtime");
  for (const { holder, key, path, value } of references) {
    const answer = await resolveConfiguredSecretInputString({
      config: host,
      env,
      value,
      path: `${place}.${path}`,
      unresolvedReasonStyle: "detailed",
    });
    if (typeof answer.value === "string") holder[key] = answer.value;
    else unresolved.push({ path: `${place}.${path}`, reason: answer.unresolvedRefReason ?? "the reference has no value" });
  }
  return { resolved, unresolved };
}
