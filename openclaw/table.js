// Tables for terminals: aligned columns, or one block per row on a narrow terminal. A table never breaks words, so that users
// can copy ids and addresses.
import process from "node:process";

import { line } from "./text.js";

const GAP = "  ";
/** The minimum width at which the last column wraps. */
const MIN_WRAPPED_WIDTH = 16;

const widthOf = (text) => [...text].length;
const pad = (text, width) => text + " ".repeat(Math.max(0, width - widthOf(text)));
const isEmpty = (cell) => cell === "" || cell === "-";

/** Returns the width of the terminal on standard output; undefined without a terminal. */
const terminalWidth = () => (process.stdout.isTTY ? process.stdout.columns : undefined);

/**
 * Formats rows for the terminal. The first row is the header.
 * @param {unknown[][]} rows
 * @param {number | undefined} width
 */
export function table(rows, width = terminalWidth()) {
  const cells = rows.map((row) => row.map((cell) => line(cell)));
  if (!width || totalOf(cells) <= width) return columns(cells);
  const full = cells[0].flatMap((_, column) => (cells.slice(1).every((row) => isEmpty(row[column])) ? [] : [column]));
  const kept = cells.map((row) => full.map((column) => row[column]));
  if (totalOf(kept) <= width) return columns(kept);
  const room = width - totalOf(kept.map((row) => [...row.slice(0, -1), ""]));
  const words = kept.slice(1).flatMap((row) => (row.at(-1) ?? "").split(" "));
  if (room < MIN_WRAPPED_WIDTH || words.some((word) => widthOf(word) > room)) return blocks(kept, width);
  return columns(kept.map((row, at) => (at === 0 ? row : [...row.slice(0, -1), wrap(row.at(-1) ?? "", room)])));
}

const widthsOf = (cells) => cells[0].map((_, column) => cells.reduce((width, row) => Math.max(width, widthOf(row[column])), 0));
const totalOf = (cells) => widthsOf(cells).reduce((sum, width) => sum + width + GAP.length, -GAP.length);

function columns(cells) {
  const widths = widthsOf(cells.map((row) => [...row.slice(0, -1), ""]));
  const indent = " ".repeat(widths.slice(0, -1).reduce((sum, width) => sum + width + GAP.length, 0));
  return cells.map((row) => row.map((cell, column) => pad(cell, widths[column])).join(GAP).trimEnd().replaceAll("\n", `\n${indent}`)).join("\n");
}

function blocks(/** @type {string[][]} */ cells, width) {
  const [head = [], ...rows] = cells;
  const indent = Math.max(...head.map(widthOf)) + GAP.length;
  const room = Math.max(width - indent, MIN_WRAPPED_WIDTH);
  const labelled = (label, text) => pad(label, indent) + wrap(text, room).replaceAll("\n", `\n${" ".repeat(indent)}`);
  return rows.map((row) => row.flatMap((text, column) => (isEmpty(text) ? [] : [labelled(head[column], text)])).join("\n")).join("\n\n");
}

/** Wraps a text for the terminal, each of its lines. */
export const wrapped = (text, width = terminalWidth()) => (width ? text.split("\n").map((one) => wrap(one, width)).join("\n") : text);

/** Wraps `text` between words, but not inside backticks, so that users can copy commands. */
function wrap(text, width) {
  const words = text.match(/(?:`[^`]*`|\S)+/g) ?? [];
  return words.reduce(({ lines, column }, word) => {
    const fits = column > 0 && column + 1 + widthOf(word) <= width;
    const before = column === 0 ? "" : fits ? " " : "\n";
    return { lines: lines + before + word, column: (fits ? column + 1 : 0) + widthOf(word) };
  }, { lines: "", column: 0 }).lines;
}
