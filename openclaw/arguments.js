// Models fill optional fields with nothing ("", null, [], {}) and write camelCase now and then; neither means anything
// to the contract, which would refuse both. This runs before OpenClaw validates the arguments.

/** A function that cleans arguments by `schema`, the tool's parameters. What it has nothing to change in, it returns as is. */
export function argumentCleaner(schema) {
  return (value) => clean(value, schema);
}

function clean(value, schema) {
  if (Array.isArray(value)) return schema?.items ? mapArray(value, (item) => clean(item, schema.items)) : value;
  // Maps such as `metadata` have no properties of their own: what is in them belongs to the caller.
  return isObject(value) && schema?.properties ? cleanObject(value, schema) : value;
}

function cleanObject(object, { properties, required = [] }) {
  let changed = false;
  const entries = [];
  for (const [key, value] of Object.entries(object)) {
    const name = knownName(key, object, properties);
    const cleaned = Object.hasOwn(properties, name) ? clean(value, properties[name]) : value;
    // A part's own content (`text` of a text part, `data` of a data part) may well be empty.
    const optional = !required.includes(name) && name !== object.kind;
    const dropped = optional && isEmpty(cleaned);
    changed ||= dropped || name !== key || cleaned !== value;
    if (!dropped) entries.push([name, cleaned]);
  }
  return changed ? Object.fromEntries(entries) : object;
}

/** The snake_case name of a camelCase key, when only that one is a field and the caller did not give it too. */
function knownName(key, object, properties) {
  if (Object.hasOwn(properties, key)) return key;
  const snake = key.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
  return Object.hasOwn(properties, snake) && !Object.hasOwn(object, snake) ? snake : key;
}

function isEmpty(value) {
  if (value === null || value === undefined || value === "") return true;
  if (Array.isArray(value)) return value.length === 0;
  return isObject(value) && Object.keys(value).length === 0;
}

function mapArray(array, change) {
  const mapped = array.map(change);
  return mapped.some((item, at) => item !== array[at]) ? mapped : array;
}

function isObject(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
