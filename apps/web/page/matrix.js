/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * matrix.js - the communication matrix of the report (docs/communication.md) as a picture, and a
 * list of the pairs with the most bytes.
 */
import { scaled } from "./colours.js";
import { el } from "./panel.js";
import { bytesText, counted, short } from "./words.js";

const CELL_PX = 2; /* smallest size of a cell; with many nodes, a cell stands for several of them */
const PAIRS = 12; /* number of pairs in the list */
const TICKS = 8; /* largest number of node numbers on an axis, without the first */

const $ = (id) => document.getElementById(id);

export class Matrix {
  constructor() {
    this.canvas = $("cells");
    this.at = null; /* [row, column] of the cell that is described; null: none */
    this.take(null, 0);
    this.canvas.addEventListener("pointermove", (event) => this.point(event));
    this.canvas.addEventListener("keydown", (event) => this.onKey(event));
  }

  /**
   * Set the data. @messages: communication.messages of a report, or null. @nodes: the number of
   * nodes. @names: by node, the name in the network's file; null: there are none.
   */
  take(messages, nodes, names = null) {
    this.messages = messages;
    this.nodes = nodes;
    this.names = names;
    this.share = Math.max(Math.ceil((nodes * CELL_PX) / this.canvas.width), 1);
    this.count = Math.ceil(nodes / this.share);
    this.bytes = new Float64Array(this.count * this.count);
    this.sent = new Float64Array(this.count * this.count);
    for (const [from, to, sent, bytes] of messages?.matrix || []) {
      const cell = Math.floor(from / this.share) * this.count + Math.floor(to / this.share);
      this.bytes[cell] += bytes;
      this.sent[cell] += sent;
    }
    const some = this.bytes.filter((bytes) => bytes > 0);
    this.most = some.reduce((a, b) => Math.max(a, b), 1);
    this.least = some.reduce((a, b) => Math.min(a, b), this.most);
  }

  /** Draw. @absence: the text to show if there is no data. */
  render(theme, absence) {
    this.draw(theme);
    this.number($("columns"), "left");
    this.number($("rows"), "top");
    this.describeCell();
    $("matrixsum").textContent = this.sumText(absence);
    const rows = [...(this.messages?.matrix || [])].sort((a, b) => b[3] - a[3]).slice(0, PAIRS);
    const heads = ["from", "to", "messages", "bytes"].map((text) =>
      el("th", { scope: "col" }, text));
    $("pairs").replaceChildren(el("caption", {}, "pairs with most bytes"),
      el("thead", {}, el("tr", {}, ...heads)),
      el("tbody", {}, ...rows.map(([from, to, sent, bytes]) => el("tr", {},
        el("th", { scope: "row" }, this.nodeText(from)), el("td", {}, this.nodeText(to)),
        el("td", {}, short(sent)), el("td", {}, bytesText(bytes))))));
  }

  nodeText(node) {
    return this.names?.[node] || `node ${node}`;
  }

  nodesText(from, to) {
    if (from === to) return this.nodeText(from);
    return `nodes ${from}–${to}${this.names ? ` (${this.names[from]} – ${this.names[to]})` : ""}`;
  }

  sumText(absence) {
    const { messages } = this;
    if (!messages) return absence;
    if (!messages.messages) return "No message has been sent.";
    const left = messages.not_listed?.pairs;
    return `${counted(messages.messages, "message")} with ` +
      `${bytesText(messages.bytes)} in total, between ${counted(messages.pairs, "pair")} of nodes` +
      (left ? `; those with fewest bytes (${counted(left, "pair")}) are not listed` : "");
  }

  /* Write node numbers on an axis, at the centre of their cells. @side: the style to set. */
  number(axis, side) {
    let step = 1;
    while ((this.nodes - 1) / step > TICKS) step *= 2;
    axis.replaceChildren(...Array.from({ length: Math.ceil(this.nodes / step) }, (_, i) => {
      const tick = el("span", {}, String(i * step));
      tick.style[side] = `${(100 * (Math.floor((i * step) / this.share) + 0.5)) / this.count}%`;
      return tick;
    }));
  }

  draw(theme) {
    const ctx = this.canvas.getContext("2d"), { width } = this.canvas;
    const size = width / Math.max(this.count, 1), gap = size > 5 ? 1 : 0;
    this.theme = theme;
    ctx.fillStyle = theme.ground;
    ctx.fillRect(0, 0, width, width);
    this.bytes.forEach((bytes, i) => {
      ctx.fillStyle = this.colourOf(bytes);
      ctx.fillRect((i % this.count) * size, Math.floor(i / this.count) * size, size - gap,
        size - gap);
    });
    if (!this.at) return;
    ctx.strokeStyle = theme.select;
    ctx.lineWidth = 2;
    ctx.strokeRect(this.at[1] * size, this.at[0] * size, Math.max(size - gap, 4),
      Math.max(size - gap, 4));
  }

  colourOf(bytes) {
    if (!bytes) return this.theme.row;
    const span = Math.log(this.most / this.least);
    return scaled(this.theme.scale, span ? 0.15 + 0.85 * (Math.log(bytes / this.least) / span) : 1);
  }

  point(event) {
    const { left, top, width } = this.canvas.getBoundingClientRect();
    this.move(Math.floor(((event.clientY - top) / width) * this.count),
      Math.floor(((event.clientX - left) / width) * this.count));
  }

  onKey(event) {
    const [down, right] = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1],
      ArrowRight: [0, 1] }[event.key] || [0, 0];
    if (!down && !right) return;
    event.preventDefault();
    if (this.at) this.move(this.at[0] + down, this.at[1] + right);
    else this.move(0, 0);
  }

  move(row, column) {
    if (!this.count || [row, column].some((at) => at < 0 || at >= this.count)) return;
    this.at = [row, column];
    this.draw(this.theme);
    this.describeCell();
  }

  /* Describe the cell under the pointer. */
  describeCell() {
    const [row, column] = this.at || [this.count, this.count];
    if (row >= this.count || column >= this.count) {
      $("cell").textContent = "";
      return;
    }
    const cell = row * this.count + column;
    const ends = (at) => this.nodesText(at * this.share,
      Math.min((at + 1) * this.share, this.nodes) - 1);
    $("cell").textContent = `${ends(row)} to ${ends(column)}: ${bytesText(this.bytes[cell])} in ` +
      counted(this.sent[cell], "message");
  }
}
