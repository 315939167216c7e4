/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * paint.js - draws the network on a canvas. It only reads the model.
 *
 * A cable is drawn as two lines, one for each direction. The colour of a line shows its load, and
 * the thickness its rate. Dashes over it show that segments had to wait for a credit. Dots move in
 * the direction of the segments, first up and then down, level after level, as in a collective.
 * They show the traffic of the last tenth of a second, slowed down.
 */
import { THEMES, loadColour, shareOf } from "./colours.js";
import { counted } from "./words.js";

const HOP_S = 0.42; /* time that a dot takes along one line */
const HELD = 0.6; /* weight of earlier snapshots in the moving average */
const HELD_SNAPSHOTS = 6; /* a rate is shown as 0 after this many snapshots without segments */
const CELL_PX = 15; /* largest size of a cell in a box or bundle */
const WAIT_S = 2.5; /* longer waits are marked; libraries report waits about once a second */
const FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif";

export class Painter {
  constructor(canvas) {
    this.canvas = canvas;
    this.ctx = canvas.getContext("2d");
    this.theme = THEMES.dark;
    this.chosen = null; /* id of an item or edge */
    this.hovered = null;
    this.still = null; /* from standstillMarks(), while no segment moves */
    this.calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  }

  setTheme(name) {
    this.theme = THEMES[name];
  }

  /** Show a model with its layout; null: none. */
  setModel(model, layout) {
    this.model = model;
    this.layout = layout;
    this.still = null;
    this.ages = null;
    this.shown = null;
    if (!model) return;
    this.shown = new Float64Array(model.directions.count);
    this.waited = new Float64Array(model.directions.count);
    this.combined = new Float64Array(model.switches.length);
    this.sent = new Float64Array(model.nodeCount);
    this.delivered = new Float64Array(model.nodeCount);
    const held = [this.shown, this.waited, this.combined, this.sent, this.delivered];
    this.ages = new Map(held.map((shown) => [shown, new Uint8Array(shown.length)]));
  }

  /** Update the shown rates, after the model has applied a snapshot. */
  follow() {
    const { directions, sw, node } = this.model;
    this.hold(this.shown, directions.segmentsRate);
    this.hold(this.waited, directions.stallsRate);
    this.hold(this.combined, sw.contributionsRate);
    this.hold(this.sent, node.sentRate);
    this.hold(this.delivered, node.deliveredRate);
  }

  /*
   * Update shown rates. A rate is shown as a moving average, so that steady traffic does not
   * flicker. New traffic is shown at once, and fades within about half a second after its end,
   * since it may have been shorter than a snapshot.
   */
  hold(shown, rates) {
    const ages = this.ages.get(shown);
    for (let i = 0; i < shown.length; i++) {
      ages[i] = rates[i] > 0 ? 0 : Math.min(ages[i] + 1, HELD_SNAPSHOTS);
      if (ages[i] === HELD_SNAPSHOTS) shown[i] = 0;
      else shown[i] = shown[i] > 0 ? HELD * shown[i] + (1 - HELD) * rates[i] : rates[i];
    }
  }

  /** Show no movement, because no snapshots arrive any more. */
  clearRates() {
    for (const shown of this.ages?.keys() || []) shown.fill(0);
  }

  get moves() {
    return !this.calm && this.shown?.some((rate) => rate > 0);
  }

  resize() {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    const ratio = Math.min(window.devicePixelRatio || 1, 2);
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.width = width;
    this.height = height;
    this.text = parseFloat(getComputedStyle(document.documentElement).fontSize);
    this.zoom = this.text / 14;
  }

  /* @share: size relative to the page's text. */
  font(share, weight = "") {
    return `${weight} ${(share * this.text).toFixed(1)}px ${FONT}`;
  }

  draw(seconds) {
    const { ctx } = this;
    ctx.fillStyle = this.theme.ground;
    ctx.fillRect(0, 0, this.width, this.height);
    if (!this.layout) return;
    this.drawRows();
    this.layout.edges.forEach((edge) => this.drawEdge(edge));
    if (this.moves) this.layout.edges.forEach((edge) => this.drawDots(edge, seconds));
    this.layout.edges.forEach((edge) => this.drawStates(edge));
    this.layout.items.forEach((item) => this.drawItem(item));
    this.labelBoxes();
    this.drawWaits();
  }

  /* --- levels --- */

