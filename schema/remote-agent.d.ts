// Types of the tool remote_agent and of its HTTP API. Generated: `UPDATE=1 cargo real --test suite mcp::types`.

export interface Request {
  /**
   * The operation. list_targets: list the agents. send: send a message to an agent. watch: follow a task until it ends or needs input. status: get the state of a task once. cancel: request the cancellation of a task.
   */
  action: "list_targets" | "send" | "watch" | "status" | "cancel";
  /**
   * list_targets only: words for the work. The agents that fit best, by their skills, tags and descriptions, come first.
   */
  query?: string;
  /**
   * Name of the agent, as list_targets shows it. Preferred over target_url.
   */
  target_alias?: string;
  /**
   * Base URL of the agent, if it is configured or the policy allows it. Prefer target_alias; if both are given, target_alias decides.
   */
  target_url?: string;
  /**
   * send only: names of several agents, in place of target_alias. Each works on the message on its own.
   *
   * @minItems 1
   */
  target_aliases?: [string, ...string[]];
  /**
   * With target_aliases. all: wait for every agent. first: return when the first task completes, and cancel the others; what those did stays done, so not for work with side effects. vote: count the answers that are one of choices. Default: all.
   */
  mode?: "all" | "first" | "vote";
  /**
   * With mode=vote: how many equal answers decide. Default: more than half.
   */
  quorum?: number;
  /**
   * With mode=vote: the answers that count. The message must ask for exactly one of them.
   *
   * @minItems 2
   */
  choices?: [string, string, ...string[]];
  /**
   * With mode=vote: JSON Pointer to the answer in a data part, in place of the whole text.
   */
  choice_pointer?: string;
  /**
   * send only, required: the message. Each part is text, a file or data.
   *
   * @minItems 1
   */
  parts?: [
    (
      | {
          /**
           * text, file or data.
           */
          kind: "text";
          /**
           * The text of a text part.
           */
          text: string;
          /**
           * Extra data about the part.
           */
          metadata?: {
            [k: string]: unknown;
          };
        }
      | (
          | {
              [k: string]: unknown;
            }
          | {
              [k: string]: unknown;
            }
        )
      | {
          /**
           * text, file or data.
           */
          kind: "data";
          /**
           * The JSON object of a data part.
           */
          data: {
            [k: string]: unknown;
          };
          /**
           * Extra data about the part.
           */
          metadata?: {
            [k: string]: unknown;
          };
        }
    ),
    ...(
      | {
          /**
           * text, file or data.
           */
          kind: "text";
          /**
           * The text of a text part.
           */
          text: string;
          /**
           * Extra data about the part.
           */
          metadata?: {
            [k: string]: unknown;
          };
        }
      | (
          | {
              [k: string]: unknown;
            }
          | {
              [k: string]: unknown;
            }
        )
      | {
          /**
           * text, file or data.
           */
          kind: "data";
          /**
           * The JSON object of a data part.
           */
          data: {
            [k: string]: unknown;
          };
          /**
           * Extra data about the part.
           */
          metadata?: {
            [k: string]: unknown;
          };
        }
    )[]
  ];
  /**
   * Handle of a task, from an earlier result (summary.continuation.task.task_handle). For send, watch, status and cancel.
   */
  task_handle?: string;
  /**
   * summary.continuation of an earlier result, unchanged. The best way to continue a task or a conversation; also works after a restart. Replaces task_handle, task_id, context_id, target_alias and target_url: omit those.
   */
  continuation?: {
    /**
     * The agent.
     */
    target?: {
      /**
       * Its base URL.
       */
      target_url: string;
      /**
       * The path of its agent card.
       */
      card_path: string;
      /**
       * Its transports, in order of preference.
       *
       * @minItems 1
       */
      preferred_transports: ["JSONRPC" | "HTTP+JSON" | "GRPC" | "GATEWAY", ...("JSONRPC" | "HTTP+JSON" | "GRPC" | "GATEWAY")[]];
      /**
       * Its name.
       */
      target_alias?: string;
    };
    /**
     * The task to continue.
     */
    task?: {
      /**
       * The task's handle.
       */
      task_handle?: string;
      /**
       * The task's id at the agent.
       */
      task_id: string;
      /**
       * State of the task.
       */
      status?: string;
      /**
       * Whether send can answer it.
       */
      can_resume_send?: boolean;
      /**
       * Former name of can_resume_send.
       */
      can_send?: boolean;
      /**
       * Whether status can report it.
       */
      can_status?: boolean;
      /**
       * Whether it can be cancelled.
       */
      can_cancel?: boolean;
      /**
       * Whether it can be watched.
       */
      can_watch?: boolean;
    };
    /**
     * The conversation to continue; for send only.
     */
    conversation?: {
      /**
       * The conversation's id.
       */
      context_id: string;
      /**
       * Whether send can continue it.
       */
      can_send?: true;
    };
    /**
     * The group of a send to target_aliases; for watch, status and cancel.
     */
    group?: {
      [k: string]: unknown;
    };
  };
  /**
   * send only: your own id for the message.
   */
  message_id?: string;
  /**
   * Id of the task at the agent, if there is no valid task_handle; requires target_alias.
   */
  task_id?: string;
  /**
   * send only: id of the conversation to continue with a new task. Not for watch, status or cancel.
   */
  context_id?: string;
  /**
   * send only: earlier tasks that this message refers to without continuing them.
   *
   * @minItems 1
   */
  reference_task_ids?: [string, ...string[]];
  /**
   * send only. required: fail unless the agent creates a task that can be followed. Default: optional.
   */
  task_requirement?: "optional" | "required";
  /**
   * send only: receive updates until the task ends or needs input, or the wait expires. Does not make the agent create a task.
   */
  follow_updates?: boolean;
  /**
   * send only: if the task continues after this call, wake this session once when it ends or needs input. Implies follow_updates unless blocking is given. Requires a host that can wake sessions. Default: the target's setting.
   */
  notify?: boolean;
  /**
   * send only: media types that you accept, in order of preference.
   */
  accepted_output_modes?: string[];
  /**
   * send only, not with follow_updates. false: the agent answers at once and continues to work; true: it answers when the task ends or needs input. Always false with task_requirement=required.
   */
  blocking?: boolean;
  /**
   * send and status: maximum number of messages to return, the newest first.
   */
  history_length?: number;
  /**
   * status only: id of an artifact, as the result quotes it. The answer is a page of its text.
   */
  artifact_id?: string;
  /**
   * status with artifact_id only: start of the page, in characters. Default: 0.
   */
  offset?: number;
  /**
   * Timeout of this call, in milliseconds. A call that follows a task then returns the result so far, and the task continues.
   */
  timeout_ms?: number;
  /**
   * Extra HTTP headers for the agent. Headers that carry credentials or control the connection cannot be set.
   */
  service_parameters?: {
    [k: string]: string;
  };
  /**
   * send only: extra data for the agent.
   */
  metadata?: {
    [k: string]: unknown;
  };
  /**
   * send only: webhook that receives the agent's push notifications.
   */
  push_notification_config?: {
    /**
     * URL of the webhook.
     */
    url: string;
    /**
     * Id of this registration.
     */
    id?: string;
    /**
     * Token that the agent sends with each notification.
     */
    token?: string;
    /**
     * Authentication at the webhook.
     */
    authentication?: {
      /**
       * Accepted schemes, such as Bearer.
       *
       * @minItems 1
       */
      schemes: [string, ...string[]];
      /**
       * Credentials for the webhook.
       */
      credentials?: string;
    };
  };
}

