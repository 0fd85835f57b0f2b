// Locates and loads the library for this platform by its absolute path.
import { existsSync, readdirSync } from "node:fs";
import { createRequire } from "node:module";
import { constants } from "node:os";
import process from "node:process";
import { fileURLToPath } from "node:url";

const require = createRequire(import.meta.url);

/** Returns the platform's name in the npm packages: `linux-x64-gnu`, `darwin-arm64`. */
export function platformName({ platform, arch, abi }) {
  return `${platform}-${arch}${abi ? `-${abi}` : ""}`;
}

/** Returns the properties of this machine. Node reports its glibc version; on Linux without one, the libc is musl. */
export function thisMachine() {
  const { platform, arch } = process;
  const abi = { linux: () => (glibcVersion() ? "gnu" : "musl"), win32: () => "msvc" }[platform]?.();
  return { platform, arch, abi };
}

/**
 * Returns the path of the library: in the npm package for the platform if its version equals that of this package, or else
 * in this package.
 */
export function libraryPath(platform, resolver = require) {
  const file = `remote_agent.${platform}.node`;
  const { name, version } = require("./package.json");
  try {
    if (resolver(`${name}-${platform}/package.json`).version === version) {
      return resolver.resolve(`${name}-${platform}/${file}`);
    }
  } catch (error) {
    if (error.code !== "MODULE_NOT_FOUND") throw error;
  }
  return fileURLToPath(new URL(`./native/${file}`, import.meta.url));
}

/** Returns what is wrong if no package has a library at this path, with the platforms that this package is for. */
export function missingLibrary(path, platform, directory = new URL("./native/", import.meta.url)) {
  if (existsSync(path)) return;
  const files = existsSync(directory) ? readdirSync(directory) : [];
  const platforms = files.flatMap((file) => file.match(/^remote_agent\.(.+)\.node$/)?.[1] ?? []).sort();
  return (
    `this package has no library for ${platform} at "${path}"${platforms.length > 0 ? `, only for ${platforms.join(", ")}` : ""}. Install the one from npm, ` +
    "which brings the library of this machine (`openclaw plugins install openclaw-remote-agent --force --accept-capabilities`), " +
    "or one built for this machine (`remote-agent package` builds one)."
  );
}

/**
 * Loads the library and returns its exports. On failure, throws an error with the path and the package to install.
 * @returns {import("./types.d.ts").Library}
 */
export function loadLibrary() {
  const platform = platformName(thisMachine());
  const path = libraryPath(platform);
  const missing = missingLibrary(path, platform);
  if (missing) throw new Error(missing);
  /** @type {{ exports: any }} */
  const module = { exports: {} };
  try {
    process.dlopen(module, path, constants.dlopen.RTLD_NOW | constants.dlopen.RTLD_LOCAL);
  } catch (error) {
    throw new Error(
      `the native library for ${platform} does not load from "${path}": ${error.message}. ` +
        "Install a package built for this machine (`remote-agent package` builds one).",
      { cause: error },
    );
  }
  return module.exports;
}

function glibcVersion() {
  /** @type {any} @types/node has neither the option nor the contents of a report. */
  const report = process.report;
  // Otherwise the report resolves the host names of all open sockets, which can block for seconds.
  const { excludeNetwork } = report;
  report.excludeNetwork = true;
  try {
    return report.getReport().header.glibcVersionRuntime;
  } finally {
    report.excludeNetwork = excludeNetwork;
  }
}