  drawRows() {
    const { ctx, layout, zoom } = this, half = Math.min(layout.row * 0.3, 30 * zoom);
    ctx.font = this.font(0.85);
    ctx.textAlign = "left";
    ctx.textBaseline = "middle";
    for (let level = -1; level < layout.levels; level++) {
      const y = layout.y(level);
      ctx.fillStyle = this.theme.row;
      ctx.fillRect(0, y - half, this.width, 2 * half);
      ctx.fillStyle = this.theme.rowText;
      ctx.fillText(level < 0 ? "nodes" : `level ${level}`, 6, y - half + 9 * zoom);
    }
  }

  /* --- cables --- */

  /* Return the rate of one link; for a group of links, their mean. */
  rateOf(direction) {
    return this.shown[direction] / this.model.cables[direction >> 1].count;
  }

  shareOf(rate) {
    return shareOf(rate, this.model.scaleEnd);
  }

  /* Return the load of one direction of an edge: the mean of its links, and their sum. */
  loadOf(directions) {
    let links = 0, sum = 0, waited = 0;
    for (const direction of directions) {
      links += this.model.cables[direction >> 1].count;
      sum += this.shown[direction];
      waited += this.waited[direction];
    }
    return { sum, waited, share: this.shareOf(links ? sum / links : 0) };
  }

  /** Return how one direction of an edge is drawn, which tests compare with counters. */
  styleOf(directions) {
    const load = this.loadOf(directions);
    return { ...load,
      colour: load.sum > 0 ? loadColour(this.theme, load.share) : this.theme.idle,
      width: (load.sum > 0 ? 1.1 + 2.6 * this.shareOf(load.sum) : 0.8) * this.zoom,
      stalled: load.waited > 0 ? load.waited / (load.waited + load.sum) : 0 };
  }

  /* Return the line of one direction. The lines of the two directions are side by side. */
  lineOf(edge, down) {
    const dx = edge.x1 - edge.x0, dy = edge.y1 - edge.y0, long = Math.hypot(dx, dy) || 1;
    const off = (down ? 1 : -1) * Math.min(2.1, 0.6 + this.layout.unit / 12) * this.zoom;
    const [ox, oy] = [-dy / long * off, dx / long * off];
    return [edge.x0 + ox, edge.y0 + oy, edge.x1 + ox, edge.y1 + oy];
  }

  stroke(line, colour, width, dash = []) {
    const { ctx } = this;
    ctx.strokeStyle = colour;
    ctx.lineWidth = width;
    ctx.setLineDash(dash);
    ctx.beginPath();
    ctx.moveTo(line[0], line[1]);
    ctx.lineTo(line[2], line[3]);
    ctx.stroke();
    ctx.setLineDash([]);
  }

  drawEdge(edge) {
    const marked = edge.id === this.chosen || edge.id === this.hovered;
    if (marked)
      this.stroke([edge.x0, edge.y0, edge.x1, edge.y1], this.theme.select,
        edge.id === this.chosen ? 11 : 8);
    if (marked)
      this.stroke([edge.x0, edge.y0, edge.x1, edge.y1], this.theme.ground, 7);
    for (const down of [false, true]) {
      const style = this.styleOf(down ? edge.down : edge.up), line = this.lineOf(edge, down);
      this.stroke(line, style.colour, style.width);
      if (!style.stalled) continue;
      this.ctx.globalAlpha = Math.min(0.12 + 2.2 * Math.sqrt(style.stalled), 1);
      this.stroke(line, this.theme.stall, Math.max(style.width, 1.6) + 1.6 * style.stalled, [4, 5]);
      this.ctx.globalAlpha = 1;
    }
  }

  drawDots(edge, seconds) {
    const stages = 2 * this.layout.levels, phase = seconds / HOP_S;
    for (const down of [false, true]) {
      const load = this.loadOf(down ? edge.down : edge.up);
      if (!load.sum) continue;
      const stage = down ? stages - 1 - edge.level : edge.level;
      const at = (((phase - stage) % 3) + 3) % 3;
      if (at >= 1) continue;
      this.comet(this.lineOf(edge, down), down ? 1 - at : at, down, load.share,
        this.combines(edge) ? this.theme.combine : this.theme.pulse);
    }
  }

  comet([x0, y0, x1, y1], head, down, share, colour) {
    const { ctx } = this, tail = Math.min(Math.max(head + (down ? 0.16 : -0.16), 0), 1);
    const at = (along) => [x0 + (x1 - x0) * along, y0 + (y1 - y0) * along];
    ctx.globalAlpha = 0.4 + 0.6 * share;
    this.stroke([...at(tail), ...at(head)], colour, 1.2 + 1.4 * share);
    ctx.fillStyle = colour;
    ctx.beginPath();
    ctx.arc(...at(head), 1.5 + 1.5 * share, 0, 7);
    ctx.fill();
    ctx.globalAlpha = 1;
  }