/**
 * The envelopes and updates of the tool. `raw`, the parts of artifacts and `rpcData` contain the agent's values unchanged.
 */
export type Result = ListedTargets | Sent | Watched | LookedAt | Grouped | Update | Failure;
/**
 * A base URL.
 */
export type Url = string;
/**
 * The status of an agent of the local gateway.
 */
export type AgentStatus = "online" | "offline" | "busy" | "idle" | "error" | "unknown";
/**
 * The members of the triad, with their status.
 *
 * @minItems 1
 */
export type TriadMembers = [
  {
    name: string;
    status: AgentStatus;
  },
  ...{
    name: string;
    status: AgentStatus;
  }[]
];
/**
 * UTC, ISO 8601 with milliseconds.
 */
export type Time = string;
/**
 * The error of a failed call.
 */
export type Error = {
  [k: string]: unknown;
} & {
  /**
   * The class of the error.
   */
  code:
    | "VALIDATION_ERROR"
    | "TARGET_RESOLUTION_ERROR"
    | "UNKNOWN_TASK_HANDLE"
    | "EXPIRED_TASK_HANDLE"
    | "TASK_REQUIRED_BUT_MESSAGE_RETURNED"
    | "A2A_SDK_ERROR"
    | "INTERNAL_ERROR";
  /**
   * The reason of the error, finer than `code`.
   */
  reason:
    | "invalid_request"
    | "contradiction"
    | "unknown_artifact"
    | "target_not_allowed"
    | "agent_not_allowed"
    | "delegation_too_deep"
    | "budget_exceeded"
    | "budget_unusable"
    | "person_required"
    | "ambiguous_target"
    | "credential_unresolved"
    | "unknown_handle"
    | "expired_handle"
    | "message_returned"
    | "dns"
    | "unreachable"
    | "tls"
    | "address_refused"
    | "redirect_refused"
    | "http_status"
    | "auth_required"
    | "token_unavailable"
    | "rpc_error"
    | "invalid_response"
    | "too_large"
    | "event_too_large"
    | "too_many_artifacts"
    | "artifacts_too_large"
    | "busy"
    | "target_unavailable"
    | "connection_cut"
    | "stream_cut"
    | "timeout"
    | "aborted"
    | "unsupported_transport"
    | "unsupported_version"
    | "extension_required"
    | "card_unavailable"
    | "card_malformed"
    | "card_signature"
    | "card_changed"
    | "pin_unusable"
    | "unaddressable"
    | "agent_not_found"
    | "agent_offline"
    | "agent_busy"
    | "agent_error"
    | "connection_refused"
    | "connection_timeout"
    | "connection_reset"
    | "protocol_error"
    | "proxy_auth_required"
    | "invalid_json"
    | "missing_field"
    | "invalid_type"
    | "unknown_type"
    | "invalid_content"
    | "session_not_found"
    | "session_expired"
    | "session_locked"
    | "session_corrupt"
    | "auth_failed"
    | "token_expired"
    | "permission_denied"
    | "task_forgotten"
    | "own_session"
    | "internal"
    | "shutting_down";
  /**
   * Whether the same call may succeed later.
   */
  retryable: boolean;
  /**
   * The failed operation and its cause.
   */
  message: string;
  /**
   * The place of the fault in the request, as a JSON Pointer. Absent if the request did not cause the error.
   */
  path?: string;
  /**
   * The message is the tool's own and quotes no agent. Absent if it may quote one: show it as the agent's text.
   */
  quotes_peer?: false;
  details: Details;
};
/**
 * What differs from the accepted card, what matters most first.
 *
 * @minItems 1
 * @maxItems 20
 */
