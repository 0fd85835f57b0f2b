// Types for the type check of the JavaScript. The package does not contain this file.
import type { DelegatedTasks } from "./tasks.js";
import type { Followers } from "./followers.js";
import type { People } from "./person.js";
import type { Subagents } from "./subagent.js";

export type { OpenClawPluginApi as Api, OpenClawConfig as HostConfig } from "openclaw/plugin-sdk/core";
export type Finding = { check: string; severity: "info" | "warning" | "error"; message: string; fixHint?: string; path?: string };

/** The settings of the plugin, as far as the JavaScript reads them. A person wrote them, and no schema has checked them. */
export interface Settings {
  enabled?: boolean;
  targets?: Target[];
  defaults?: { cardPath?: string };
  notify?: { maxTasks?: number; maxAgeMs?: number };
  policy?: { allowTargetUrlOverride?: boolean; allowPrivateTargetUrls?: boolean; normalizeBaseUrl?: boolean };
  gateway?: { enabled?: boolean; url?: string; token?: Secret; allowRemote?: boolean; tokenInQuery?: boolean };
  audit?: { enabled?: boolean; path?: string };
}

/** The settings as the library returns them, with its defaults. */
export type ParsedSettings = Settings & { notify: { maxTasks: number; maxAgeMs: number } };

export type Secret = string | { source: string; provider?: string; id: string };

export interface Target {
  alias: string;
  baseUrl: string;
  url?: string;
  description?: string;
  default?: boolean;
  cardPath?: string;
  cardUrl?: string;
  card?: unknown;
  endpoint?: string;
  approval?: string;
  notify?: boolean;
  answers?: string;
  showAnswers?: boolean;
  allowedAgents?: string[];
  allowPrivateNetwork?: boolean;
  auth?: { type: string; token?: Secret };
  headers?: Record<string, Secret>;
  tls?: { caFile?: string };
}

/** A request of a model or a client: any field may be missing. */
export interface CallRequest {
  action?: string;
  target_alias?: string;
  target_aliases?: string[];
  mode?: string;
  choices?: string[];
  choice_pointer?: string;
  quorum?: number;
  target_url?: string;
  task_handle?: string;
  task_id?: string;
  context_id?: string;
  message_id?: string;
  continuation?: Partial<Continuation> | null;
  parts?: Part[];
  follow_updates?: boolean;
  task_requirement?: string;
  timeout_ms?: number;
  notify?: boolean;
  metadata?: object;
  service_parameters?: object;
  reference_task_ids?: string[];
  accepted_output_modes?: string[];
  push_notification_config?: { url?: string };
}

export interface Part {
  kind?: string;
  text?: string;
  data?: unknown;
  file?: FileContent;
  path?: string;
  uri?: string;
  bytes?: string;
  name?: string;
  mime_type?: string;
  metadata?: object;
}

export interface FileContent {
  name?: string;
  mimeType?: string;
  uri?: string;
  bytes?: string;
}

/** The place of a target in a continuation. */
export interface Route {
  target_url?: string;
  target_alias?: string;
  card_path?: string;
  preferred_transports?: string[];
}

export interface Continuation {
  target: Route;
  task?: ContinuedTask;
  conversation?: { context_id: string };
  /** The group of one message to several targets, in place of the others. */
  group?: { id: string; members: (Continuation & { state?: string })[] };
}

export interface ContinuedTask {
  task_id: string;
  task_handle?: string;
  status?: string;
  can_cancel?: boolean;
}

export interface Summary {
  continuation?: Continuation;
  next_step?: string;
  /** The answers to one message to several targets. */
  group?: { id: string; mode: string; decided_by?: string; winner?: string; results: GroupResult[] };
  targets?: ListedTarget[];
  gateway?: ListedGateway;
  artifacts?: { parts?: Part[] }[];
  message_text?: string;
  status_message?: string;
  wait_expired?: boolean;
  incomplete?: boolean;
  query_error?: string;
  notify?: boolean;
  /** What became of the last question to a person. */
  person?: { outcome: string; question_id?: string };
  usage?: Usage;
  /** What is new about a card that is not the accepted one. */
  card_warning?: { message: string; changes?: CardChange[]; more_changes?: number };
  budget_warning?: { scope: string; unit: string; limit: number; used: number; resets?: string; unknown_currency?: string };
  /** Why the record of budgets cannot be used. */
  budget_error?: string;
}

/** What became of the message to one target of several. */
export interface GroupResult {
  target_alias: string;
  state: string;
  vote?: string;
  canceled?: string;
  summary?: Summary;
  error?: EnvelopeError;
}

/** A field of a card that differs from what was accepted. */
export interface CardChange {
  path: string;
  old: string | null;
  new: string | null;
  class: "stop" | "report" | "note";
}

