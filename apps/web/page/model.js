/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * model.js - the state of a fabric, built from lines of telemetry (docs/telemetry.md has the
 * fields). It is independent of the drawing.
 *
 * The *shape* is the line that describes the network. A *part* is a switch or a node of the shape.
 * In a large ("folded") network it may stand for a group of them. A *block* is a section of the
 * network that the fabric sends either as groups (closed) or in full (open). Each
 * cable has two directions: 2C goes to the first end of cable C, and 2C + 1 comes from it. A rate
 * is the increase per second since the previous snapshot; a mean is the mean rate over the last
 * RECENT snapshots. The picture shows rates, and all texts show means.
 */

import { NODE_COUNTERS, SWITCH_COUNTERS, DIRECTION_COUNTERS } from "./counters.js";
import { timeText } from "./words.js";

export const RECENT = 10; /* number of snapshots in a mean: one second, unless time is simulated */
const FINISHED = 64; /* number of recent collectives that are kept */
const EVENTS = 200; /* number of recent events that are kept */
const HISTORY = 240; /* number of snapshots that are kept: usually 24 s */
/* A counter of a link also counts replies, which are short. A short message counts as three
 * segments: two segments and a reply. So the scale of loads ends at three times the rate of full
 * segments. */
const WITH_REPLIES = 3;
const HISTORY_NUMBERS = 4e6; /* largest number of values in the history of all directions */

/* The values, rates and means of the counters in @list, for @count parts of one kind. */
class Counters {
  constructor(count, list) {
    this.names = list.map(({ name }) => name);
    this.count = count;
    for (const name of this.names) {
      this[name] = new Float64Array(count);
      this[name + "Rate"] = new Float64Array(count);
      this[name + "Mean"] = new Float64Array(count);
    }
  }

  /* Apply rows [part, counter, …]. Parts without a row have not changed. */
  take(rows, seconds) {
    for (const name of this.names) this[name + "Rate"].fill(0);
    for (const row of rows || []) {
      const part = row[0];
      if (!(part >= 0 && part < this.count)) continue;
      this.names.forEach((name, i) => {
        const value = row[i + 1] ?? this[name][part];
        if (seconds > 0) this[name + "Rate"][part] = (value - this[name][part]) / seconds;
        this[name][part] = value;
      });
    }
  }

  clearRates() {
    for (const name of this.names) this[name + "Rate"].fill(0);
  }

  /** Return a copy of all values, in the order of the names. */
  copy() {
    return this.names.map((name) => this[name].slice());
  }

  /** Compute the means from @before, the copy of @seconds ago. If @seconds is 0, set them to 0. */
  average(before, seconds) {
    this.names.forEach((name, i) => {
      const mean = this[name + "Mean"];
      for (let part = 0; part < this.count; part++)
        mean[part] = seconds > 0 ? (this[name][part] - before[i][part]) / seconds : 0;
    });
  }
}

/**
 * Return whether snapshots show simulated time, but are taken at intervals of the host's time. This
 * is true for programs in simulated time. Traffic has intervals of simulated time.
 */
export const isPacedByHost = (shape) => shape.clock === "virtual" && !shape.generators;

export class Model {
  constructor(shape) {
    this.shape = shape;
    this.virtual = shape.clock === "virtual";
    this.synthetic = Boolean(shape.generators); /* nodes generate traffic, and have no processes */
    this.nodeCount = shape.nodes;
    this.switches = shape.switches.map(([level, position, low, high]) =>
      ({ level, position, low, high }));
    this.cables = shape.cables.map(([sw, port, kind, peer, peerPort, lane, count, ...at]) =>
      ({ sw, port, toSwitch: kind === 1, peer, peerPort, lane, count: count ?? 1, at }));
    this.folded = shape.folded || null; /* size and open blocks of a folded network */
    this.readNumbers();
    this.directions = new Counters(2 * this.cables.length, DIRECTION_COUNTERS);
    this.sw = new Counters(this.switches.length, SWITCH_COUNTERS);
    this.node = new Counters(this.nodeCount, NODE_COUNTERS);
    this.state = new Uint8Array(this.cables.length); /* 0: up */
    this.outs = new Float64Array(this.cables.length);
    this.wrong = new Uint32Array(this.cables.length); /* links not up, by group of links */
    this.processes = new Array(this.nodeCount).fill(null);
    this.waits = new Array(this.nodeCount).fill(null);
    this.totals = {};
    this.rates = {};
    this.means = {};
    this.finished = new Map();
    this.events = [];
    this.at = 0; /* seconds since the fabric's start */
    this.sample = 0; /* number of the last snapshot; 0: none yet */
    this.skipped = 0;
    this.standstill = null; /* the last event "standstill" (docs/control.md), while no segment
                             * moves */
    this.ended = false;
    this.openHistory();
    this.directionsOut = this.switches.map(() => []);
    this.cables.forEach((cable, c) => {
      this.directionsOut[cable.sw].push(2 * c + 1);
      if (cable.toSwitch) this.directionsOut[cable.peer].push(2 * c);
    });
  }