export type CardChanges =
  | [
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      }
    ]
  | [
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      }
    ]
  | [
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      }
    ]
  | [
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      }
    ]
  | [
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      }
    ]
  | [
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      }
    ]
  | [
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      }
    ]
  | [
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      }
    ]
  | [
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      }
    ]
  | [
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      }
    ]
  | [
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      }
    ]
  | [
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      }
    ]
  | [
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      }
    ]
  | [
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      }
    ]
  | [
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      }
    ]
  | [
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      }
    ]
  | [
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      }
    ]
  | [
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      }
    ]
  | [
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      }
    ]
  | [
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      },
      {
        /**
         * The place in the card. Skills are named by their ids and extensions by their URIs.
         */
        path: string;
        /**
         * What was accepted; null if it was not there.
         */
        old: string | null;
        /**
         * What the card has; null if it is gone.
         */
        new: string | null;
        /**
         * Stops calls where pins are enforced, is reported, or is only shown by `remote-agent pin`.
         */
        class: "stop" | "report" | "note";
      }
    ];
/**
 * The number of further changes.
 */
export type MoreChanges = number;
/**
 * A transport of A2A, or the local gateway.
 */
export type Transport = "JSONRPC" | "HTTP+JSON" | "GRPC" | "GATEWAY";
/**
 * The used version of A2A, or the dialect of the local gateway.
 */
export type ProtocolVersion = "0.3" | "1.0" | "a2a-v1" | "openclaw/4" | "heretek-js";
export type Count = number;
/**
 * The data for a request that continues. Pass it back unchanged.
 */
export type Continuation = Continuation1 & {
  target: ContinuationTarget;
  /**
   * The task. `watch`, `status` and `cancel` take this continuation.
   */
  task?: {
    task_handle: TaskHandle;
    task_id: string;
    /**
     * The state of the task, as a word of A2A 0.3.
     */
    status?: string;
    /**
     * Whether `send` can answer it.
     */
    can_resume_send: boolean;
    /**
     * The former name of `can_resume_send`.
     */
    can_send: boolean;
    can_status: true;
    /**
     * Whether it can be cancelled.
     */
    can_cancel: boolean;
    /**
     * Whether it can be watched.
     */
    can_watch: boolean;
  };
  /**
   * The conversation. `send` takes this continuation.
   */
  conversation?: {
    context_id: string;
    can_send: true;
  };
};
export type Continuation1 = {
  [k: string]: unknown;
};
/**
 * The handle of a task, for requests to this process.
 */
export type TaskHandle = string;
/**
 * How the answers become the result.
 */
export type GroupMode = "all" | "first" | "vote";

/**
 * The envelope of list_targets.
 */
export interface ListedTargets {
  ok: true;
  operation: "remote_agent";
  action: "list_targets";
  summary: {
    /**
     * The configured targets, followed by the agents of the local gateway.
     */
    targets: ListedTarget[];
    gateway?: Gateway;
    /**
     * Why the record of budgets cannot be used, with its path, for an operator who lists tasks too.
     */
    budget_error?: string;
  };
  /**
   * The same targets, in the same order.
   */
  raw: RawListedTarget[];
}
/**
 * A configured target, or an agent of the local gateway.
 */
