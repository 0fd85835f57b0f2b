// Prints the TypeScript types of requests, results and the HTTP API: `node types.mjs REQUEST_SCHEMA RESULT_SCHEMA CODE…`.
import { readFile } from "node:fs/promises";
import { compile } from "json-schema-to-typescript";

const [request, result, ...codes] = process.argv.slice(2);
const options = { bannerComment: "", additionalProperties: false, style: { printWidth: 140 } };
const types = async (file, name) => compile({ ...JSON.parse(await readFile(file, "utf8")), title: name }, name, options);

console.log("// Types of the tool remote_agent and of its HTTP API. Generated: `UPDATE=1 cargo real --test suite mcp::types`.\n");
console.log(await types(request, "Request"));
console.log(await types(result, "Result"));
console.log(`/** A body of \`POST /remote_agent/read\` or \`/remote_agent/write\`; a \`Request\` is one too. */
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
export type ApiCode = ${codes.map((code) => JSON.stringify(code)).join(" | ")};

/** The response to a request that failed. \`path\` is a JSON Pointer into \`input\`, only of INVALID_INPUT. */
export interface ApiFailure {
  isError: true;
  error: { code: ApiCode; message: string; path?: string };
}`);