  combines(edge) {
    return this.layout.items[edge.high].switches.some((s) => this.combined[s] > 0);
  }

  drawStates(edge) {
    const { ctx, theme, model } = this;
    const wrong = edge.cables.filter((c) => model.state[c]);
    if (!wrong.length) return;
    const count = wrong.reduce((sum, c) => sum + model.wrong[c], 0);
    const all = edge.cables.reduce((sum, c) => sum + model.cables[c].count, 0);
    const name = model.stateName(wrong[0]);
    const colour = theme[name] || theme.down;
    const line = [edge.x0, edge.y0, edge.x1, edge.y1];
    if (count === all) {
      this.stroke(line, theme.ground, 5);
      this.stroke(line, colour, 1.8, name === "testing" ? [1, 4] : [6, 5]);
    }
    const x = (line[0] + line[2]) / 2, y = (line[1] + line[3]) / 2;
    ctx.fillStyle = theme.ground;
    ctx.beginPath();
    ctx.arc(x, y, 8 * this.zoom, 0, 7);
    ctx.fill();
    ctx.strokeStyle = ctx.fillStyle = colour;
    ctx.lineWidth = 1.6;
    ctx.stroke();
    ctx.font = this.font(0.85, "bold");
    ctx.textAlign = "center";
    ctx.textBaseline = "middle";
    ctx.fillText({ down: "✕", testing: "?", out: "!" }[name] || "✕", x, y + 0.5);
    if (all > 1) ctx.fillText(`${count} of ${all}`, x, y + 16 * this.zoom);
  }

  /* --- switches and nodes --- */

  /* Return the colour of a switch, which shows the load of its busiest output. */
  loadOfSwitch(s) {
    const most = Math.max(0, ...this.model.directionsOut[s].map((i) => this.rateOf(i)));
    return most > 0 ? loadColour(this.theme, this.shareOf(most)) : this.theme.idle;
  }

  loadOfNode(n) {
    const rate = Math.max(this.sent[n], this.delivered[n]) / this.model.nodeCountOf([n]);
    return { rate, colour: rate > 0 ? loadColour(this.theme, shareOf(rate, this.model.linkRate))
      : this.model.processes[n] ? this.theme.edge : this.theme.idle };
  }

  box(item, radius) {
    this.ctx.beginPath();
    this.ctx.roundRect(item.x - item.w / 2, item.y - item.h / 2, item.w, item.h, radius);
  }

  outline(item) {
    const { ctx, theme } = this, chosen = item.id === this.chosen;
    ctx.strokeStyle = chosen || item.id === this.hovered ? theme.select : theme.edge;
    ctx.lineWidth = chosen ? 2.6 : item.id === this.hovered ? 1.8 : 1;
    ctx.stroke();
  }

  drawItem(item) {
    if (item.kind === "switch") this.drawSwitch(item);
    else if (item.kind === "node") this.drawNode(item);
    else if (item.kind === "bundle") this.drawBundle(item);
    else this.drawBox(item);
  }

  drawSwitch(item) {
    const { ctx, theme } = this, s = item.switches[0];
    const combines = this.combined[s] > 0;
    if (combines) this.glow(item);
    this.box(item, 4);
    ctx.fillStyle = theme.body;
    ctx.fill();
    ctx.fillStyle = this.loadOfSwitch(s);
    ctx.fillRect(item.x - item.w / 2 + 3, item.y + item.h / 2 - 3 - 3 * this.zoom, item.w - 6,
      3 * this.zoom);
    this.box(item, 4);
    this.outline(item);
    ctx.textAlign = "center";
    ctx.textBaseline = "middle";
    ctx.fillStyle = combines ? theme.combine : theme.faint;
    ctx.font = combines ? this.font(0.95, "bold") : this.font(0.85);
    const number = this.model.switchNumber(s), name = this.model.shape.names?.[s];
    const text = number >= 0 ? String(number) : "";
    if (ctx.measureText(text).width <= item.w - 2) ctx.fillText(text, item.x, item.y - 2);
    if (combines) this.badge(item);
    if (name && name !== `switch ${number}`)
      this.label([name], item.x, item.y - item.h / 2 - 8 * this.zoom, item.room - 4);
  }