export interface ListedTarget {
  /**
   * The alias for requests.
   */
  target_alias: string;
  target_url: Url;
  /**
   * Whether requests without a target use it.
   */
  default: boolean;
  /**
   * Keywords of the configuration.
   */
  tags: string[];
  /**
   * Example messages.
   */
  examples: string[];
  /**
   * The agent's name in its card.
   */
  target_name?: string;
  /**
   * The purpose of the agent: the configured description, or that of the card.
   */
  description?: string;
  /**
   * The agent's role at the local gateway.
   */
  role?: string;
  status?: AgentStatus;
  members?: TriadMembers;
  /**
   * Whether the card declares streaming.
   */
  streaming_supported?: boolean;
  /**
   * The readable part of the agent's card.
   */
  peer_card: {
    /**
     * The transport that the agent prefers.
     */
    preferred_transport?: string;
    /**
     * Further interfaces of the agent.
     */
    additional_interfaces: {
      transport: string;
      url: string;
    }[];
    /**
     * The capabilities that the card declares. Absent if it declares none.
     */
    capabilities: {
      /**
       * The agent supports streaming.
       */
      streaming?: boolean;
      /**
       * The agent supports push notifications.
       */
      push_notifications?: boolean;
      /**
       * The agent keeps a history of task states.
       */
      state_transition_history?: boolean;
      /**
       * The protocol extensions in the card.
       */
      extensions?: {}[];
    };
    /**
     * The accepted media types.
     */
    default_input_modes: string[];
    /**
     * The media types of its output.
     */
    default_output_modes: string[];
    /**
     * The skills of the agent.
     */
    skills: {
      id: string;
      name: string;
      description: string;
      /**
       * Keywords.
       */
      tags: string[];
      /**
       * Example messages.
       */
      examples: string[];
      /**
       * The accepted media types, if they differ from the agent's.
       */
      input_modes?: string[];
      /**
       * The media types of its output, if they differ from the agent's.
       */
      output_modes?: string[];
    }[];
  };
  last_refreshed_at: Time;
  last_refresh_error?: Error;
  /**
   * The agent's clock is ahead of this machine's by these seconds, or behind where negative. Absent within a minute.
   */
  clock_skew_seconds?: number;
  card_pin?: CardPin;
  /**
   * Where the card was found, if at the origin of the target and not below its URL. Absent otherwise.
   */
  card_url?: string;
  /**
   * The host's agents that may use a restricted target. Only for an operator.
   */
  allowed_agents?: string[];
  /**
   * How the calls of this process in the last hour fared. For an operator; for others only while calls are refused.
   */
  health?: {
    /**
     * Calls that the target answered or failed, the latest 128 at most.
     */
    calls?: number;
    /**
     * Those without an answer, or with 5xx.
     */
    failed?: number;
    /**
     * The median time of those with an answer.
     */
    p50_ms?: number;
    last_success_at?: Time;
    /**
     * How long calls fail with `target_unavailable`. Absent while they do not.
     */
    retry_after_ms?: number;
  };
  /**
   * The flows of authorization servers in the card of a target without a credential. Only for an operator, who decides about their addresses.
   */
  oauth_flows?: {
    name: string;
    authorization_url?: string;
    device_authorization_url?: string;
    token_url?: string;
    scopes?: string[];
  }[];
  /**
   * The newest tasks that the agent lists for this client. Only where the host asks for them, of agents of A2A 1.0.
   */
  tasks?: {
    task_id: string;
    /**
     * The state of the task.
     */
    status: string;
    /**
     * The agent's last status message.
     */
    status_message?: string;
    /**
     * The time of the state, as the agent gives it.
     */
    updated_at?: string;
    usage?: Usage;
  }[];
  /**
   * The agent has more tasks than these, or did not list them in time.
   */
  tasks_more?: true;
  /**
   * How many elements of the agent's list are no tasks.
   */
  tasks_unreadable?: number;
  tasks_error?: Error;
}
/**
 * Further facts about the error.
 */
export interface Details {
  /**
   * The next step.
   */
  hint: string;
  /**
   * The form of `errors`.
   */
  source?: "ajv";
  tool?: "remote_agent";
  /**
   * The violations of the request.
   *
   * @minItems 1
   * @maxItems 20
   */
  errors?:
    | [Complaint]
    | [Complaint, Complaint]
    | [Complaint, Complaint, Complaint]
    | [Complaint, Complaint, Complaint, Complaint]
    | [Complaint, Complaint, Complaint, Complaint, Complaint]
    | [Complaint, Complaint, Complaint, Complaint, Complaint, Complaint]
    | [Complaint, Complaint, Complaint, Complaint, Complaint, Complaint, Complaint]
    | [Complaint, Complaint, Complaint, Complaint, Complaint, Complaint, Complaint, Complaint]
    | [Complaint, Complaint, Complaint, Complaint, Complaint, Complaint, Complaint, Complaint, Complaint]
    | [Complaint, Complaint, Complaint, Complaint, Complaint, Complaint, Complaint, Complaint, Complaint, Complaint]
    | [Complaint, Complaint, Complaint, Complaint, Complaint, Complaint, Complaint, Complaint, Complaint, Complaint, Complaint]
    | [Complaint, Complaint, Complaint, Complaint, Complaint, Complaint, Complaint, Complaint, Complaint, Complaint, Complaint, Complaint]
    | [
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint
      ]
    | [
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint
      ]
    | [
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint
      ]
    | [
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint
      ]
    | [
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint
      ]
    | [
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint
      ]
    | [
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint
      ]
    | [
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint,
        Complaint
      ];
  /**
   * The number of further violations.
   */
  more_errors?: number;
  /**
   * The unknown or expired handle.
   */
  taskHandle?: string;
  retryHint?: string;
  /**
   * Handles do not survive a restart.
   */
  restartInvalidatesHandles?: true;
  /**
   * Actions that may help.
   *
   * @minItems 1
   */
  suggested_actions?: ["status" | "send", ...("status" | "send")[]];
  /**
   * The handle of a request that contradicts itself.
   */
  task_handle?: string;
  /**
   * The task of the handle.
   */
  handle_task_id?: string;
  /**
   * The task that the request names.
   */
  explicit_task_id?: string;
  /**
   * The conversation of the handle.
   */
  handle_context_id?: string;
  /**
   * The conversation that the request names.
   */
  explicit_context_id?: string;
  handle_target?: NamedTarget;
  explicit_target?: NamedTarget;
  /**
   * The target of an error in `list_targets`, or whose budget does not suffice.
   */
  target_alias?: string;
  reason?: "ambiguous_normalized_url_matches";
  /**
   * The address of several targets.
   */
  normalizedBaseUrl?: string;
  /**
   * The aliases of these targets.
   *
   * @minItems 2
   */
  aliases?: [string, string, ...string[]];
  /**
   * What the budget is for: the target, the chain of delegations or the session, or all targets.
   */
  scope?: "target" | "chain" | "total";
  unit?: "calls" | "seconds" | "tokens" | "usd";
  limit?: number;
  used?: number;
  /**
   * When the use starts from zero. A received chain has no such time: it ends a day after its last message.
   */
  resets?: string;
  /**
   * Whether the agent received the message of a `send`.
   */
  delivered?: "no" | "yes" | "unknown";
  changes?: CardChanges;
  more_changes?: MoreChanges;
  /**
   * The requested artifact.
   */
  artifact_id?: string;
  /**
   * The artifacts of the task.
   *
   * @maxItems 100
   */
  known_artifact_ids?: string[];
  /**
   * The number of further artifacts.
   */
  more_artifacts?: number;
  /**
   * The HTTP status of the agent's response.
   */
  http_status?: number;
  /**
   * How long calls to the target are still refused.
   */
  retry_after_ms?: number;
  /**
   * The reason of the latest call to the target that failed.
   */
  last_reason?: string;
  /**
   * The authentication schemes that the agent requires, by their HTTP names, else those that its card declares.
   *
   * @minItems 1
   */
  auth_schemes?: [string, ...string[]];
  /**
   * The error code of the local gateway.
   */
  gateway_code?: number;
  /**
   * The agent's JSON-RPC error code.
   */
  rpcCode?: number;
  /**
   * The error data of the agent.
   */
  rpcData?: {
    [k: string]: unknown;
  };
  /**
   * The requested or offered transports that the plugin does not support.
   */
  unsupported?: string[];
  /**
   * The supported transports.
   */
  supported?: Transport[];
  capability_diagnostics?: Diagnostics;
  /**
   * The kind of the answer in place of the required task.
   */
  response_kind?: "message";
  /**
   * The conversation of that message.
   */
  context_id?: string;
  /**
   * The id of that message.
   */
  message_id?: string;
  /**
   * The text of that message.
   */
  message_text?: string;
  /**
   * The number of events before the error.
   */
  partial_event_count?: number;
  latest_event_summary?: Summary | GroupSummary;
}
/**
 * One violation of the request, in the form of Ajv.
 */
