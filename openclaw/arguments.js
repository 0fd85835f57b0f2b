// Cleans the arguments of the tool before OpenClaw validates them. Models fill optional fields with empty values ("", null,
// [], {}) and sometimes use camelCase. The schema would refuse both.

/** Returns a function that cleans arguments by `schema`, the tool's parameters. It returns clean arguments unchanged. */
export function argumentCleaner(schema) {
  return (value) => clean(value, schema);
}

function clean(value, schema) {
  if (Array.isArray(value)) return schema?.items ? mapArray(value, (item) => clean(item, schema.items)) : value;
  // Maps such as `metadata` have no declared properties: the caller defines their content.
  return isObject(value) && schema?.properties ? cleanObject(value, schema) : value;
}

function cleanObject(object, { properties, required = [] }) {
  let changed = false;
  const entries = [];
  for (const [key, value] of Object.entries(object)) {
    const name = knownName(key, object, properties);
    const cleaned = Object.hasOwn(properties, name) ? clean(value, properties[name]) : value;
    // The content of a part (`text` of a text part, `data` of a data part) may be empty.
    const optional = !required.includes(name) && name !== object.kind;
    const dropped = optional && isEmpty(cleaned);
    changed ||= dropped || name !== key || cleaned !== value;
    if (!dropped) entries.push([name, cleaned]);
  }
  return changed ? Object.fromEntries(entries) : object;
}

/** Returns the snake_case name of a camelCase key if it is a field and the caller did not also set it. */
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