/** What was accepted of a card. */
export interface CardPin {
  mode?: string;
  accepted_at?: string;
  accepted_by?: string;
  problem?: string;
  changes?: CardChange[];
  more_changes?: number;
}

/** Who signed a card. */
export interface CardSigner {
  alg: string;
  kid: string;
  thumbprint?: string;
  configured: boolean;
}

/** The pins of a target and its card, or an error. `damaged` is the new path of a file that was put aside. */
export interface PinResult extends CardPin {
  target?: string;
  path?: string;
  signers?: CardSigner[];
  stops?: boolean;
  /** Stands for the card that the agent has now. */
  fingerprint?: string;
  /** What differed before the acceptance. */
  accepted_changes?: CardChange[];
  damaged?: string;
  error?: string;
  isUsage?: boolean;
  reason?: string;
  /** Whether the error is that the target has no pins. */
  unpinned?: boolean;
}

/** What an agent reports that a task used. */
export interface Usage {
  tokens?: { input?: number; output?: number; cache_read?: number; cache_write?: number; total?: number };
  usd_micros?: number;
  unknown_currency?: string;
  duration_ms?: number;
  estimated: boolean;
}

export interface EnvelopeError {
  code?: string;
  reason?: string;
  message?: string;
  retryable?: boolean;
  details?: { hint?: string; http_status?: number; errors?: { instancePath?: string; message?: string }[]; latest_event_summary?: Summary; message_text?: string; delivered?: string };
}

/** An answer of the library. */
export type Envelope = EnvelopeFields & ({ ok: true; summary: Summary; error?: undefined } | { ok: false; summary?: undefined; error: EnvelopeError });

/** A message, a task or an event of one. */
interface Answer {
  kind?: string;
  messageId?: string;
  parts?: Part[];
  status?: { message?: { parts?: Part[] } };
}

interface EnvelopeFields {
  action?: string;
  raw?: Answer & { events?: Answer[] };
}

export interface ListedTarget {
  target_alias?: string;
  target_url: string;
  target_name?: string;
  default?: boolean;
  streaming_supported?: boolean;
  last_refresh_error?: EnvelopeError;
  tasks?: { task_id: string; status: string; status_message?: string; updated_at?: string }[];
  tasks_more?: true;
  tasks_unreadable?: number;
  tasks_error?: EnvelopeError;
  clock_skew_seconds?: number;
  card_pin?: CardPin;
  /** Where the card was found, if not below the URL of the target. */
  card_url?: string;
  oauth_flows?: OAuthFlow[];
  /** The agents that may use the target, for an operator. */
  allowed_agents?: string[];
  /** The state of an agent of the local gateway. */
  status?: string;
  health?: Health;
}

/** How the calls of the last hour to a target fared. */
export interface Health {
  calls?: number;
  failed?: number;
  p50_ms?: number;
  last_success_at?: string;
  /** For how long calls are refused. */
  retry_after_ms?: number;
}

/** The local gateway in a listing. */
export interface ListedGateway {
  url?: string;
  state?: string;
  last_error?: string;
}

/** A flow of an authorization server in a card: a proposal for the operator. */
export interface OAuthFlow {
  name: string;
  authorization_url?: string;
  device_authorization_url?: string;
  token_url?: string;
  scopes?: string[];
}

/** The caller of a call, for the library. */
export interface Caller {
  agent_id?: string;
  user?: string;
  operator?: string;
  /** Whether a person wrote the message themselves, and no model. */
  by_person?: boolean;
  session_key?: string;
  state_dir?: string;
  traceparent?: string;
}

/** A question of an agent for a person. The agent wrote `text`, the fields, `agent` and `url`, except for a `sign_in`. */
export interface Question {
  id: string;
  kind: "input" | "auth" | "permission";
  target?: string;
  agent?: string;
  origin: string;
  chain?: string[];
  task?: string;
  text: string;
  fields: QuestionField[];
  url?: string;
  /** A sign-in at the authorization server of the target, whose code the person enters at `url`. */
  sign_in?: { server: string; code?: string; takes_address: boolean };
  /** The question with this id, of a sign-in, is over. Nothing else is set then. */
  withdrawn?: boolean;
  warnings?: string[];
  may_pass_to_model?: boolean;
  timeout_ms: number;
  /** How to continue the task, as in the summary of a result. */
  continuation?: Continuation;
  /** Why the library did not accept the answer before this one. */
  error?: string;
  /** The fields whose values did not fit in that answer. */
  misfits?: string[];
}

export interface QuestionField {
  name: string;
  title: string;
  description?: string;
  type: "text" | "choice" | "integer" | "number" | "boolean";
  choices?: QuestionChoice[];
  required: boolean;
  /** The value that the agent proposes. */
  default?: unknown;
}

