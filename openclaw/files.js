// Files of the agent's workspace. Replaces the `path` of a part by the bytes of the file, and saves the files of a result.
//
// A path comes from a model and a file name from a remote agent, so both are untrusted. Reading follows no symbolic link out
// of the allowed directories. Writing creates new files only, below `remote-agent/` in the workspace.
import { randomBytes } from "node:crypto";
import { constants } from "node:fs";
import { lstat, mkdir, open, readdir, readlink, realpath } from "node:fs/promises";
import paths, { basename, extname, join, resolve } from "node:path";
import process from "node:process";
/** @import {CallRequest, Envelope, FileContent, Schema} from "./types.d.ts" */

/** The size limit of one file, and of all files of one message, in bytes. */
export const MAX_FILE_BYTES = 8 * 1024 * 1024;
export const MAX_MESSAGE_BYTES = 16 * 1024 * 1024;
/** The maximum number of files of one result to save, and of its images to show to the model. */
export const MAX_SAVED_FILES = 20;
export const MAX_IMAGES = 4;
/** The maximum number and total size in bytes of the files of one task. */
export const MAX_TASK_FILES = 200;
export const MAX_TASK_BYTES = 64 * 1024 * 1024;
const MAX_IMAGE_BYTES = 4 * 1024 * 1024;
const MAX_NAME_CHARS = 100;
const MAX_EXTENSION_CHARS = 16;
const MAX_NAME_ATTEMPTS = 100;

/** The error of a part whose file cannot be sent. `place` is a JSON Pointer into the request. */
export class FileError extends Error {
  constructor(place, message) {
    super(message);
    this.place = place;
  }
}

/** The schema of the field that `attach` replaces. */
export const PATH_FIELD = { type: "string", description: "Of a file in your workspace; instead of bytes." };

/**
 * Returns `parameters` with the field `path` added to its parts.
 * @param {Schema} parameters
 * @returns {Schema}
 */
export function withPaths(parameters) {
  const { properties } = parameters;
  const items = properties?.parts?.items;
  if (!items) return parameters;
  const changed = items.oneOf ? { ...items, oneOf: items.oneOf.map(addPath) } : addPath(items);
  return { ...parameters, properties: { ...properties, parts: { ...properties.parts, items: changed } } };
}

function addPath(part) {
  const kinds = part.properties.kind.enum;
  return kinds && !kinds.includes("file") ? part : { ...part, properties: { ...part.properties, path: PATH_FIELD } };
}

/**
 * Returns the request with the bytes of each file in place of its `path`. A path is relative to the workspace. The file
 * must be in the workspace or in one of `mediaRoots`.
 *
 * Throws a FileError for the first part that cannot be sent.
 * @param {CallRequest} request
 * @param {{ workspaceDir: string, mediaRoots?: string[] }} context
 */
export async function attach(request, { workspaceDir, mediaRoots = [] }) {
  if (!Array.isArray(request?.parts) || !request.parts.some((part) => part?.path !== undefined)) return request;
  let left = MAX_MESSAGE_BYTES;
  const parts = [];
  for (const [index, part] of request.parts.entries()) {
    if (part?.path === undefined) {
      parts.push(part);
      continue;
    }
    const place = `/parts/${index}/path`;
    if (part.kind !== "file") throw new FileError(place, "only a part of kind `file` has a `path`");
    if (part.uri !== undefined || part.bytes !== undefined) throw new FileError(place, "a file has either `path`, `uri` or `bytes`");
    const { path, ...rest } = part;
    const bytes = await readAllowed(place, path, [workspaceDir, ...mediaRoots], left);
    left -= bytes.length;
    const name = rest.name ?? basename(path);
    parts.push({ ...rest, bytes: bytes.toString("base64"), name, mime_type: rest.mime_type ?? mediaType(bytes, name) });
  }
  return { ...request, parts };
}

