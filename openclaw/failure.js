// Why the tool is missing, in a sentence an operator can act on.

/**
 * The line to log. The library throws config errors as JSON `{code, message, path}`, where `path` is a JSON Pointer into
 * the settings at `place`; anything else is a failure to load.
 */
export function describeFailure(error, place) {
  const problem = parseConfigError(error);
  if (!problem) return `remote_agent is not available: ${error?.message ?? error}`;
  const { message, path = "" } = problem;
  const pointer = path && !message.includes(path) ? ` at "${path}"` : "";
  return (
    `remote_agent is not available: ${place} is not valid${pointer}: ${message.replace(/\.$/, "")}. ` +
    "Correct the value; OpenClaw loads the plugin again when the file is saved."
  );
}

function parseConfigError(error) {
  try {
    const problem = JSON.parse(error.message);
    return typeof problem?.message === "string" ? problem : undefined;
  } catch {
    return undefined;
  }
}
