// What the running gateway answers about targets and tasks, for the commands and Control UI.

/** Registers `remoteAgent.targets` and `remoteAgent.tasks`. */
export function registerGatewayMethods(api, config, tasks) {
  const scope = { scope: "operator.read" };
  api.registerGatewayMethod?.("remoteAgent.targets", ({ respond }) => respond(true, { targets: targetsOf(config) }), scope);
  api.registerGatewayMethod?.("remoteAgent.tasks", ({ respond }) => respond(true, { tasks: tasks.list() }), scope);
}

function targetsOf({ targets = [] }) {
  return targets.map(({ alias, baseUrl, description, default: isDefault }) => ({ alias, url: baseUrl, description, default: isDefault === true }));
}