export interface Complaint {
  /**
   * The place in the request, as a JSON Pointer.
   */
  instancePath: string;
  /**
   * The violated rule.
   */
  schemaPath: string;
  keyword: string;
  params: {};
  message: string;
}
/**
 * A target of a contradiction.
 */
export interface NamedTarget {
  baseUrl: string;
  cardPath: string;
  preferredTransports: string[];
  alias: string | null;
}
/**
 * The media types of a failed `send`, compared with the agent's card.
 */
export interface Diagnostics {
  /**
   * The media types of the sent parts.
   */
  requested_input_modes: string[];
  /**
   * The positions of file parts with an unknown media type.
   */
  unknown_file_attachments: number[];
  /**
   * The media types that the card accepts.
   */
  advertised_input_modes: string[];
  /**
   * The sent media types that are not among these.
   */
  unsupported_input_modes: string[];
  /**
   * The requested media types.
   */
  requested_output_modes: string[];
  /**
   * The output media types of the card.
   */
  advertised_output_modes: string[];
  /**
   * The requested media types that are not among these.
   */
  unsupported_output_modes: string[];
}
/**
 * The result of a call to one target.
 */
export interface Summary {
  /**
   * The alias of a configured target.
   */
  target_alias?: string;
  /**
   * The agent's name in its card.
   */
  target_name?: string;
  target_url: Url;
  protocol_version?: ProtocolVersion;
  transport?: Transport;
  /**
   * Whether the card declares streaming.
   */
  streaming_supported?: boolean;
  /**
   * The extensions that the target activates, by URI: confirmed by the agent; requested, and the agent does not say; or not offered by the card with the expected parameters.
   */
  extensions?: {
    [k: string]: "active" | "unknown" | "not_offered";
  };
  /**
   * The kind of the agent's answer. `continuation` says how to continue.
   */
  response_kind?: "message" | "task";
  /**
   * The agent's message about the state of the task, such as the question of a task that waits for input.
   */
  status_message?: string;
  /**
   * The agent's text: the artifacts of the task, else its status message, else its last message.
   */
  message_text?: string;
  /**
   * The artifacts of the task so far.
   *
   * @minItems 1
   */
  artifacts?: [Artifact, ...Artifact[]];
  /**
   * The wait ended before the task did. The task continues, and this is the result so far.
   */
  wait_expired?: true;
  /**
   * The result may lack something: the agent ended the stream before the task, answers no query about it or reports a state that A2A does not define, or part of what the task produced is missing. With `wait_expired`, the latest queries of the task failed or its events cannot be read.
   */
  incomplete?: true;
  /**
   * Why the latest query of the task failed or an event of it cannot be read, where the wait expired after it or the result is incomplete. It may quote the agent.
   */
  query_error?: string;
  /**
   * The next step for such a task.
   */
  next_step?: string;
  /**
   * What became of a message to a task that was working, as an agent of `remote-agent serve` reports it: it waits for the end of the running turn, its turn has started, or the task ended before.
   */
  message_state?: "queued" | "started" | "dropped";
  /**
   * The host wakes the calling session once, when the task ends or asks.
   */
  notify?: true;
  person?: Person;
  artifact_page?: ArtifactPage;
  usage?: Usage;
  budget_warning?: BudgetLevel;
  card_warning?: CardWarning;
  continuation?: Continuation;
}
/**
 * An artifact, assembled from its chunks.
 */
