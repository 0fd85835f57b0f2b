// The tasks that calls of this process delegated, from their latest results.
/** @import {Envelope, Route, Summary} from "./types.d.ts" */

const MAX_TASKS = 200;
const MAX_TEXT_CHARS = 200;
const MAX_ID_CHARS = 1024;

/** A bounded list of delegated tasks. The least recently updated task is evicted first, and a task with a very long id is left out. */
export class DelegatedTasks {
  #tasks = new Map();
  #now;

  constructor(now = Date.now) {
    this.#now = now;
  }

  /**
   * Records the task of `envelope`.
   * @param {Envelope} envelope
   */
  observe({ ok, action, summary, error }) {
    const latest = ok ? summary : error?.details?.latest_event_summary;
    const { target, task } = latest?.continuation ?? {};
    if (!task?.task_id || task.task_id.length > MAX_ID_CHARS) return;
    const key = JSON.stringify([target?.target_url, task.task_id]);
    const now = this.#now();
    const { since = now } = this.#tasks.get(key) ?? {};
    this.#tasks.delete(key);
    this.#tasks.set(key, { route: target, target: target?.target_alias ?? target?.target_url, taskId: task.task_id, handle: task.task_handle, state: task.status, action, since, updated: now, lastWord: lastWord(latest ?? {}) });
    if (this.#tasks.size > MAX_TASKS) this.#tasks.delete(this.#tasks.keys().next().value);
  }

  /**
   * Returns the target of a task handle, in the form of a continuation.
   * @param {string} handle
   * @returns {Route | undefined}
   */
  targetOf(handle) {
    return this.#tasks.values().find((task) => task.handle === handle)?.route;
  }

  /**
   * Returns whether an earlier result has a target at this URL, and with this card path.
   * @param {Route} route
   */
  hasRoute({ target_url: url, card_path: path }) {
    return this.#tasks.values().some(({ route }) => route?.target_url === url && (path === undefined || route.card_path === path));
  }

  /** Returns the URLs of the targets that have a task with this id. */
  urlsOf(taskId) {
    return [...this.#tasks.values()].filter((task) => task.taskId === taskId).map(({ route }) => route?.target_url);
  }

  /** Returns the tasks, the latest first, with their age in milliseconds. */
  list() {
    const now = this.#now();
    return [...this.#tasks.values()].reverse().map(({ route, ...task }) => ({ ...task, ageMs: now - task.since }));
  }
}

/** Merges `tasks` with the tasks in `targets`, which agents listed. A state from an agent's list takes precedence. */
export function withAgentTasks(tasks, targets, now = Date.now()) {
  const key = ({ target, taskId }) => JSON.stringify([target, taskId]);
  const all = new Map(tasks.map((task) => [key(task), task]));
  for (const { target_alias: target, tasks: listed = [] } of targets) {
    for (const { task_id: taskId, status: state, status_message: said, updated_at: updated } of listed) {
      const task = { target, taskId, state, lastWord: excerpt(said) };
      const ageMs = Math.max(0, now - Date.parse(updated));
      if (Number.isFinite(ageMs)) task.ageMs = ageMs;
      const known = all.get(key(task));
      all.set(key(task), known ? { ...known, state } : task);
    }
  }
  return [...all.values()];
}

/**
 * Returns the beginning of the last text in a result.
 * @param {Summary} summary
 */
export function lastWord({ status_message: said, message_text: message, artifacts = [] }) {
  const text = artifacts.at(-1)?.parts?.find((part) => part.kind === "text")?.text;
  return excerpt(said ?? text ?? message);
}

/** Returns the beginning of a text as a copy, because a slice would keep the whole text in memory. */
function excerpt(text) {
  return text && Buffer.from(text.slice(0, MAX_TEXT_CHARS), "utf16le").toString("utf16le");
}
