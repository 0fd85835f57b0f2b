// What the running gateway answers about targets and tasks, for the commands and Control UI.

/** Registers `remoteAgent.targets` and `remoteAgent.tasks`. */
export function registerGatewayMethods(api, config, { tasks, followers }) {
  const scope = { scope: "operator.read" };
  api.registerGatewayMethod?.("remoteAgent.targets", ({ respond }) => respond(true, { targets: targetsOf(config) }), scope);
  api.registerGatewayMethod?.("remoteAgent.tasks", ({ respond }) => respond(true, { tasks: withFollowed(tasks.list(), followers.list()) }), scope);
}

function targetsOf({ targets = [] }) {
  return targets.map(({ alias, baseUrl, description, default: isDefault }) => ({ alias, url: baseUrl, description, default: isDefault === true }));
}

/** Marks the tasks whose end wakes a session, and adds those that an earlier gateway started. */
function withFollowed(tasks, followed) {
  const marked = new Map(tasks.map((task) => [JSON.stringify([task.target, task.taskId]), task]));
  for (const { target, taskId, state, since } of followed) {
    const key = JSON.stringify([target, taskId]);
    const ageMs = Date.now() - Date.parse(since);
    marked.set(key, { target, taskId, ageMs, ...marked.get(key), ...(state ? { state } : {}), notify: true });
  }
  return [...marked.values()];
}