export interface Artifact {
  artifactId: string;
  name?: unknown;
  description?: unknown;
  /**
   * The parts, as the agent sent them.
   */
  parts: {}[];
  metadata?: unknown;
  extensions?: unknown;
}
/**
 * What became of the agent's questions to a person, where the target has a person for them.
 */
export interface Person {
  /**
   * Of the last question: the agent has the answer; the person declined; the person left it to the model; no person answered in time; no person could be asked; the answer did not fit twice; another call asks about this task; the agent asked too often in one call, or a budget has no room for the answer; or the answer was not sent, or not taken by the agent.
   */
  outcome: "answered" | "declined" | "passed" | "timeout" | "unreachable" | "invalid" | "busy" | "limit" | "unsent";
  /**
   * How many questions the person was asked.
   */
  questions: number;
  /**
   * The id of the last question.
   */
  question_id: string;
  /**
   * Who answered, as far as the host says.
   */
  by?: string;
  /**
   * Whether the agent received an answer whose sending failed.
   */
  delivered?: "yes" | "no" | "unknown";
  /**
   * The person's words, where the target shows them.
   *
   * @minItems 1
   */
  answers?: [string, ...string[]];
}
/**
 * A page of an artifact's text, for a `status` with `artifact_id`: text parts joined, files and data as JSON on separate lines. Numbers count Unicode scalar values.
 */
export interface ArtifactPage {
  artifact_id: string;
  /**
   * The start of the page.
   */
  offset: number;
  /**
   * The start of the next page. Absent at the end.
   */
  next_offset?: number;
  /**
   * The length of the artifact's text.
   */
  total: number;
  /**
   * The text of the page.
   */
  text: string;
  /**
   * The next artifact, if there is one.
   */
  next_artifact_id?: string;
}
/**
 * What the agent reports that the task used so far. Nothing checks its numbers.
 */
export interface Usage {
  /**
   * The numbers of tokens.
   */
  tokens?: {
    input?: Count;
    output?: Count;
    cache_read?: Count;
    cache_write?: Count;
    total?: Count;
  };
  /**
   * The cost in millionths of a US dollar.
   */
  usd_micros?: number;
  /**
   * The currency of a cost that is not in US dollars. It is not converted.
   */
  unknown_currency?: string;
  /**
   * The time that the work took, in milliseconds.
   */
  duration_ms?: number;
  /**
   * Whether the agent calls its numbers an estimate.
   */
  estimated: boolean;
}
/**
 * A budget of which four fifths or more are used, or one in dollars that does not count the agent's currency.
 */
export interface BudgetLevel {
  /**
   * What the budget is for: the target, the chain of delegations or the session, or all targets.
   */
  scope: "target" | "chain" | "total";
  unit: "calls" | "seconds" | "tokens" | "usd";
  limit: number;
  used: number;
  /**
   * UTC, ISO 8601 with milliseconds.
   */
  resets?: string;
  /**
   * The currency of the cost that the agent reports and the budget does not count; `unknown` if it names none.
   */
  unknown_currency?: string;
}
/**
 * The agent card is not the one that the operator accepted, or that cannot be checked. Each new value is reported once.
 */
export interface CardWarning {
  /**
   * What has changed, and what the operator can do.
   */
  message: string;
  changes?: CardChanges;
  more_changes?: MoreChanges;
}
/**
 * The agent.
 */
export interface ContinuationTarget {
  target_url: Url;
  card_path: string;
  /**
   * The transports, in order of preference.
   *
   * @minItems 1
   */
  preferred_transports: [Transport, ...Transport[]];
  target_alias?: string;
}
/**
 * The result of one message to several targets.
 */
