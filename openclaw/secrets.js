// Credentials in the settings: where they may stand, and what their references lead to.
import manifest from "./openclaw.plugin.json" with { type: "json" };

// The rule of the library for headers whose values are credentials.
const CREDENTIAL_WORDS = ["auth", "cookie", "key", "token", "secret", "password", "session"];
const MIN_CREDENTIAL_CHARS = 20;

/** Every place of `config` that the manifest declares as a secret input and that has a value: `{ holder, key, path, value }`. */
export function secretPlaces(config) {
  return manifest.configContracts.secretInputs.paths.flatMap(({ path }) => places(config, path.split("."), ""));
}

const isHeader = (path) => /(^|\.)(headers|serviceParameters)[.[]/.test(path);

/**
 * A copy of `config` that marks the values of headers that are SecretRefs in `source`, the same settings as written. The library recognizes
 * every other credential by its place.
 */
export function markResolved(config, source) {
  const marked = structuredClone(config);
  const references = new Set(secretPlaces(source).flatMap(({ path, value }) => (typeof value === "object" && isHeader(path) ? [path] : [])));
  for (const { holder, key, path, value } of secretPlaces(marked)) if (references.has(path) && typeof value === "string" && value) holder[key] = { source: "resolved", id: value };
  return marked;
}

/** The places of credentials in plain text. A header is one by its name or by its length, as in the library. */
export function plaintextSecrets(config) {
  return secretPlaces(config).filter(
    ({ key, path, value }) => typeof value === "string" && (!isHeader(path) || value.length >= MIN_CREDENTIAL_CHARS || CREDENTIAL_WORDS.some((word) => key.toLowerCase().includes(word))),
  );
}

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
 * A copy of `config` with its SecretRefs resolved by the host, and the references that did not resolve: `[{ path, reason }]`.
 * Those stay as they are in the copy, so that the library refuses only the targets that need them.
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
