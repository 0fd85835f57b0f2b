// The followed tasks as flows of OpenClaw (`openclaw tasks flow list`), where an operator may cancel them.
import { FAILED_STATES, INTERRUPTED_STATES } from "./tasks.js";
import { line } from "./text.js";
/** @import {FlowRecord, FollowedRecord, ManagedFlows} from "./types.d.ts" */

const CONTROLLER = "remote-agent/task";
const ENDED = ["succeeded", "failed", "cancelled", "lost"];
const MAX_NAME_CHARS = 100;

/** The flows of one gateway. */
export class Flows {
  #bind;
  #warn;
  /** The last change of each task: they follow one another. @type {Map<string, Promise<unknown>>} */
  #changes = new Map();

  /**
   * @param {(sessionKey: string) => ManagedFlows} bind returns OpenClaw's flows of a session
   * @param {(line: string) => void} warn
   */
  constructor(bind, warn) {
    this.#bind = bind;
    this.#warn = warn;
  }

  /**
   * Brings the flow of a task into its state, and creates it if there is none. It ends when the gateway follows the task no more.
   * @param {FollowedRecord} record
   */
  sync(record, isEnd = false) {
    const { state } = record;
    const change = this.#after(record.key, () => this.#sync(record, state, isEnd)).catch((error) => this.#warn(`the flow of a remote task is not in step with it: ${line(error?.message ?? error)}`));
    this.#changes.set(record.key, change);
    void change.finally(() => void (this.#changes.get(record.key) === change && this.#changes.delete(record.key)));
  }

  /**
   * Returns whether an operator canceled the flow of a task.
   * @param {FollowedRecord} record
   * @returns {Promise<boolean>}
   */
  async isCanceled(record) {
    const flow = await this.#after(record.key, () => this.#find(record)).catch(() => undefined);
    return flow !== undefined && (flow.status === "cancelled" || typeof flow.cancelRequestedAt === "number");
  }

  /**
   * @template T
   * @param {string} key
   * @param {() => Promise<T>} run
   * @returns {Promise<T>}
   */
  async #after(key, run) {
    await this.#changes.get(key);
    return await run();
  }

  /** @param {FollowedRecord} record */
  async #sync(record, state = "", isEnd) {
    const flows = this.#bind(record.caller.session_key);
    let flow = await this.#find(record);
    if (!flow && isEnd) return;
    flow ??= await flows.createManaged({ controllerId: CONTROLLER, goal: goalOf(record), status: "running", currentStep: state, notifyPolicy: "silent", stateJson: { key: record.key } });
    if (ENDED.includes(flow.status)) return;
    const change = { flowId: flow.flowId, expectedRevision: flow.revision };
    if (isEnd) await (FAILED_STATES.includes(state) ? flows.fail({ ...change, blockedSummary: state }) : flows.finish(change));
    else if (INTERRUPTED_STATES.includes(state) && (flow.status !== "waiting" || flow.currentStep !== state)) await flows.setWaiting({ ...change, currentStep: state, waitJson: { kind: "input" } });
    else if (!INTERRUPTED_STATES.includes(state) && (flow.status === "waiting" || flow.currentStep !== state)) await flows.resume({ ...change, status: "running", currentStep: state });
  }

  /**
   * Returns the flow of a task that is followed, or the one that an operator canceled: a canceled task has no other. OpenClaw stores
   * flows, so the next gateway finds them.
   * @param {FollowedRecord} record
   * @returns {Promise<FlowRecord | undefined>}
   */
  async #find(record) {
    const all = (await this.#bind(record.caller.session_key).list()).filter(({ controllerId, stateJson }) => controllerId === CONTROLLER && stateJson?.key === record.key);
    return all.find(({ status }) => status === "cancelled") ?? all.find(({ status }) => !ENDED.includes(status));
  }
}

/** @param {FollowedRecord} record */
function goalOf({ continuation: { target, task } }) {
  return `${line(target.target_alias ?? target.target_url)}: ${line(task.task_id)}`.slice(0, MAX_NAME_CHARS);
}