export interface GroupSummary {
  group: {
    id: TaskHandle;
    mode: GroupMode;
    /**
     * `all`: nothing more comes of any message. `first`: a task completed first. `quorum`: a choice has enough votes. `none`: nothing is decided.
     */
    decided_by?: "all" | "first" | "quorum" | "none";
    /**
     * The alias of the first that completed, or the choice that won.
     */
    winner?: string;
    /**
     * The votes by choice, the most first.
     *
     * @minItems 1
     */
    votes?: [
      {
        choice: string;
        votes: number;
        /**
         * @minItems 1
         */
        target_aliases: [string, ...string[]];
      },
      ...{
        choice: string;
        votes: number;
        /**
         * @minItems 1
         */
        target_aliases: [string, ...string[]];
      }[]
    ];
    /**
     * One for each target, in the order of the request.
     *
     * @minItems 1
     */
    results: [
      {
        /**
         * The alias of the target.
         */
        target_alias: string;
        /**
         * The id of its message.
         */
        message_id: string;
        /**
         * The state of the task. Without a task: `pending`, nothing is known yet; `not_sent`, the message did not leave; `unknown`, it may have arrived; `answered`, the agent answered with a message. `forgotten`: the agent does not know the task any more. `unknown` also stands for a state that A2A does not define.
         */
        state: string;
        /**
         * The vote in its answer.
         */
        vote?: string;
        /**
         * What became of the cancellation of its task. What the agent did before stays done.
         */
        canceled?: "canceled" | "not_cancelable" | "unknown";
        /**
         * How long its call took, in milliseconds.
         */
        duration_ms?: number;
        /**
         * The answer is longer than its share of `limits.responseBytes`, and only its beginning is here.
         */
        truncated?: true;
        summary?: Summary;
        error?: Error;
      },
      ...{
        /**
         * The alias of the target.
         */
        target_alias: string;
        /**
         * The id of its message.
         */
        message_id: string;
        /**
         * The state of the task. Without a task: `pending`, nothing is known yet; `not_sent`, the message did not leave; `unknown`, it may have arrived; `answered`, the agent answered with a message. `forgotten`: the agent does not know the task any more. `unknown` also stands for a state that A2A does not define.
         */
        state: string;
        /**
         * The vote in its answer.
         */
        vote?: string;
        /**
         * What became of the cancellation of its task. What the agent did before stays done.
         */
        canceled?: "canceled" | "not_cancelable" | "unknown";
        /**
         * How long its call took, in milliseconds.
         */
        duration_ms?: number;
        /**
         * The answer is longer than its share of `limits.responseBytes`, and only its beginning is here.
         */
        truncated?: true;
        summary?: Summary;
        error?: Error;
      }[]
    ];
    /**
     * The targets without an answer.
     */
    missing?: {
      target_alias: string;
      /**
       * `not_sent`: the message did not leave. `unknown`: it may have arrived, and no task is known. `forgotten`: the agent does not know the task any more, so its answer cannot be fetched. `working`: the task goes on. `canceled`: the task was canceled.
       */
      reason: "not_sent" | "unknown" | "forgotten" | "working" | "canceled";
    }[];
  };
  /**
   * The wait of a call ended before its task did.
   */
  wait_expired?: true;
  /**
   * The next step, where a target has not answered.
   */
  next_step?: string;
  /**
   * The data for `watch`, `status` and `cancel` of the group. Pass it back unchanged.
   */
  continuation: {
    /**
     * The group, for `watch`, `status` and `cancel`.
     */
    group: {
      id: TaskHandle;
      mode: GroupMode;
      /**
       * How many equal votes decide.
       */
      quorum?: number;
      /**
       * The answers that count.
       */
      choices?: string[];
      /**
       * Where the answer is in a data part.
       */
      choice_pointer?: string;
      /**
       * The alias of the first that completed, or the choice that won.
       */
      winner?: string;
      /**
       * @minItems 1
       */
      members: [
        {
          target: ContinuationTarget;
          /**
           * The id of its message.
           */
          message_id: string;
          /**
           * The state of the task. Without a task: `pending`, nothing is known yet; `not_sent`, the message did not leave; `unknown`, it may have arrived; `answered`, the agent answered with a message. `forgotten`: the agent does not know the task any more. `unknown` also stands for a state that A2A does not define.
           */
          state: string;
          /**
           * The task, as in the continuation of a single call.
           */
          task?: {};
          /**
           * The conversation, as in the continuation of a single call.
           */
          conversation?: {};
          /**
           * The vote in its answer.
           */
          vote?: string;
        },
        ...{
          target: ContinuationTarget;
          /**
           * The id of its message.
           */
          message_id: string;
          /**
           * The state of the task. Without a task: `pending`, nothing is known yet; `not_sent`, the message did not leave; `unknown`, it may have arrived; `answered`, the agent answered with a message. `forgotten`: the agent does not know the task any more. `unknown` also stands for a state that A2A does not define.
           */
          state: string;
          /**
           * The task, as in the continuation of a single call.
           */
          task?: {};
          /**
           * The conversation, as in the continuation of a single call.
           */
          conversation?: {};
          /**
           * The vote in its answer.
           */
          vote?: string;
        }[]
      ];
    };
  };
}
/**
 * What was accepted of the agent card, where the target has pins.
 */
export interface CardPin {
  /**
   * Whether changes are reported, or stop calls.
   */
  mode: "report" | "enforce";
  accepted_at?: Time;
  /**
   * `operator`, or `first use`.
   */
  accepted_by?: string;
  /**
   * Why the pins cannot be used.
   */
  problem?: string;
  changes?: CardChanges;
  more_changes?: MoreChanges;
}
/**
 * The local gateway, if it is configured and the caller may use it.
 */
export interface Gateway {
  /**
   * Its address.
   */
  url: string;
  /**
   * The state of the connection.
   */
  state: "CONNECTING" | "OPEN" | "CLOSING" | "CLOSED";
  /**
   * The state as a number, in that order, from 0.
   */
  state_code: number;
  /**
   * The dialect, once it is known.
   */
  dialect?: "a2a-v1" | "openclaw/4" | "heretek-js";
  /**
   * The offered WebSocket subprotocol.
   */
  protocol: string;
  /**
   * The timeout of a connection attempt.
   */
  timeout_ms: number;
  /**
   * The interval of silence after which the plugin sends a ping.
   */
  heartbeat_ms: number;
  /**
   * The error of the last request or connection.
   */
  last_error?: string;
}
/**
 * The same target in the names that A2A uses.
 */
