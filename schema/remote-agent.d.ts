// Types of the tool remote_agent and of its HTTP API. Generated: `UPDATE=1 cargo real --test suite mcp::types`.

export interface Request {
  /**
   * What to do. list_targets: show the agents that can be reached. send: hand a message to one of them. watch: follow a task until it is done or waits. status: ask once how a task stands. cancel: ask for a task to be stopped.
   */
  action: "list_targets" | "send" | "watch" | "status" | "cancel";
  /**
   * Name of the agent, as list_targets shows it. Preferred over target_url.
   */
  target_alias?: string;
  /**
   * Base URL of the agent, where it is configured or policy allows it. Use target_alias instead whenever there is one; where both are given, target_alias decides.
   */
  target_url?: string;
  /**
   * send only, required: what to hand over. Each part is text, a file or data.
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
   * A task of an earlier result (summary.continuation.task.task_handle). For send, watch, status and cancel.
   */
  task_handle?: string;
  /**
   * summary.continuation of an earlier result, unchanged. The best way to go on with a task or a conversation; works after a restart too. Takes the place of task_handle, task_id, context_id, target_alias and target_url: leave those out.
   */
  continuation?: {
    /**
     * The agent.
     */
    target: {
      /**
       * Its base URL.
       */
      target_url: string;
      /**
       * The path of its agent card.
       */
      card_path: string;
      /**
       * The transports it is reached by.
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
     * The task to go on with.
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
       * Where the task stood.
       */
      status?: string;
      /**
       * It could be answered with send.
       */
      can_resume_send?: boolean;
      /**
       * Old name of can_resume_send.
       */
      can_send?: boolean;
      /**
       * Its status could be asked for.
       */
      can_status?: boolean;
      /**
       * It could be cancelled.
       */
      can_cancel?: boolean;
      /**
       * It could be watched.
       */
      can_watch?: boolean;
    };
    /**
     * The conversation to go on with; for send only.
     */
    conversation?: {
      /**
       * The conversation's id.
       */
      context_id: string;
      /**
       * It can be gone on with.
       */
      can_send?: true;
    };
  };
  /**
   * send only: your own id for the message.
   */
  message_id?: string;
  /**
   * The remote task's id, for when there is no live task_handle: together with target_alias.
   */
  task_id?: string;
  /**
   * send only: the conversation to go on with in a new task. Not for watch, status or cancel.
   */
  context_id?: string;
  /**
   * send only: earlier tasks that this message refers to without continuing them.
   *
   * @minItems 1
   */
  reference_task_ids?: [string, ...string[]];
  /**
   * send only. required: fail unless the agent takes the message up as a task that can be followed. Default: optional.
   */
  task_requirement?: "optional" | "required";
  /**
   * send only: listen while the agent works, until it is done or waits or the time is up. Does not by itself make the agent create a task.
   */
  follow_updates?: boolean;
  /**
   * send only: where the task goes on after this call, wake this session once when it ends or asks something. Implies follow_updates unless blocking is given. Only where the host can wake a session. Default: the target's setting.
   */
  notify?: boolean;
  /**
   * send only: media types you can take, in order of preference.
   */
  accepted_output_modes?: string[];
  /**
   * send only, not with follow_updates. false: the agent answers at once and works on; true: it answers when done or waiting. Always false with task_requirement=required.
   */
  blocking?: boolean;
  /**
   * send and status: at most so many of the newest messages come back.
   */
  history_length?: number;
  /**
   * status only: read on in this artifact. Its id as the result quotes it; the answer is a page of its text.
   */
  artifact_id?: string;
  /**
   * status with artifact_id only: the character of the artifact's text to begin at. Default: 0, the beginning.
   */
  offset?: number;
  /**
   * How long this call may take, in milliseconds. A call that follows a task gives back what came by then, and the task goes on.
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
   * send only: where the agent should report progress by itself.
   */
  push_notification_config?: {
    /**
     * The address to report to.
     */
    url: string;
    /**
     * An id for this registration.
     */
    id?: string;
    /**
     * Sent along with each report.
     */
    token?: string;
    /**
     * How to authenticate there.
     */
    authentication?: {
      /**
       * Schemes to choose from, such as Bearer.
       *
       * @minItems 1
       */
      schemes: [string, ...string[]];
      /**
       * What to authenticate with.
       */
      credentials?: string;
    };
  };
}