async function readAllowed(place, path, roots, left) {
  const fail = (why) => new FileError(place, `cannot read \`${path}\`: ${why}`);
  if (typeof path !== "string" || path.includes("\0")) throw new FileError(place, "`path` is not a path");
  // Both cases have the same error, which does not reveal the existence of other files.
  const target = await realpath(resolve(roots[0], path)).catch(() => undefined);
  const allowed = await Promise.all(roots.map((root) => realpath(root).catch(() => undefined)));
  const isAllowed = target !== undefined && allowed.some((root) => root !== undefined && isInside(root, target));
  if (!isAllowed) throw fail("it does not exist or is outside of the workspace");
  // Non-blocking, because opening a FIFO would wait for a writer.
  const file = await open(target, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK).catch((error) => {
    throw fail(error.code);
  });
  try {
    const stat = await file.stat();
    const now = await lstat(target);
    if (!stat.isFile()) throw fail("it is not a regular file");
    if (stat.ino !== now.ino || stat.dev !== now.dev || !(await isPathAt(file, target))) throw fail("it changed while it was opened");
    const limit = Math.min(MAX_FILE_BYTES, left);
    if (stat.size > limit) throw fail(`it has ${stat.size} bytes, and ${limit} are left of the limit (${MAX_FILE_BYTES} per file, ${MAX_MESSAGE_BYTES} per message)`);
    const { buffer, bytesRead } = await readUpTo(file, limit + 1);
    if (bytesRead > limit) throw fail("it grew while it was read");
    if (bytesRead === 0) throw fail("it is empty");
    return buffer.subarray(0, bytesRead);
  } finally {
    await file.close();
  }
}

async function readUpTo(file, limit) {
  const { size } = await file.stat();
  const buffer = Buffer.alloc(Math.min(limit, size + 1));
  let bytesRead = 0;
  while (bytesRead < buffer.length) {
    const read = await file.read(buffer, bytesRead, buffer.length - bytesRead, bytesRead);
    if (read.bytesRead === 0) break;
    bytesRead += read.bytesRead;
  }
  return { buffer, bytesRead };
}

/** Returns whether `path` is below `root`. On Windows, the relative path to another drive is absolute. */
export function isInside(root, path, { relative, isAbsolute, sep } = paths) {
  const way = relative(root, path);
  return way !== "" && way !== ".." && !way.startsWith(`..${sep}`) && !isAbsolute(way);
}

/**
 * Returns whether the open `file` is at `path`, which has no symbolic links. A directory on the path may have been
 * replaced. Only Linux reports the path of an open file.
 */
async function isPathAt(file, path) {
  return process.platform !== "linux" || (await readlink(`/proc/self/fd/${file.fd}`).catch(() => undefined)) === path;
}

/**
 * Saves the files of a result below `remote-agent/TASK/` in the workspace.
 *
 * Returns `{ saved: [{ index, path, mediaType, size, bytes }], failed: [text] }`; `path` is relative to the workspace.
 * Skips a file that already exists with the same content.
 * @param {Envelope} envelope
 * @param {string} workspaceDir
 */
export async function save(envelope, workspaceDir) {
  const found = filesOf(envelope);
  const saved = [];
  const failed = [];
  if (found.length === 0) return { saved, failed };
  const folders = ["remote-agent", safeName(taskOf(envelope))];
  try {
    await withinDirectory(await makeDirectory(await realpath(workspaceDir), folders), async (directory) => {
      const room = await remainingSpace(directory);
      for (const [index, file] of found.slice(0, MAX_SAVED_FILES).entries()) {
        const bytes = Buffer.from(file.bytes ?? "", "base64");
        const sniffed = mediaType(bytes, file.name);
        const name = safeName(file.name, `file-${index + 1}${EXTENSIONS[sniffed] ?? ""}`);
        try {
          const written = await writeNew(directory, name, bytes, room);
          saved.push({ index, path: join(...folders, written), mediaType: sniffed, size: bytes.length, bytes });
        } catch (error) {
          failed.push(`cannot save ${name}: ${error.code ?? error.message}`);
        }
      }
    });
  } catch (error) {
    failed.push(`cannot save the files of the result: ${error.message}`);
  }
  if (found.length > MAX_SAVED_FILES) failed.push(`${found.length - MAX_SAVED_FILES} more files were not saved`);
  return { saved, failed };
}

export const NO_FILES = { saved: [], failed: [] };