  /* Read the numbers, blocks and sizes of the parts of a folded network: docs/telemetry.md. */
  readNumbers() {
    const { folded } = this, first = this.switches.length;
    this.numbers = folded?.number_of || null;
    this.blocks = folded?.block_of || null;
    this.counts = folded?.count_of || null;
    this.open = new Set(folded?.open || []);
    this.partOf = new Map(); /* index of a node, by its number in the fabric */
    for (let n = 0; n < this.nodeCount; n++) this.partOf.set(this.nodeNumber(n), n);
    this.closed = new Set(); /* blocks that can be opened */
    this.tops = new Map(); /* highest level of each block */
    this.blocks?.forEach((block, part) => {
      if (this.numbers[part] < 0) this.closed.add(block);
      if (part < first)
        this.tops.set(block, Math.max(this.tops.get(block) ?? 0, this.switches[part].level));
    });
  }

  /** Return the number of a switch or node in the fabric; -1: this part is a group of several. */
  switchNumber(s) {
    return this.numbers ? this.numbers[s] : s;
  }

  nodeNumber(n) {
    return this.numbers ? this.numbers[this.switches.length + n] : n;
  }

  /** Return the block that contains all parts in @item.switches and @item.nodes; -1: none does. */
  blockOf(item) {
    if (!this.blocks) return -1;
    const blocks = new Set([...item.switches.map((s) => this.blocks[s]),
      ...item.nodes.map((n) => this.blocks[this.switches.length + n])]);
    return blocks.size === 1 ? [...blocks][0] : -1;
  }

  /** Return the number of switches, or of nodes, that some parts stand for. */
  switchCount(parts) {
    return parts.reduce((sum, s) => sum + (this.counts?.[s] ?? 1), 0);
  }

  nodeCountOf(parts) {
    return parts.reduce((sum, n) => sum + (this.counts?.[this.switches.length + n] ?? 1), 0);
  }

  forget() {
    this.openHistory();
    this.events = [];
    this.finished = new Map();
  }

  openHistory() {
    const most = Math.floor(HISTORY_NUMBERS / (2 * this.directions.count || 1));
    this.slots = Math.max(Math.min(HISTORY, most), 30);
    this.past = {
      at: new Float64Array(this.slots),
      segments: new Float32Array(this.slots * this.directions.count),
      stalls: new Float32Array(this.slots * this.directions.count),
      totals: Array.from({ length: this.slots }, () => ({})),
    };
    this.taken = 0; /* number of snapshots added to the history */
    this.window = []; /* counters at the last RECENT + 1 snapshots, oldest first */
  }

  /** Return whether rates are known: from the second snapshot of a stream on. */
  get hasRates() {
    return this.window.length > 1;
  }

  /** Set all rates and means to 0, because no snapshots arrive any more. */
  clearRates() {
    [this.directions, this.sw, this.node].forEach((counters) => counters.clearRates());
    for (const name of Object.keys(this.rates)) this.rates[name] = 0;
    this.window = [];
    this.average();
  }

  /** Compute the means. They stay the same until the next call, so all texts agree. */
  average() {
    const [first] = this.window, seconds = first ? this.at - first.at : 0;
    [this.directions, this.sw, this.node].forEach((counters, i) =>
      counters.average(first?.copies[i], seconds));
    for (const [name, value] of Object.entries(this.totals))
      this.means[name] = seconds > 0 ? (value - (first.totals[name] || 0)) / seconds : 0;
  }