/**
 * Every envelope and every update of the tool. `raw`, artifacts' parts and `rpcData` hold what the agent said, as it said it.
 */
export type Result = ListedTargets | Sent | Watched | LookedAt | Update | Failure;
/**
 * A base URL.
 */
export type Url = string;
/**
 * How an agent of the local gateway is.
 */
export type AgentStatus = "online" | "offline" | "busy" | "idle" | "error" | "unknown";
/**
 * The members of the triad, and how each is.
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
 * Why a call failed.
 */
export type Error = {
  [k: string]: unknown;
} & {
  /**
   * What kind of thing went wrong.
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
   * Why, finer than `code`.
   */
  reason:
    | "invalid_request"
    | "contradiction"
    | "unknown_artifact"
    | "target_not_allowed"
    | "agent_not_allowed"
    | "delegation_too_deep"
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
    | "unaddressable"
    | "agent_not_found"
    | "agent_offline"
    | "agent_busy"
    | "agent_error"
    | "connection_refused"
    | "connection_timeout"
    | "connection_reset"
    | "protocol_error"
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
   * The same call may succeed later.
   */
  retryable: boolean;
  /**
   * What failed and why.
   */
  message: string;
  /**
   * The place of the fault in the request, as a JSON Pointer. Absent if the request did not cause the error.
   */
  path?: string;
  details: Details;
};
/**
 * A way of carrying A2A, or the local gateway.
 */
export type Transport = "JSONRPC" | "HTTP+JSON" | "GRPC" | "GATEWAY";
/**
 * The version of A2A that was spoken, or the dialect of the local gateway.
 */
export type ProtocolVersion = "0.3" | "1.0" | "a2a-v1" | "openclaw/4" | "heretek-js";
/**
 * How to go on. Keep it as it is and pass it back whole.
 */