/** Returns a copy of the envelope without the bytes of the saved files, which a model does not need. */
export function withoutSaved(envelope, { saved }) {
  const copy = structuredClone(envelope);
  const files = filesOf(copy);
  for (const { index } of saved) delete files[index].bytes;
  return copy;
}

/** Returns the content for a model: one line per file, inside a fence because remote agents choose names, and the images. */
export function describe({ saved, failed }) {
  const lines = saved.map(({ path, mediaType, size }) => `[saved file] ${path} (${mediaType}, ${size} bytes)`);
  const text = [...lines, ...failed.map((line) => `[file] ${line}`)].join("\n");
  const images = saved.filter(({ mediaType, size }) => IMAGES.has(mediaType) && size <= MAX_IMAGE_BYTES).slice(0, MAX_IMAGES);
  const shown = images.map(({ bytes, mediaType }) => ({ type: "image", data: bytes.toString("base64"), mimeType: mediaType }));
  return text === "" ? shown : [{ type: "text", text: `The files of the result, in your workspace:\n${fenced(text)}` }, ...shown];
}

/** Puts sanitized text between the markers of the library's texts for models. */
function fenced(text) {
  const id = randomBytes(4).toString("hex");
  return `<<<EXTERNAL_UNTRUSTED_CONTENT id="${id}">>>\n${text}\n<<<END_EXTERNAL_UNTRUSTED_CONTENT id="${id}">>>`;
}

/**
 * @param {Envelope} envelope
 * @returns {FileContent[]}
 */
function filesOf({ ok, summary, raw }) {
  if (ok !== true) return [];
  const each = /** @type {any[]} */ (/** @type {unknown} */ (raw)) ?? [];
  if (summary?.group) return summary.group.results.flatMap(({ summary = {} }, place) => filesOf({ ok, summary, raw: each[place] }));
  const answers = Array.isArray(raw?.events) ? raw.events : [raw];
  const messages = answers.map((one) => (one?.kind === "message" ? one.parts : one?.status?.message?.parts));
  const lists = (summary?.artifacts ?? []).map((artifact) => artifact.parts).concat(messages);
  const known = new Set();
  // Events of a stream repeat a message, and an artifact may have the file of one.
  return lists.flatMap((parts) => {
    const all = Array.isArray(parts) ? parts : [];
    const files = all.flatMap((part) => (part?.kind === "file" && typeof part.file?.bytes === "string" ? [part.file] : []));
    const added = files.filter((file) => !known.has(identity(file)));
    for (const file of added) known.add(identity(file));
    return added;
  });
}

/** @param {FileContent} file */
const identity = ({ name, bytes }) => JSON.stringify([name, bytes]);

/** @param {Envelope} envelope */
function taskOf({ summary, raw }) {
  return summary?.group?.id ?? summary?.continuation?.task?.task_id ?? raw?.messageId ?? "message";
}

/** Creates the directories one by one. Fails if one of them is a symbolic link. */
async function makeDirectory(root, names) {
  let directory = root;
  for (const name of names) {
    directory = join(directory, name);
    await mkdir(directory, { mode: 0o700 }).catch((error) => {
      if (error.code !== "EEXIST") throw error;
    });
    if (!(await lstat(directory)).isDirectory()) throw new Error(`\`${name}\` is not a directory`);
  }
  return directory;
}

/**
 * Runs `work` with a path that refers to `directory` even if it is replaced by a symbolic link. Only Linux has such paths.
 */
async function withinDirectory(directory, work) {
  if (process.platform !== "linux") return work(directory);
  const opened = await open(directory, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW);
  try {
    if (!(await isPathAt(opened, directory))) throw new Error("the directory changed while it was opened");
    await work(`/proc/self/fd/${opened.fd}`);
  } finally {
    await opened.close();
  }
}

/** Returns the number and the size of the files that a task's directory may still receive. */
async function remainingSpace(directory) {
  const names = await readdir(directory);
  const sizes = await Promise.all(names.map((name) => lstat(join(directory, name)).then(({ size }) => size, () => 0)));
  return { files: MAX_TASK_FILES - names.length, bytes: MAX_TASK_BYTES - sizes.reduce((sum, size) => sum + size, 0) };
}