  /** Return the meaning of the means: "per second: mean of the last 10 snapshots (1.00 s)". */
  get meanText() {
    const every = isPacedByHost(this.shape) ? 0 : this.shape.every_ns;
    return `per second${this.virtual ? " of simulated time" : ""}: ` +
      `mean of the last ${RECENT} snapshots` +
      `${every ? ` (${timeText((RECENT * every) / 1e9)})` : ""}`;
  }

  /** Take over the history of the old model, after the stream of the same fabric was reopened. */
  carry(before) {
    this.past = before.past;
    this.taken = before.taken;
    this.events = before.events;
    this.finished = before.finished;
    this.at = before.at;
  }

  /** Take over only events. Other blocks are open now, so the history of the parts does not fit. */
  carryEvents(before) {
    this.events = before.events;
    this.finished = before.finished;
    this.standstill = before.standstill;
    this.at = before.at;
  }

  /** Apply a line of the stream. Returns true for a snapshot. */
  take(line) {
    if (line.event === "telemetry") {
      this.takeSnapshot(line);
      return true;
    }
    this.takeEvent(line);
    return false;
  }

  takeSnapshot(line) {
    const at = this.virtual ? line.at_ps / 1e12 : line.at_ns / 1e9;
    const seconds = this.sample ? at - this.at : 0;
    if (at < this.at) this.forget(); /* the history belongs to an earlier fabric of the same name */
    this.directions.take(line.links, seconds);
    this.sw.take(line.switches, seconds);
    this.node.take(line.nodes, seconds);
    for (const [cable, state, outs, wrong] of line.states || []) {
      this.state[cable] = state;
      this.wrong[cable] = wrong ?? (state > 0 ? 1 : 0);
      this.outs[cable] = outs;
    }
    for (const who of line.processes || []) this.processes[who.node] = who.pid ? who : null;
    for (const [node, kind, other, group, bytes, since] of line.waits || [])
      this.waits[node] = kind ? { kind: this.shape.wait_kinds[kind], other, group, bytes,
        since: since / (this.virtual ? 1e12 : 1e9) } : null;
    this.takeTotals(line, seconds);
    this.takeFinished(line.finished || []);
    this.skipped += line.skipped || 0;
    this.at = at;
    this.sample = line.sample;
    this.remember();
  }

  takeTotals(line, seconds) {
    for (const [name, value] of Object.entries(line.totals || {})) {
      this.rates[name] = seconds > 0 ? (value - (this.totals[name] || 0)) / seconds : 0;
      this.totals[name] = value;
    }
  }

  takeFinished(rows) {
    const unit = this.virtual ? 1e12 : 1e9;
    for (const [group, number, kind, bytes, members, began, ended] of rows) {
      const key = `${group}:${number}`;
      this.finished.delete(key); /* so that the newest are last */
      this.finished.set(key, { group, number, kind: this.shape.wait_kinds[kind], bytes, members,
        began: began / unit, ended: ended / unit });
    }
    while (this.finished.size > FINISHED) this.finished.delete(this.finished.keys().next().value);
  }

  takeEvent(line) {
    if (line.event === "shutdown" || line.event === "ended") {
      this.ended = true;
    } else if (line.event === "standstill") {
      this.standstill = line.standstill ? line : null;
    } else if (line.event && (line.event !== "group" || line.state === "broken")) {
      this.events.push({ ...line, at: line.s ?? this.at });
      if (this.events.length > EVENTS) this.events.shift();
    }
  }

  remember() {
    const slot = this.taken % this.slots, from = slot * this.directions.count;
    this.past.at[slot] = this.at;
    this.past.segments.set(this.directions.segmentsRate, from);
    this.past.stalls.set(this.directions.stallsRate, from);
    this.past.totals[slot] = { ...this.rates };
    this.taken++;
    this.window.push({ at: this.at, totals: { ...this.totals },
      copies: [this.directions, this.sw, this.node].map((counters) => counters.copy()) });
    if (this.window.length > RECENT + 1) this.window.shift();
  }

