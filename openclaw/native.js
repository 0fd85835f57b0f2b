// Finds and loads the one binary built for this machine, by its absolute path.
import { constants } from "node:os";
import process from "node:process";
import { fileURLToPath } from "node:url";

/** The file name of the library for a machine: `remote_agent.linux-x64-gnu.node`, `remote_agent.darwin-arm64.node`. */
export function libraryName({ platform, arch, libc }) {
  return `remote_agent.${platform}-${arch}${libc ? `-${libc}` : ""}.node`;
}

/** This machine. Node reports the glibc it runs on; on Linux, none means musl. */
export function thisMachine() {
  const { platform, arch } = process;
  return { platform, arch, libc: platform === "linux" ? (glibcVersion() ? "gnu" : "musl") : undefined };
}

/** Maps the library and returns its exports. Throws with the path and what to install when that fails. */
export function loadLibrary() {
  const machine = thisMachine();
  const path = fileURLToPath(new URL(`./native/${libraryName(machine)}`, import.meta.url));
  const module = { exports: {} };
  try {
    process.dlopen(module, path, constants.dlopen.RTLD_NOW | constants.dlopen.RTLD_LOCAL);
  } catch (error) {
    throw new Error(
      `the native library for ${machine.platform}-${machine.arch} does not load from "${path}": ${error.message}. ` +
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
