// Describes why the tool is unavailable, for the operator.

/**
 * Returns the line to log. The library throws configuration errors as JSON `{code, message, path}`, where `path` is a JSON
 * Pointer into the settings at `place`. Any other error means that the library could not be loaded.
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