  /** Return [time, value(slot)] for each snapshot in the history, oldest first. */
  series(value) {
    const count = Math.min(this.taken, this.slots), ret = [];
    for (let i = this.taken - count; i < this.taken; i++)
      ret.push([this.past.at[i % this.slots], value(i % this.slots)]);
    return ret;
  }

  /** Return the history of a sum over some directions: "segments" or "stalls" per second. */
  seriesOfDirections(name, directions) {
    return this.series((slot) => directions.reduce((sum, direction) =>
      sum + this.past[name][slot * this.directions.count + direction], 0));
  }

  /** Return for each direction whether it carried a segment in the last @count snapshots. */
  directionsUsed(count) {
    const ret = new Uint8Array(this.directions.count);
    for (let i = Math.max(this.taken - Math.min(count, this.slots), 0); i < this.taken; i++) {
      const from = (i % this.slots) * this.directions.count;
      for (let j = 0; j < ret.length; j++) ret[j] ||= this.past.segments[from + j] > 0;
    }
    return ret;
  }

  /** Return the capacity of a link in each direction, in full segments per second; 0: no limit. */
  get linkRate() {
    const { clock, link_bytes_per_s: bytes, segment_bytes: segment } = this.shape;
    return clock !== "raw" && bytes && segment ? bytes / segment : 0;
  }

  /** Return whether counters of links include replies, which are much shorter than segments. */
  get countsReplies() {
    return this.shape.queue === "packets";
  }

  /** Return the rate at which the counter of a fully loaded link grows; 0: unknown. */
  get capacity() {
    return this.countsReplies ? 0 : this.linkRate;
  }

  /** Return the upper end of the scale of loads, in segments per second; 0: clock raw, no limit. */
  get scaleEnd() {
    return this.linkRate * (this.countsReplies ? WITH_REPLIES : 1);
  }

  stateName(cable) {
    return this.shape.link_states[this.state[cable]] || "up";
  }

  switchName(s) {
    return this.shape.names?.[s] || `switch ${s}`;
  }

  nodeName(n) {
    const process = this.processes[n];
    const rank = process && process.rank >= 0 ? ` (rank ${process.rank})` : "";
    return (this.shape.names?.[this.switches.length + n] || `node ${n}`) + rank;
  }

  /** The names in the network's file, by switch; null: no names, or the network is folded. */
  get switchNames() {
    return (!this.folded && this.shape.names?.slice(0, this.switches.length)) || null;
  }

  get nodeNames() {
    return (!this.folded && this.shape.names?.slice(this.switches.length)) || null;
  }

  /** Return " (leaf1 – leaf4)" for the first and the last of some parts; "" without @names. */
  spanText(names, parts) {
    return names && parts.length ? ` (${names[parts[0]]} – ${names[parts.at(-1)]})` : "";
  }

  /** Return an object that names switches and nodes by their numbers in the fabric. */
  get numbered() {
    if (!this.folded) return this;
    return { switchName: (s) => `switch ${s}`, nodeName: (n) => `node ${n}`, processes: [] };
  }

  /** Return a cable's name as in docs/faults.md, S:P or nN:L; null: it is a group of cables. */
  cableText(c) {
    const cable = this.cables[c];
    if (this.folded) return cable.at.length ? cable.at.join(":") : null;
    return cable.toSwitch ? `${cable.sw}:${cable.port}` : `n${cable.peer}:${cable.peerPort}`;
  }

  cableName(c) {
    const cable = this.cables[c];
    if (cable.count > 1)
      return `${cable.count} links between ${this.switchName(cable.sw)} and ${cable.toSwitch
        ? this.switchName(cable.peer) : this.nodeName(cable.peer)}`;
    return `${this.portName(cable.sw, cable.port)} – ${cable.toSwitch
      ? this.portName(cable.peer, cable.peerPort) : this.nodeName(cable.peer)}`;
  }

  portName(s, port) {
    return this.switchNumber(s) < 0 ? this.switchName(s) : `${this.switchName(s)} port ${port}`;
  }

  /** Return the @count collectives that finished last, newest first. */
  lastFinished(count) {
    return [...this.finished.values()].slice(-count).reverse();
  }
}