export interface QuestionChoice {
  value: unknown;
  title: string;
}

/** What a person did with a question. */
export interface Answer {
  action: "answer" | "decline" | "model" | "timeout" | "unreachable" | "later";
  content?: Record<string, unknown>;
  by?: string;
}

/** What a call needs to ask a person. */
export interface CallAsker {
  /** Whether the last question is still open when the call ends: no person answered it in time, and the model may not. */
  isOpen: boolean;
  ask(question: string): Promise<string>;
  /** Ends the call with its result. Its question stays open for a moment if another call follows the task. */
  end(isFollowed: boolean, envelope?: Envelope): void;
}

/** A connection to the gateway of the plugin. */
export interface GatewayConnection {
  request(method: string, params: object, timeoutMs: number): Promise<any>;
  stop(): void;
}

/** A message that the plugin posted in a chat. */
export interface Posted {
  channel: string;
  to: string;
  accountId?: string;
  threadId?: string;
  messageId: string;
}

/** What `People` needs of the gateway. */
export interface PersonHost {
  connect(): Promise<GatewayConnection>;
  /** Runs code without the context of the turn that calls it. */
  outside<T>(run: () => T): T;
  /**
   * Posts a message in the chat of the session, if it has one outside of Control UI. Returns where the message is, if the channel
   * says so.
   */
  post(asked: { connection?: GatewayConnection; id?: string; sessionKey: string; agentId?: string }, message: string): Promise<Posted | undefined>;
  warn(line: string): void;
}

/** A followed task, as its file contains it. */
export interface FollowedRecord {
  key: string;
  continuation: { target: Route; task: ContinuedTask };
  caller: Caller & { session_key: string };
  since: number;
  state?: string;
}

/** A flow of OpenClaw, as far as the plugin reads it. */
export interface FlowRecord {
  flowId: string;
  revision: number;
  status: string;
  controllerId?: string;
  currentStep?: string;
  stateJson?: any;
  cancelRequestedAt?: number;
}

/** OpenClaw's flows of a session. */
export interface ManagedFlows {
  list(): Promise<FlowRecord[]>;
  createManaged(flow: { controllerId: string; goal: string; status?: "running"; currentStep?: string; notifyPolicy?: "silent"; stateJson?: any }): Promise<FlowRecord>;
  setWaiting(change: { flowId: string; expectedRevision: number; currentStep?: string; waitJson?: any }): Promise<unknown>;
  resume(change: { flowId: string; expectedRevision: number; status?: "running"; currentStep?: string }): Promise<unknown>;
  finish(change: { flowId: string; expectedRevision: number }): Promise<unknown>;
  fail(change: { flowId: string; expectedRevision: number; blockedSummary?: string }): Promise<unknown>;
}

/** A session of OpenClaw's ACP, as the backend of remote agents made it. */
export interface SubagentHandle {
  sessionKey: string;
  backend: string;
  runtimeSessionName: string;
  agent?: string;
  agentSessionId?: string;
  cwd?: string;
}

/** A turn of such a session. */
export interface SubagentTurn {
  handle: SubagentHandle;
  text: string;
  /** Files in Base64. */
  attachments?: { mediaType: string; data: string; name?: string }[];
  requestId: string;
  signal?: AbortSignal;
}

export type SubagentEvent =
  | { type: "text_delta"; text: string; stream: "output" }
  | { type: "status"; text: string }
  | { type: "done"; stopReason: "end_turn" | "cancelled" }
  | { type: "error"; message: string; code: string };

/** What `Subagents` needs of the gateway. */
export interface SubagentHost {
  lease: Lease;
  stateDir: string;
  /** The hook that says whether a message needs an approval. */
  approval?: ReturnType<typeof import("./approval.js").approvalHook>;
  /** Returns the session that spawned this one. */
  parentOf(session: { sessionKey: string; agentId?: string }): string | undefined;
  workspaceOf(agentId?: string): string | undefined;
  /** Asks an operator, and resolves to the decision; to undefined without one. */
  approve(approval: object, timeoutMs: number, signal?: AbortSignal): Promise<"allow-once" | "allow-always" | "deny" | undefined>;
  /** Starts the turn of a run again. */
  runAgain(turn: { sessionKey: string; agentId?: string; message: string; idempotencyKey?: string }): Promise<unknown>;
  traceparent?(): Promise<string | undefined>;
  warn(line: string): void;
}

/** A share of the instance of a configuration. */
export interface Lease {
  agent: RemoteAgent;
  api: { request: Library["apiRequest"]; response: Library["apiResponse"]; refusal: Library["apiRefusal"] };
  CancelToken: Library["CancelToken"];
  settings: ParsedSettings;
  definition: Definition;
  followers: Followers;
  tasks: DelegatedTasks;
  people: People;
  subagents: Subagents;
  /** The number of the instance. The tasks are those of all instances of the process. */
  number: number;
  share(): Lease;
  release(): void;
}

