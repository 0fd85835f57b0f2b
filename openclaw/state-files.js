// Small files below OpenClaw's state directory, which several gateways may share.
import { closeSync, constants, fstatSync, mkdirSync, openSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";

/**
 * Reads a regular file of at most `maxBytes`. Follows no symbolic link, and does not wait for the writer of a FIFO.
 * @param {string} path
 * @param {number} maxBytes
 */
export function readSmall(path, maxBytes) {
  const file = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  try {
    const stat = fstatSync(file);
    if (!stat.isFile() || stat.size > maxBytes) throw new Error("it is not a small file");
    return readFileSync(file, "utf8");
  } finally {
    closeSync(file);
  }
}

/**
 * Replaces a file, which only its owner may read. A reader sees the old text or the new one.
 * @param {string} path
 * @param {string} text
 */
export function replaceFile(path, text) {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  const written = `${path}.new`;
  rmSync(written, { force: true });
  writeFileSync(written, text, { mode: 0o600, flag: "wx" });
  renameSync(written, path);
}