  /* Draw Σ at the corner of a switch that combines contributions, beside its number. */
  badge(item) {
    const { ctx, theme } = this;
    ctx.font = this.font(0.95, "bold");
    const half = ctx.measureText("Σ").width / 2 + 2 * this.zoom;
    const [x, y] = [item.x + item.w / 2, item.y - item.h / 2];
    ctx.fillStyle = theme.ground;
    ctx.beginPath();
    ctx.arc(x, y, half, 0, 7);
    ctx.fill();
    ctx.fillStyle = theme.combine;
    ctx.textAlign = "center";
    ctx.textBaseline = "middle";
    ctx.fillText("Σ", x, y);
  }

  /* Draw light around a switch. A shadow would take ten times as long. */
  glow(item) {
    const { ctx } = this;
    ctx.strokeStyle = this.theme.combine;
    for (const [width, alpha] of [[13, 0.1], [8, 0.16], [4, 0.3]]) {
      this.box(item, 5);
      ctx.globalAlpha = alpha;
      ctx.lineWidth = width;
      ctx.stroke();
    }
    ctx.globalAlpha = 1;
  }

  drawNode(item) {
    const { ctx, theme, model } = this, n = item.nodes[0];
    const process = model.processes[n];
    ctx.beginPath();
    ctx.arc(item.x, item.y, item.w / 2, 0, 7);
    const { rate, colour } = this.loadOfNode(n);
    ctx.fillStyle = process || rate > 0 ? colour : theme.ground;
    ctx.fill();
    this.outline(item);
    if (model.waits[n] && this.waitsLong(n)) this.ring(item, theme.wait, [3, 2.5]);
    if (this.still?.missing.has(model.nodeNumber(n))) this.ring(item, theme.down, []);
    ctx.fillStyle = theme.faint;
    ctx.font = this.font(0.85);
    const widest = ctx.measureText(String(model.nodeCount - 1)).width + 6;
    const every = Math.max(Math.ceil(widest / this.layout.unit), 1);
    if (n % every) return;
    ctx.textAlign = "center";
    ctx.textBaseline = "top";
    const number = model.nodeNumber(n), name = model.shape.names?.[model.switches.length + n];
    if (number >= 0) ctx.fillText(String(number), item.x, item.y + item.w / 2 + 5);
    if (name && name !== `node ${number}`)
      this.label([name], item.x, item.y + item.w / 2 + 24 * this.zoom,
        this.layout.unit * every - 4);
  }

  waitsLong(n) {
    return this.model.at - this.model.waits[n].since > WAIT_S;
  }

  ring(item, colour, dash) {
    const { ctx } = this;
    ctx.strokeStyle = colour;
    ctx.lineWidth = 2;
    ctx.setLineDash(dash);
    ctx.beginPath();
    ctx.arc(item.x, item.y, item.w / 2 + 3, 0, 7);
    ctx.stroke();
    ctx.setLineDash([]);
  }

  /* Draw a cell for each part in the colour of its load, as large as the space allows. */
  cells(parts, x, y, w, h, colourOf) {
    const { ctx } = this;
    let size = Math.min(Math.sqrt((w * h) / parts.length), CELL_PX * this.zoom, w), across;
    do {
      across = Math.max(Math.floor(w / size), 1);
      size *= 0.97;
    } while (size > 1 && Math.ceil(parts.length / across) * size > h);
    across = Math.min(across, parts.length);
    const down = Math.ceil(parts.length / across), gap = size > 4 ? 1 : 0.4;
    const [x0, y0] = [x + (w - across * size) / 2, y + (h - down * size) / 2];
    parts.forEach((part, i) => {
      ctx.fillStyle = colourOf(part);
      ctx.fillRect(x0 + (i % across) * size, y0 + Math.floor(i / across) * size, size - gap,
        size - gap);
    });
  }

  drawBundle(item) {
    const { ctx, theme } = this;
    this.box(item, 6);
    ctx.fillStyle = theme.body;
    ctx.fill();
    this.outline(item);
    this.cells(item.switches, item.x - item.w / 2 + 4, item.y - item.h / 2 + 3, item.w - 8,
      item.h - 6, (s) => (this.combined[s] > 0 ? theme.combine : this.loadOfSwitch(s)));
    const { model } = this, count = counted(model.switchCount(item.switches), "switch", "switches");
    this.label([count + model.spanText(model.switchNames, item.switches), count,
      `${item.switches.length}`], item.x, item.y - item.h / 2 - 8 * this.zoom, item.w + 40);
  }