export type Continuation = Continuation1 & {
  /**
   * The agent.
   */
  target: {
    target_url: Url;
    card_path: string;
    /**
     * In order of preference.
     *
     * @minItems 1
     */
    preferred_transports: [Transport, ...Transport[]];
    target_alias?: string;
  };
  /**
   * A task exists; watch, status and cancel take this continuation.
   */
  task?: {
    task_handle: TaskHandle;
    task_id: string;
    /**
     * Where the task stands; a word of A2A 0.3.
     */
    status?: string;
    /**
     * It can be answered with send.
     */
    can_resume_send: boolean;
    /**
     * Old name of can_resume_send.
     */
    can_send: boolean;
    can_status: true;
    /**
     * It can be cancelled.
     */
    can_cancel: boolean;
    /**
     * It can be watched.
     */
    can_watch: boolean;
  };
  /**
   * The conversation; send takes this continuation.
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
 * Names the task in requests to this process.
 */
export type TaskHandle = string;

/**
 * The envelope of list_targets.
 */
export interface ListedTargets {
  ok: true;
  operation: "remote_agent";
  action: "list_targets";
  summary: {
    /**
     * Every configured target, and after them the agents of the local gateway.
     */
    targets: ListedTarget[];
    gateway?: Gateway;
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
   * Name it by this in a request.
   */
  target_alias: string;
  target_url: Url;
  /**
   * Used by a request that names no target.
   */
  default: boolean;
  /**
   * Key words from the configuration.
   */
  tags: string[];
  /**
   * What to ask, for example.
   */
  examples: string[];
  /**
   * The name on its card.
   */
  target_name?: string;
  /**
   * What it is for: the operator's words, else its card's.
   */
  description?: string;
  /**
   * What the local gateway says it is there for.
   */
  role?: string;
  status?: AgentStatus;
  members?: TriadMembers;
  /**
   * Whether its card says it streams.
   */
  streaming_supported?: boolean;
  /**
   * What its card says, as far as that could be read.
   */
  peer_card: {
    /**
     * The transport the agent likes best.
     */
    preferred_transport?: string;
    /**
     * Where else the agent can be called.
     */
    additional_interfaces: {
      transport: string;
      url: string;
    }[];
    /**
     * What the agent says it can do; absent where it says nothing.
     */
    capabilities: {
      /**
       * The agent streams.
       */
      streaming?: boolean;
      /**
       * The agent reports progress to a callback.
       */
      push_notifications?: boolean;
      /**
       * The agent keeps a history of states.
       */
      state_transition_history?: boolean;
      /**
       * Protocol extensions, as the card gives them.
       */
      extensions?: {}[];
    };
    /**
     * Media types it takes.
     */
    default_input_modes: string[];
    /**
     * Media types it gives.
     */
    default_output_modes: string[];
    /**
     * What the agent is good at.
     */
    skills: {
      id: string;
      name: string;
      description: string;
      /**
       * Key words.
       */
      tags: string[];
      /**
       * What to ask, for example.
       */
      examples: string[];
      /**
       * Media types it takes, where other than the agent's.
       */
      input_modes?: string[];
      /**
       * Media types it gives, where other than the agent's.
       */
      output_modes?: string[];
    }[];
  };
  last_refreshed_at: Time;
  last_refresh_error?: Error;
}
/**
 * What is known beside the message.
 */
export interface Details {
  /**
   * What to do next.
   */
  hint: string;
  /**
   * The form of `errors`.
   */
  source?: "ajv";
  tool?: "remote_agent";
  /**
   * What is wrong with the request, place by place.
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
   * How many more there are.
   */
  more_errors?: number;
  /**
   * The handle that is gone.
   */
  taskHandle?: string;
  retryHint?: string;
  /**
   * Handles live in memory.
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
   * The task it stands for.
   */
  handle_task_id?: string;
  /**
   * The task that the request names beside it.
   */
  explicit_task_id?: string;
  /**
   * The conversation of that task.
   */
  handle_context_id?: string;
  /**
   * The conversation that the request names beside it.
   */
  explicit_context_id?: string;
  handle_target?: NamedTarget;
  explicit_target?: NamedTarget;
  /**
   * The target it is about, in `list_targets`.
   */
  target_alias?: string;
  reason?: "ambiguous_normalized_url_matches";
  /**
   * The address that several targets share.
   */
  normalizedBaseUrl?: string;
  /**
   * Those targets.
   *
   * @minItems 2
   */
  aliases?: [string, string, ...string[]];
  /**
   * Whether the agent has seen the message of a send.
   */
  delivered?: "no" | "yes" | "unknown";
  /**
   * The artifact that was asked for.
   */
  artifact_id?: string;
  /**
   * The artifacts that the task has.
   *
   * @maxItems 100
   */
  known_artifact_ids?: string[];
  /**
   * How many more it has.
   */
  more_artifacts?: number;
  /**
   * The HTTP status that the agent answered with.
   */
  http_status?: number;
  /**
   * The ways of proving who calls that the agent asks for, by the names HTTP has for them, else those that its card declares.
   *
   * @minItems 1
   */
  auth_schemes?: [string, ...string[]];
  /**
   * The number that the local gateway's registry has for the error.
   */
  gateway_code?: number;
  /**
   * The agent's JSON-RPC error code.
   */
  rpcCode?: number;
  /**
   * The agent's error data, as it gave them.
   */
  rpcData?: {
    [k: string]: unknown;
  };
  /**
   * Transports that were asked for or offered and are not spoken.
   */
  unsupported?: string[];
  /**
   * Transports that are spoken.
   */
  supported?: Transport[];
  capability_diagnostics?: Diagnostics;
  /**
   * A task was required, and this came.
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
   * How many events of the stream came before the error.
   */
  partial_event_count?: number;
  latest_event_summary?: Summary;
}
/**
 * One thing that is wrong with a request, in the form that Ajv gives it.
 */
export interface Complaint {
  /**
   * JSON Pointer to the place in the request.
   */
  instancePath: string;
  /**
   * Which rule.
   */
  schemaPath: string;
  keyword: string;
  params: {};
  message: string;
}
/**
 * A target, as a contradiction tells of it.
 */
export interface NamedTarget {
  baseUrl: string;
  cardPath: string;
  preferredTransports: string[];
  alias: string | null;
}
/**
 * What a failed send sent and wanted, against what the agent's card says.
 */
export interface Diagnostics {
  /**
   * Media types of the parts that were sent.
   */
  requested_input_modes: string[];
  /**
   * Positions of file parts whose media type is not known.
   */
  unknown_file_attachments: number[];
  /**
   * Media types that the card says the agent takes.
   */
  advertised_input_modes: string[];
  /**
   * What was sent and is not among them.
   */
  unsupported_input_modes: string[];
  /**
   * Media types that were asked for.
   */
  requested_output_modes: string[];
  /**
   * Media types that the card says the agent gives.
   */
  advertised_output_modes: string[];
  /**
   * What was asked for and is not among them.
   */
  unsupported_output_modes: string[];
}
/**
 * What came of a call to one target.
 */
export interface Summary {
  /**
   * The target's name, where it is configured.
   */
  target_alias?: string;
  /**
   * The name on its card.
   */
  target_name?: string;
  target_url: Url;
  protocol_version?: ProtocolVersion;
  transport?: Transport;
  /**
   * Whether its card says it streams.
   */
  streaming_supported?: boolean;
  /**
   * The shape of what the agent said. It does not tell how to go on: `continuation` does.
   */
  response_kind?: "message" | "task";
  /**
   * What the agent says about where the task stands, such as the question of a task that waits for input.
   */
  status_message?: string;
  /**
   * What the agent said, as text: a task's artifacts, else what it says about its state, else its last message.
   */
  message_text?: string;
  /**
   * What the task has produced so far.
   *
   * @minItems 1
   */
  artifacts?: [Artifact, ...Artifact[]];
  /**
   * The caller's time was up before the agent was done: the task goes on, and this is what came so far.
   */
  wait_expired?: true;
  /**
   * The agent tells no more, though there is more: the task was not done, or part of what it produced is missing.
   */
  incomplete?: true;
  /**
   * What to do next about a task that was left so.
   */
  next_step?: string;
  /**
   * The host wakes the calling session once when the task ends or asks something.
   */
  notify?: true;
  artifact_page?: ArtifactPage;
  continuation?: Continuation;
}
/**
 * An artifact, its pieces put together.
 */
export interface Artifact {
  artifactId: string;
  name?: unknown;
  description?: unknown;
  /**
   * Its parts, as the agent gave them.
   */
  parts: {}[];
  metadata?: unknown;
  extensions?: unknown;
}
/**
 * Some of an artifact's text, in answer to a status with `artifact_id`: its text parts as one, its files and data as JSON on lines of their own. Numbers count Unicode scalar values.
 */
export interface ArtifactPage {
  artifact_id: string;
  /**
   * Where the page begins.
   */
  offset: number;
  /**
   * Where the next page begins; absent at the end.
   */
  next_offset?: number;
  /**
   * How long the artifact's text is.
   */
  total: number;
  /**
   * The page.
   */
  text: string;
  /**
   * The artifact after this one, where there is one.
   */
  next_artifact_id?: string;
}
/**
 * The local gateway, where one is configured and the caller may use it.
 */
export interface Gateway {
  /**
   * Its address.
   */
  url: string;
  /**
   * Where the connection is in its life.
   */
  state: "CONNECTING" | "OPEN" | "CLOSING" | "CLOSED";
  /**
   * The same as a number, in that order from 0.
   */
  state_code: number;
  /**
   * What it speaks, once that is known.
   */
  dialect?: "a2a-v1" | "openclaw/4" | "heretek-js";
  /**
   * The WebSocket subprotocol that is offered.
   */
  protocol: string;
  /**
   * How long connecting may take.
   */
  timeout_ms: number;
  /**
   * How long the connection may be silent before the gateway is asked whether it is there.
   */
  heartbeat_ms: number;
  /**
   * Why it could not be asked, or the last connection ended.
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
     * In order of preference.
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
   * What the local gateway says it is there for.
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
     * What the agent says of itself.
     */
    description?: string;
    /**
     * The transport the agent likes best.
     */
    preferredTransport?: string;
    /**
     * Where else the agent can be called.
     */
    additionalInterfaces: {
      transport: string;
      url: string;
    }[];
    /**
     * What the agent says it can do; absent where it says nothing.
     */
    capabilities: {
      /**
       * The agent streams.
       */
      streaming?: boolean;
      /**
       * The agent reports progress to a callback.
       */
      pushNotifications?: boolean;
      /**
       * The agent keeps a history of states.
       */
      stateTransitionHistory?: boolean;
      /**
       * Protocol extensions, as the card gives them.
       */
      extensions?: {}[];
    };
    /**
     * Media types it takes.
     */
    defaultInputModes: string[];
    /**
     * Media types it gives.
     */
    defaultOutputModes: string[];
    /**
     * What the agent is good at.
     */
    skills: {
      id: string;
      name: string;
      description: string;
      /**
       * Key words.
       */
      tags: string[];
      /**
       * What to ask, for example.
       */
      examples: string[];
      /**
       * Media types it takes, where other than the agent's.
       */
      inputModes?: string[];
      /**
       * Media types it gives, where other than the agent's.
       */
      outputModes?: string[];
    }[];
    lastRefreshedAt: Time;
    lastRefreshError?: Error;
  };
}
/**
 * The envelope of send. `raw` is the stream where `follow_updates` was asked for, else the answer.
 */
export interface Sent {
  ok: true;
  operation: "remote_agent";
  action: "send";
  summary: Summary;
  raw: Followed | Said;
}
/**
 * What came while a task was followed. There is no final event where nothing came in the time.
 */
export interface Followed {
  /**
   * What the agent said, oldest first; the newest are kept.
   */
  events: Said[];
  finalEvent?: Said;
  /**
   * How many older events were dropped.
   */
  dropped_events?: number;
}
/**
 * A message, a task or an event, as the agent gave it, in the shape of A2A 0.3.
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
 * News of a call that is under way.
 */
export interface Update {
  ok: true;
  operation: "remote_agent";
  action: "send" | "watch";
  phase: "update";
  /**
   * As in the result, without what the agent has said so far as a whole.
   */
  summary: {
    /**
     * The target's name, where it is configured.
     */
    target_alias?: string;
    /**
     * The name on its card.
     */
    target_name?: string;
    target_url: Url;
    protocol_version?: ProtocolVersion;
    transport?: Transport;
    /**
     * Whether its card says it streams.
     */
    streaming_supported?: boolean;
    /**
     * The shape of what the agent said. It does not tell how to go on: `continuation` does.
     */
    response_kind?: "message" | "task";
    /**
     * What the agent says about where the task stands, such as the question of a task that waits for input.
     */
    status_message?: string;
    continuation?: Continuation;
  };
  raw: Said;
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
   * The request's action as it was given, or `unknown`.
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

/** The response to a request that failed. `path` is a JSON Pointer into `input`, of INVALID_INPUT alone. */
export interface ApiFailure {
  isError: true;
  error: { code: ApiCode; message: string; path?: string };
}
