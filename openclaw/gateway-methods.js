// Methods of the running gateway about targets and tasks, for the commands and Control UI.
import { targetsIn } from "./config.js";

/** @import {Api, Lease, Settings} from "./types.d.ts" */

/**
 * Registers `remoteAgent.targets` and `remoteAgent.tasks`, and returns functions that compute their results. `lease()`
 * returns the instance, or undefined while the tool is disabled: the manifest always declares the methods.
 * @param {Api} api
 * @param {Settings} config
 * @param {() => Lease | undefined} lease
 */
export function registerGatewayMethods(api, config, lease) {
  /** @type {{ scope: "operator.read" }} */
  const scope = { scope: "operator.read" };
  const tasks = () => {
    const instance = lease();
    return instance ? withFollowed(instance.tasks.list(), instance.followers.list()) : [];
  };
  const rows = { targets: () => targetsOf(config), tasks };
  api.registerGatewayMethod?.("remoteAgent.targets", ({ respond }) => respond(true, { targets: rows.targets() }), scope);
  api.registerGatewayMethod?.("remoteAgent.tasks", ({ respond }) => respond(true, { tasks: rows.tasks() }), scope);
  return rows;
}

/** @param {Settings} config */
function targetsOf(config) {
  return targetsIn(config).map(({ alias, baseUrl, description, default: isDefault }) => ({ alias, url: withoutSecrets(baseUrl), description, default: isDefault === true }));
}

/** Returns a URL without user, password, query and fragment. The library refuses such a URL, but the settings may contain one. */
function withoutSecrets(url) {
  if (!URL.canParse(url)) return "";
  const { origin, pathname } = new URL(url);
  return pathname === "/" && !url.endsWith("/") ? origin : origin + pathname;
}

/** Marks the tasks that wake a session when they end, and adds those that an earlier gateway started. */
function withFollowed(tasks, followed) {
  const marked = new Map(tasks.map((task) => [JSON.stringify([task.target, task.taskId]), task]));
  for (const { target, taskId, state, since } of followed) {
    const key = JSON.stringify([target, taskId]);
    const ageMs = Date.now() - Date.parse(since);
    marked.set(key, { target, taskId, ageMs, ...marked.get(key), ...(state ? { state } : {}), notify: true });
  }
  return [...marked.values()];
}
