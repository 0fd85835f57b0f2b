import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";

import { settings } from "../config.js";
import { describeFailure } from "../failure.js";
import plugin from "../index.js";
import { libraryPath, missingLibrary, platformName } from "../native.js";
import manifest from "../package.json" with { type: "json" };

const legacyEntry = { enabled: true, config: { enabled: true } };
const host = (entry) => ({ plugins: { entries: { "openclaw-a2a-outbound": entry } } });

function register(registrationMode, pluginConfig) {
  const seen = { tools: 0, infos: [], errors: [] };
  plugin.register({
    registrationMode,
    pluginConfig,
    logger: { info: (line) => seen.infos.push(line), warn() {}, error: (line) => seen.errors.push(line) },
    lifecycle: { onDispose() {} },
    registerTool: () => (seen.tools += 1),
  });
  return seen;
}

test("nothing is loaded where only metadata is asked for", () => {
  for (const mode of ["cli-metadata", "setup-only"]) assert.deepEqual(register(mode, { enabled: true }), { tools: 0, infos: [], errors: [] });
});

test("nothing is loaded unless the settings enable the tool, and one line says so", () => {
  const infos = ["remote_agent is switched off: plugins.entries.remote-agent.config.enabled is not true"];
  for (const config of [undefined, {}, { enabled: false }]) assert.deepEqual(register("full", config), { tools: 0, infos, errors: [] });
});

test("that the tool is switched off is said in full mode alone", () => {
  assert.deepEqual(register("discovery", {}), { tools: 0, infos: [], errors: [] });
});

test("a library that is not there is logged with its file, and the tool left out", () => {
  const { tools, errors } = register("full", { enabled: true });
  assert.equal(tools, 0);
  assert.match(errors[0], /^remote_agent is not available: .*native\/remote_agent\..*\.node".*remote-agent package/);
});

test("settings under the legacy id hold when there are no others", () => {
  assert.deepEqual(settings({ pluginConfig: {}, config: host(legacyEntry) }), {
    config: legacyEntry.config,
    place: "plugins.entries.openclaw-a2a-outbound.config",
  });
});

test("own settings win over those under the legacy id", () => {
  const own = { enabled: false };
  assert.equal(settings({ pluginConfig: own, config: host(legacyEntry) }).config, own);
});

test("a disabled legacy entry stays disabled", () => {
  assert.deepEqual(settings({ pluginConfig: {}, config: host({ ...legacyEntry, enabled: false }) }).config, {});
});

test("a config error names its place", () => {
  const error = new Error(JSON.stringify({ code: "INVALID_CONFIG", message: "the alias is used twice", path: "/targets/1/alias" }));
  assert.match(
    describeFailure(error, "plugins.entries.remote-agent.config"),
    /plugins\.entries\.remote-agent\.config is not valid at "\/targets\/1\/alias": the alias is used twice\. Correct/,
  );
});

test("a platform is named for its machine", () => {
  assert.equal(platformName({ platform: "linux", arch: "x64", abi: "musl" }), "linux-x64-musl");
  assert.equal(platformName({ platform: "darwin", arch: "arm64" }), "darwin-arm64");
});

/** Stands for `require` where the package of the platform has `version`. */
const installed = (version) => Object.assign(() => ({ version }), { resolve: (path) => `/node_modules/${path}` });

test("the library of the platform package comes first", () => {
  const path = libraryPath("darwin-arm64", installed(manifest.version));
  assert.equal(path, "/node_modules/openclaw-remote-agent-darwin-arm64/remote_agent.darwin-arm64.node");
});

test("a platform package of another version is not loaded", () => {
  assert.match(libraryPath("darwin-arm64", installed("9.9.9")), /native.remote_agent\.darwin-arm64\.node$/);
});

test("a package without the library of the machine names its platforms and the package that has it", (t) => {
  const directory = mkdtempSync(join(tmpdir(), "native-"));
  t.after(() => rmSync(directory, { recursive: true }));
  const library = (platform) => join(directory, `remote_agent.${platform}.node`);
  for (const platform of ["win32-x64-msvc", "darwin-arm64"]) writeFileSync(library(platform), "");
  const missing = (platform) => missingLibrary(library(platform), platform, pathToFileURL(`${directory}/`));
  assert.equal(missing("darwin-arm64"), undefined);
  assert.match(missing("linux-x64-musl"), /no library for linux-x64-musl at ".*", only for darwin-arm64, win32-x64-msvc\. .*openclaw plugins install openclaw-remote-agent /);
});

test("the bundled library serves where no platform package is", () => {
  assert.match(libraryPath("darwin-arm64"), /native.remote_agent\.darwin-arm64\.node$/);
});
