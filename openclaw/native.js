// Finds and loads the one library built for this machine, by its absolute path.
import { createRequire } from "node:module";
import { constants } from "node:os";
import process from "node:process";
import { fileURLToPath } from "node:url";

const require = createRequire(import.meta.url);

/** The platform of a machine, as the npm packages name it: `linux-x64-gnu`, `darwin-arm64`. */
export function platformName({ platform, arch, abi }) {
  return `${platform}-${arch}${abi ? `-${abi}` : ""}`;
}

/** This machine. Node reports the glibc it runs on; on Linux, none means musl. */
export function thisMachine() {
  const { platform, arch } = process;
  const abi = { linux: () => (glibcVersion() ? "gnu" : "musl"), win32: () => "msvc" }[platform]?.();
  return { platform, arch, abi };
}

/** The path of the library: in the npm package of the platform when it has this package's version, or else in this package. */
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

/** Maps the library and returns its exports. Throws with the path and what to install when that fails. */
export function loadLibrary() {
  const platform = platformName(thisMachine());
  const path = libraryPath(platform);
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
  const { report } = process;
  // Without this the report resolves the names of all open sockets, which can block for seconds.
  const { excludeNetwork } = report;
  report.excludeNetwork = true;
  try {
    return report.getReport().header.glibcVersionRuntime;
  } finally {
    report.excludeNetwork = excludeNetwork;
  }
}