async function writeNew(directory, name, bytes, room) {
  const extension = extname(name);
  const stem = name.slice(0, name.length - extension.length);
  for (let attempt = 1; attempt <= MAX_NAME_ATTEMPTS; attempt += 1) {
    const candidate = attempt === 1 ? name : `${stem}-${attempt}${extension}`;
    const path = join(directory, candidate);
    if (await hasBytes(path, bytes)) return candidate;
    if (room.files < 1 || room.bytes < bytes.length) throw new Error(`the files of a task are at most ${MAX_TASK_FILES} with ${MAX_TASK_BYTES} bytes`);
    const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;
    let file;
    try {
      file = await open(path, flags, 0o600);
    } catch (error) {
      if (error.code !== "EEXIST") throw error;
      continue;
    }
    room.files -= 1;
    room.bytes -= bytes.length;
    try {
      await file.writeFile(bytes);
    } finally {
      await file.close();
    }
    return candidate;
  }
  throw new Error("too many files of this name");
}

async function hasBytes(path, bytes) {
  const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK).catch(() => undefined);
  if (!file) return false;
  try {
    const stat = await file.stat();
    if (!stat.isFile() || stat.size !== bytes.length) return false;
    const { buffer, bytesRead } = await readUpTo(file, bytes.length + 1);
    return buffer.subarray(0, bytesRead).equals(bytes);
  } finally {
    await file.close();
  }
}

// The device names of Windows, with any extension.
const DEVICE = /^(con|prn|aux|nul|com\d|lpt\d)(\.|$)/i;
// Words of the markers around untrusted text. A model may read such a path as the end of the text.
const MARKER = /endexternal|externaluntrusted|untrustedcontent/i;

/**
 * Returns a name that is one path component on every system, no option of a command, no hidden file and no marker: letters,
 * digits, `.`, `_` and `-`, and a letter, a digit or `_` first. `crates/cli/src/artifact_files.rs` has the same rule.
 * @param {unknown} name
 * @param {string} fallback for a name of which nothing remains
 */
export function safeName(name, fallback = "file") {
  const last = (typeof name === "string" ? name : "").split(/[/\\]/).at(-1) ?? "";
  const plain = last.replace(/[^A-Za-z0-9._-]+/g, "_").replace(/^[._-]+/, "").replace(/(?<![._-])[._-]+$/, "");
  const extension = extname(plain).slice(0, MAX_EXTENSION_CHARS);
  const stem = plain.slice(0, plain.length - extname(plain).length).slice(0, MAX_NAME_CHARS - extension.length);
  const safe = stem + extension;
  if (stem === "" || MARKER.test(safe.replace(/[._-]/g, ""))) return fallback;
  return DEVICE.test(safe) ? `_${safe}` : safe;
}

const IMAGES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);
const SIGNATURES = [
  ["image/png", "89504e470d0a1a0a"],
  ["image/jpeg", "ffd8ff"],
  ["image/gif", "47494638"],
  ["application/pdf", "255044462d"],
  ["application/zip", "504b0304"],
  ["application/gzip", "1f8b"],
];
const TEXT_TYPES = { ".csv": "text/csv", ".html": "text/html", ".json": "application/json", ".md": "text/markdown", ".xml": "application/xml" };
const EXTENSIONS = { "image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif", "image/webp": ".webp", "application/pdf": ".pdf", "application/zip": ".zip", "application/gzip": ".gz", "text/plain": ".txt" };

/** Detects the media type from the content. The name only distinguishes kinds of text. */
export function mediaType(bytes, name = "") {
  const start = bytes.subarray(0, 16).toString("hex");
  const signature = SIGNATURES.find(([, hex]) => start.startsWith(hex));
  if (signature) return signature[0];
  if (start.startsWith("52494646") && start.slice(16, 24) === "57454250") return "image/webp";
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    if (text.includes("\0")) return "application/octet-stream";
  } catch {
    return "application/octet-stream";
  }
  return TEXT_TYPES[extname(typeof name === "string" ? name : "").toLowerCase()] ?? "text/plain";
}