export interface RawListedTarget {
  target: {
    baseUrl: Url;
    cardPath: string;
    /**
     * The transports, in order of preference.
     *
     * @minItems 1
     */
    preferredTransports: [Transport, ...Transport[]];
    alias: string;
    displayName?: string;
    description?: string;
    streamingSupported?: boolean;
  };
  configuredDescription?: string;
  /**
   * The agent's role at the local gateway.
   */
  role?: string;
  status?: AgentStatus;
  members?: TriadMembers;
  default: boolean;
  tags: string[];
  examples: string[];
  card: {
    /**
     * The agent's name.
     */
    displayName?: string;
    /**
     * The agent's description of itself.
     */
    description?: string;
    /**
     * The transport that the agent prefers.
     */
    preferredTransport?: string;
    /**
     * Further interfaces of the agent.
     */
    additionalInterfaces: {
      transport: string;
      url: string;
    }[];
    /**
     * The capabilities that the card declares. Absent if it declares none.
     */
    capabilities: {
      /**
       * The agent supports streaming.
       */
      streaming?: boolean;
      /**
       * The agent supports push notifications.
       */
      pushNotifications?: boolean;
      /**
       * The agent keeps a history of task states.
       */
      stateTransitionHistory?: boolean;
      /**
       * The protocol extensions in the card.
       */
      extensions?: {}[];
    };
    /**
     * The accepted media types.
     */
    defaultInputModes: string[];
    /**
     * The media types of its output.
     */
    defaultOutputModes: string[];
    /**
     * The skills of the agent.
     */
    skills: {
      id: string;
      name: string;
      description: string;
      /**
       * Keywords.
       */
      tags: string[];
      /**
       * Example messages.
       */
      examples: string[];
      /**
       * The accepted media types, if they differ from the agent's.
       */
      inputModes?: string[];
      /**
       * The media types of its output, if they differ from the agent's.
       */
      outputModes?: string[];
    }[];
    lastRefreshedAt: Time;
    lastRefreshError?: Error;
  };
}
/**
 * The envelope of send. `raw` is the stream if `follow_updates` is set, and otherwise the answer.
 */
export interface Sent {
  ok: true;
  operation: "remote_agent";
  action: "send";
  summary: Summary;
  raw: Followed | Said;
}
/**
 * The events of a followed task. Without events in time there is no final event.
 */
export interface Followed {
  /**
   * The agent's events, the oldest first. The newest are kept.
   */
  events: Said[];
  finalEvent?: Said;
  /**
   * The number of dropped older events.
   */
  dropped_events?: number;
}
/**
 * A message, a task or an event of the agent, in the form of A2A 0.3.
 */
export interface Said {}
/**
 * The envelope of watch.
 */
export interface Watched {
  ok: true;
  operation: "remote_agent";
  action: "watch";
  summary: Summary;
  raw: Followed;
}
/**
 * The envelope of status and cancel; `raw` is the task.
 */
export interface LookedAt {
  ok: true;
  operation: "remote_agent";
  action: "status" | "cancel";
  summary: Summary;
  raw: Said;
}
/**
 * The envelope of a call about a group of targets. `raw` has that of each result, in their order; null where there is none.
 */
export interface Grouped {
  ok: true;
  operation: "remote_agent";
  action: "send" | "watch" | "status" | "cancel";
  summary: GroupSummary;
  raw: (Followed | Said | null)[];
}
/**
 * An update during a call.
 */
export interface Update {
  ok: true;
  operation: "remote_agent";
  action: "send" | "watch" | "status" | "cancel";
  phase: "update";
  summary: UpdateSummary | GroupSummary;
  /**
   * The event. In an update about a group `raw` of the result that is new, in its place; null without one.
   */
  raw: Said | (Followed | Said | null)[] | null;
}
/**
 * The summary of the result, without the accumulated content.
 */
export interface UpdateSummary {
  /**
   * The alias of a configured target.
   */
  target_alias?: string;
  /**
   * The agent's name in its card.
   */
  target_name?: string;
  target_url: Url;
  protocol_version?: ProtocolVersion;
  transport?: Transport;
  /**
   * Whether the card declares streaming.
   */
  streaming_supported?: boolean;
  /**
   * The kind of the agent's answer. `continuation` says how to continue.
   */
  response_kind?: "message" | "task";
  /**
   * The agent's message about the state of the task, such as the question of a task that waits for input.
   */
  status_message?: string;
  continuation?: Continuation;
}
/**
 * The envelope of a call that failed.
 */
export interface Failure {
  ok: false;
  /**
   * The call failed.
   */
  isError?: true;
  operation: "remote_agent";
  /**
   * The action of the request, or `unknown`.
   */
  action: string;
  error: Error;
}

/** A body of `POST /remote_agent/read` or `/remote_agent/write`; a `Request` is one too. */
export interface ApiRequest {
  app?: string;
  query?: "list_targets" | "status" | "watch";
  action?: "send" | "cancel";
  input?: Omit<Request, "action" | "target_alias">;
}

/** The response to a request that succeeded. */
export interface ApiSuccess {
  isError: false;
  data: { summary: Exclude<Result, Failure>["summary"]; raw: unknown };
}

/** The code of an error. */
export type ApiCode = "UNKNOWN_APP" | "UNKNOWN_ACTION" | "UNKNOWN_QUERY" | "WRONG_KIND" | "INVALID_INPUT" | "NO_ACTIVE_VERSION" | "INVALID_MANIFEST" | "HANDLER_ERROR";

/** The response to a request that failed. `path` is a JSON Pointer into `input`, only of INVALID_INPUT. */
export interface ApiFailure {
  isError: true;
  error: { code: ApiCode; message: string; path?: string };
}