  drawBox(item) {
    const { ctx, theme, layout } = this;
    const [x, y, w, h] = [item.x - item.w / 2, item.y - item.h / 2, item.w, item.h];
    this.box(item, 8);
    ctx.fillStyle = theme.body;
    ctx.fill();
    this.outline(item);
    const head = Math.min(h * 0.3, 90 * this.zoom), rim = Math.min(5, w / 5);
    const foot = 34 * this.zoom;
    this.cells(item.switches, x + rim, y + 6, w - 2 * rim, head - 10,
      (s) => (this.combined[s] > 0 ? theme.combine : this.loadOfSwitch(s)));
    this.cells(item.nodes, x + rim, y + head, w - 2 * rim, h - head - foot,
      (n) => this.loadOfNode(n).colour);
  }

  /*
   * Write the nodes of each box below its cells: how many they are, and their range. In narrow
   * boxes the range takes two lines, or only its first number is written, if there is space for it
   * after that of the last box. Boxes of the same width have labels of the same kind.
   */
  labelBoxes() {
    const { ctx, model } = this, last = `${model.shape.nodes - 1}`;
    ctx.font = this.font(0.85);
    const wide = (text) => ctx.measureText(text).width;
    let end = -Infinity; /* of the last number */
    for (const item of this.layout.items.filter(({ kind }) => kind === "box")) {
      const { x, w, nodes } = item, numbers = nodes.map((n) => model.nodeNumber(n));
      const [low, high] = [Math.min(...numbers), Math.max(...numbers)];
      const count = model.nodeCountOf(nodes), bottom = item.y + item.h / 2;
      const [first, second] = [bottom - 24 * this.zoom, bottom - 10 * this.zoom];
      const range = low >= 0 && high - low + 1 === numbers.length;
      if (!range || wide(`${last}–${last}`) <= w - 2) {
        this.label([counted(count, "node") + model.spanText(model.nodeNames, nodes),
          counted(count, "node"), `${count}`], x, first, w - 4);
        if (range) this.label([`${low}–${high}`], x, second, w);
      } else if (wide(`${last}–`) <= w - 2) {
        this.label([`${low}–`], x, first, w);
        this.label([`${high}`], x, second, w);
      } else if (x - wide(`${low}`) / 2 >= end + 4) {
        this.label([`${low}`], x, second, Infinity);
        end = x + wide(`${low}`) / 2;
      }
    }
  }

  /* Write the first of the texts that fits. */
  label(texts, x, y, room) {
    const { ctx } = this;
    ctx.font = this.font(0.85);
    ctx.fillStyle = this.theme.faint;
    ctx.textAlign = "center";
    ctx.textBaseline = "middle";
    const text = texts.find((one) => ctx.measureText(one).width <= room);
    if (text) ctx.fillText(text, x, y);
  }

  /* --- arrows from a waiting node to its peer, while nothing moves --- */

  /* Return the lower end of an item, with the number and the name below a node. */
  endOf(item) {
    const below = item.kind !== "node" ? 2
      : this.model.nodeNames ? 24 * this.zoom + 0.5 * this.text : 7 + 0.85 * this.text;
    return item.y + item.h / 2 + below;
  }

  drawWaits() {
    if (!this.still) return;
    const { ctx, theme, layout, model } = this;
    for (const [node, other] of this.still.arrows) {
      const [from, to] = [node, other].map((number) =>
        layout.items[layout.ofNode[model.partOf.get(number) ?? -1] ?? -1]);
      if (!from || !to || from === to) continue;
      const deep = Math.min(24 + Math.abs(to.x - from.x) * 0.08, 40);
      const [start, end] = [this.endOf(from), this.endOf(to)];
      const lowest = 2 * (this.height - 3) - start; /* lowest position of the control point */
      ctx.strokeStyle = theme.wait;
      ctx.lineWidth = 1.4;
      ctx.setLineDash([4, 3]);
      ctx.beginPath();
      ctx.moveTo(from.x, start);
      ctx.quadraticCurveTo((from.x + to.x) / 2, Math.min(from.y + deep * 2, lowest), to.x, end + 2);
      ctx.stroke();
      ctx.setLineDash([]);
      ctx.fillStyle = theme.wait;
      ctx.beginPath();
      ctx.moveTo(to.x, end);
      ctx.lineTo(to.x - 4, end + 7);
      ctx.lineTo(to.x + 4, end + 7);
      ctx.fill();
    }
  }
}