/** News of a call in the gateway: updates, or a piece of its envelope, or why it has none. */
export interface CallNews {
  updates: string[];
  /** The number of the next update. */
  next: number;
  piece?: string;
  isLast?: boolean;
  failure?: string;
}

/** The settings of the running gateway, as far as they matter to the commands. */
export interface GatewaySettings {
  /** Identifies the process of the gateway. */
  gatewayId: string;
  /** Whether the gateway has an instance of the tool. */
  isReady: boolean;
  targets: { alias: string; url: string }[];
  unresolved: UnresolvedSecret[];
  /** The file with environment variables that the gateway reads when it starts. */
  envFile?: string;
}

/** A credential without a value: its path in the settings, and the environment variable that it refers to, if any. */
export interface UnresolvedSecret {
  path: string;
  reason?: string;
  alias?: string;
  variable?: string;
}

export interface CancelToken {
  cancel(): void;
}

/** What became of a sign-in or a sign-out. `isUsage` says that the error is one of the arguments. */
export interface SignInResult {
  alias?: string;
  scopes?: string | null;
  outcome?: string;
  error?: string;
  isUsage?: boolean;
}

/** An agent that a document lists: the `FoundAgent` of the library. */
export interface FoundAgent {
  number: number;
  name: string;
  catalog: string;
  interfaces: string[];
  odd: string[];
  /** Its settings without an alias; absent if it cannot be added. */
  target?: { baseUrl: string; cardUrl?: string; card?: unknown };
  inline: boolean;
  foreign: boolean;
  card?: string;
  /** All of this for a person, in lines. */
  text: string;
}

/** What a search for agents found. */
export interface FoundAgents {
  agents: FoundAgent[];
  left: number;
  others: number;
  registries: string[];
  problems: string[];
  error?: string;
}

export type AskPerson = (question: string) => Promise<string>;

/** An instance in the native library. Requests, callers, envelopes and updates are JSON. */
export interface RemoteAgent {
  execute(request: string, caller: string, token: CancelToken, onUpdate: ((update: string) => void) | null, askPerson?: AskPerson): Promise<string>;
  executeRendered(request: string, caller: string, token: CancelToken, onUpdate: ((update: string) => void) | null, askPerson?: AskPerson): Promise<string[]>;
  /** Both resolve to a `SignInResult`. */
  signIn(alias: string | null, user: string | null, token: CancelToken, askPerson: AskPerson): Promise<string>;
  signOut(alias: string | null, user: string | null): Promise<string>;
  /** Resolves to the `FoundAgents`. */
  findAgents(query: string, token: CancelToken): Promise<string>;
  /** Resolves to a `PinResult`. */
  pin(alias: string | null, user: string | null, accept: string | null, fingerprint: string | null): Promise<string>;
  render(envelope: string, maxChars?: number): string;
  definition(): string;
  /** Returns the `Health` of each target that was called, as a JSON object by alias. */
  health(): string;
  close(): void;
  /** Closes, and blocks until the sign-ins that are being renewed are stored. For a process that ends; also after `close`. */
  closeAndWait(): void;
}

export interface ApiAnswer {
  status: number;
  body: string;
  reason?: string;
  retryable?: boolean;
}

/** The exports of the native library. */
export interface Library {
  RemoteAgent: new (config: string, log: (level: string, line: string) => void) => RemoteAgent;
  CancelToken: new () => CancelToken;
  parseConfig(config: string): string;
  apiRequest(route: string, body: string): ApiAnswer & { request?: string; action: string; expiresAfter: number };
  apiResponse(action: string, envelope: string, hasExpired: boolean): ApiAnswer;
  apiRefusal(message: string): ApiAnswer;
}

/** What a `Followers` needs of the process that it runs in. */
export interface FollowHost {
  ask(request: CallRequest, caller: Caller, askPerson?: AskPerson): Promise<string>;
  /** Returns what a call of this session needs to ask a person. */
  asker?(caller: FollowedRecord["caller"]): CallAsker;
  /** Whether the gateway is about to stop. */
  isStopping?(): boolean;
  render(envelope: string, maxChars: number): string;
  wake(record: FollowedRecord, text: string): void;
  warn(line: string): void;
  now(): number;
  later(ms: number, run: () => void): () => void;
}

export interface Definition {
  name: string;
  label: string;
  description: string;
  parameters: Schema;
}

export interface Schema {
  properties?: Record<string, Schema>;
  required?: string[];
  items?: Schema;
  oneOf?: Schema[];
  enum?: string[];
  type?: string | string[];
  description?: string;
}
