/* SPDX-License-Identifier: BSD-3-Clause */
/* words.js - numbers, times and names as text. */

/* Kinds of operations whose name on the page differs from that in telemetry. */
export const KINDS = { __proto__: null, allreduce: "all-reduce", window: "call of an MPI window" };

const UNITS = [[1e9, "G"], [1e6, "M"], [1e3, "k"]];

/** Return a number with three digits and a unit: "12.3 k". */
export function short(number) {
  const size = UNITS.find(([least]) => Math.abs(number) >= 0.9995 * least);
  if (size) return `${(number / size[0]).toPrecision(3)} ${size[1]}`;
  return Math.abs(number) >= 10 || Number.isInteger(number) ? number.toFixed(0)
    : number.toPrecision(2);
}

export function bytesText(bytes) {
  for (const [size, unit] of [[1 << 30, "GiB"], [1 << 20, "MiB"], [1 << 10, "KiB"]])
    if (bytes >= size) return `${+(bytes / size).toPrecision(3)} ${unit}`;
  return `${bytes} B`;
}

export function timeText(seconds) {
  if (seconds >= 0.9995) return `${seconds.toPrecision(3)} s`; /* 0.9995 rounds to 1.00 */
  if (seconds >= 0.9995e-3) return `${(seconds * 1e3).toPrecision(3)} ms`;
  if (seconds >= 0.9995e-6) return `${(seconds * 1e6).toPrecision(3)} µs`;
  return `${(seconds * 1e9).toPrecision(3)} ns`;
}

/** Return "1 node" or "3 nodes". @many: the plural, if it is not @one with an s. */
export function counted(count, one, many = `${one}s`) {
  return `${Number(count).toLocaleString("en")} ${count === 1 ? one : many}`;
}

/** Return "a, b and c". Names after the first @most are replaced by "and 5 more". */
export function listText(names, most = 6) {
  const shown = names.slice(0, most);
  if (names.length > most) return `${shown.join(", ")} and ${names.length - most} more`;
  return shown.length < 2 ? shown.join("") : `${shown.slice(0, -1).join(", ")} and ${shown.at(-1)}`;
}

export const withArticle = (word) => `${/^[aeiou]/.test(word) ? "an" : "a"} ${word}`;
export const capital = (text) => text[0].toUpperCase() + text.slice(1);
