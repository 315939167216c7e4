/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * feed.js - the sources of lines of telemetry: a running fabric, or a recording.
 *
 * A *shape* is a line that describes the network, and a *block* is a part of a large network, which
 * the fabric sends in full if it is *open* (docs/telemetry.md). Both feeds call onShape(shape) for
 * a shape, onLine(line) for each other line, and onState() when the state of the feed has changed.
 * The feed of a running fabric also calls onRefused(why) when blocks cannot be opened, and
 * onLeftOut() when it has skipped an invalid line.
 */

import { isPacedByHost } from "./model.js";
import { isValidLine, isValidShape } from "./validate.js";

const SNAPSHOTS_PER_S = 10; /* snapshots of a recording that are shown per second, at speed 1 */
const RETRY_MS = 1000; /* time until the page again tries to open a stream that was refused */
const HIDDEN_MS = 2000; /* time until a hidden page closes its stream */
const HELD_MOST = 64e6; /* largest size of the lines kept during a pause, in bytes; beyond it, the
                         * stream is reopened */
const OPEN_MOST = 4096; /* longest list of open blocks that the server accepts, in characters */

export class LiveFeed {
  /* @ended: the fabric has already ended. @blocks: the open blocks. */
  constructor(handlers, ended, blocks) {
    this.handlers = handlers;
    this.live = true;
    this.paused = false;
    this.speed = 1; /* speed of simulated time */
    this.held = [];
    this.heldBytes = 0;
    this.failures = 0;
    this.why = null; /* reason why there is no stream, if known */
    this.blocks = blocks; /* open blocks of a large network */
    this.before = null; /* the previous open blocks, until the server accepts the new ones */
    this.shape = null; /* the last shape; null: it was invalid, or none has come */
    this.leftOut = 0; /* number of invalid lines */
    this.fresh = false; /* show the next snapshot even during a pause */
    this.state = ended ? "ended" : "connecting";
    this.onVisible = () => this.closeIfHidden();
    document.addEventListener("visibilitychange", this.onVisible);
    if (!ended) this.open();
    this.closeIfHidden(); /* the page may be hidden already */
  }

  get address() {
    return this.blocks.length ? `stream?open=${this.blocks.join()}` : "stream";
  }

  /**
   * Request that only @blocks are open. Drop the snapshots kept during a pause, which fit only the
   * old shape.
   */
  openBlocks(blocks) {
    if (this.state === "ended") return;
    if (blocks.join().length > OPEN_MOST) {
      this.handlers.onRefused("too many parts of the network are open: close some first");
      return;
    }
    this.before ??= this.blocks;
    this.blocks = blocks;
    this.held = this.held.filter((line) => !line.event.startsWith("telemetry"));
    this.heldBytes = 0;
    this.fresh = true;
    this.open();
  }

  open() {
    this.closeStream();
    this.source = new EventSource(this.address);
    this.source.onopen = () => {
      this.why = null;
      this.failures = 0;
      this.setState("connected");
    };
    this.source.onerror = () => this.failed();
    this.source.onmessage = (message) => this.onText(message.data);
  }

  closeStream() {
    clearTimeout(this.timer);
    this.asking?.abort();
    this.asking = null;
    this.source?.close();
    this.source = null;
  }

  setState(state) {
    this.state = state;
    this.handlers.onState();
  }

  /** Return whether new lines are shown as they arrive. */
  get flows() {
    return this.state === "connected" && !this.paused;
  }

  /* The browser itself reopens a stream that has ended, but not one that was refused. */
  failed() {
    if (this.state === "ended") return;
    if (++this.failures > 1) this.why = "no reply from the server; the fabric may have ended";
    this.setState("connecting");
    if (this.source.readyState !== EventSource.CLOSED) return;
    this.retryLater();
    this.explain();
  }

  retryLater() {
    this.closeStream();
    this.timer = setTimeout(() => this.open(), RETRY_MS);
    this.setState("connecting");
  }

  /* An EventSource does not know why it was refused, so send the request again for the reason. */
  async explain() {
    const over = this.asking = new AbortController();
    setTimeout(() => over.abort(), RETRY_MS);
    try {
      const reply = await fetch(this.address, { signal: over.signal });
      const why = reply.ok ? null : (await reply.text()).trim();
      if (this.asking === over && this.state === "connecting") this.why = why;
    } catch {
      return; /* no reply, or aborted */
    } finally {
      over.abort();
    }
    this.handlers.onState();
  }

  /* Close the stream of a hidden page, because browsers open only six connections to a server. */
  closeIfHidden() {
    if (this.state === "ended") return;
    clearTimeout(this.unseen);
    if (document.hidden) this.unseen = setTimeout(() => this.sleep(), HIDDEN_MS);
    else if (!this.source) this.open();
  }

  sleep() {
    if (this.paused || this.state === "ended") return; /* a paused page keeps arriving lines */
    this.closeStream();
    this.setState("connecting");
  }

  onText(text) {
    let line;
    try {
      line = JSON.parse(text);
    } catch {
      return; /* the last line of a stream that was cut off */
    }
    if (typeof line?.ok === "boolean") {
      if (!line.ok) this.refused(String(line.error));
      return;
    }
    if (!this.isValid(line)) {
      this.leftOut++;
      this.handlers.onLeftOut();
      return;
    }
    if (line.event === "ended") {
      this.closeStream();
      this.setState("ended");
    }
    if (this.paused && !this.fresh) this.hold(line, text.length);
    else this.pass(line);
    this.fresh &&= line.event !== "telemetry";
  }

  isValid(line) {
    if (line?.event !== "telemetry_shape") return isValidLine(this.shape, line);
    this.shape = isValidShape(line) ? line : null;
    return this.shape !== null;
  }

  /* If opening blocks was refused, request the previous ones; otherwise reopen the stream later. */
  refused(why) {
    if (!this.before) {
      this.why = why;
      this.retryLater();
      return;
    }
    this.blocks = this.before;
    this.before = null;
    this.open();
    this.handlers.onRefused(why);
  }

  hold(line, bytes) {
    this.heldBytes += bytes;
    if (this.heldBytes <= HELD_MOST) this.held.push(line);
    else this.closeStream();
  }

  pass(line) {
    if (line.event === "telemetry_shape") {
      this.before = null;
      this.handlers.onShape(line);
    } else {
      this.handlers.onLine(line);
    }
  }

  pause(paused) {
    this.paused = paused;
    if (!paused) {
      this.held.forEach((line) => this.pass(line));
      if (this.heldBytes > HELD_MOST && this.state !== "ended") this.open();
      this.held = [];
      this.heldBytes = 0;
    }
    this.handlers.onState();
  }

  close() {
    document.removeEventListener("visibilitychange", this.onVisible);
    clearTimeout(this.unseen);
    this.closeStream();
  }
}

/*
 * Replays the lines of a file at their recorded times. If the file has several runs, each begins
 * one snapshot interval after the end of the previous run.
 */
export class FileFeed {
  constructor(handlers, name, text) {
    this.handlers = handlers;
    this.live = false;
    this.name = name;
    this.lines = [];
    this.leftOut = 0;
    this.read(text);
    this.state = "replay";
    this.paused = false;
    this.speed = 1;
    this.next = 0; /* index of the next line */
    this.at = this.first;
  }

  get shape() {
    return this.lines[0].line;
  }

  get flows() {
    return !this.paused && this.at < this.last;
  }

  start() {
    this.then = performance.now();
    this.timer = setInterval(() => this.tick(), 40);
    this.seek(this.first);
  }

  /*
   * Read all lines. Invalid lines are skipped, and so are all lines between an invalid shape and
   * the next shape. Events before the first shape are moved behind it.
   */
  read(text) {
    const rows = text.split("\n"), early = [];
    let at = 0, unit = 1e9, base = 0, every = 0, snapshots = 0, shape = null;
    rows.forEach((row, i) => {
      const line = this.parse(row, i, rows.length);
      if (!line) return;
      const begins = line.event === "telemetry_shape";
      if (begins) shape = isValidShape(line) ? line : null;
      if (!this.lines.length) this.checkFirst(line, shape);
      if (!this.lines.length && !begins) {
        early.push(line);
        return;
      }
      if (!shape || !(begins || isValidLine(shape, line))) {
        this.leftOut++;
        return;
      }
      if (begins) {
        unit = line.clock === "virtual" ? 1e12 : 1e9;
        base = at += every;
        every = this.paceOf(line) / SNAPSHOTS_PER_S;
        snapshots = 0;
      }
      if (line.event === "telemetry") {
        const passed = (shape.clock === "virtual" ? line.at_ps : line.at_ns) / unit;
        at = base + (isPacedByHost(shape) ? snapshots++ * every : passed);
      }
      this.lines.push({ line, at });
      for (const before of early.splice(0))
        if (isValidLine(shape, before)) this.lines.push({ line: before, at });
        else this.leftOut++;
    });
    if (!this.lines.length)
      throw new Error(early.length
        ? "this is not a recording of fabemu: it has no line telemetry_shape"
        : "this file is empty");
    this.pace = this.paceOf(this.lines[0].line);
    this.first = this.lines.find(({ line }) => line.event === "telemetry")?.at ?? 0;
    this.last = this.lines.at(-1).at;
  }

  /* Parse a row of the file. Returns null if it is not a JSON object. */
  parse(row, i, rows) {
    let line = null;
    if (!row.trim()) return null;
    try {
      line = JSON.parse(row);
    } catch {
      if (i === 0) throw new Error("this is not a recording of fabemu: line 1 is not JSON");
    }
    if (typeof line === "object" && line) return line;
    if (i < rows - 1) this.leftOut++; /* the last row may be incomplete */
    return null;
  }

  /* Check the first shape, or a line before it. Only events may come before the first shape. */
  checkFirst(line, shape) {
    const begins = line.event === "telemetry_shape";
    if (typeof line.event !== "string" || line.event === "telemetry")
      throw new Error("this is not a recording of fabemu: it does not begin with telemetry_shape");
    if (begins && !shape)
      throw new Error("this is not a recording of fabemu: its line telemetry_shape is invalid");
  }

  /* Return how many recorded seconds pass per second at speed 1: those of SNAPSHOTS_PER_S. */
  paceOf(shape) {
    return shape.every_ns ? (shape.every_ns / 1e9) * SNAPSHOTS_PER_S : 1;
  }

  tick() {
    const now = performance.now(), passed = (now - this.then) / 1000;
    this.then = now;
    if (this.paused || this.at >= this.last) return;
    this.at = Math.min(this.at + passed * this.speed * this.pace, this.last);
    this.advance();
    this.handlers.onState();
  }

  advance() {
    while (this.next < this.lines.length && this.lines[this.next].at <= this.at) {
      const { line } = this.lines[this.next++];
      if (line.event === "telemetry_shape") {
        this.pace = this.paceOf(line);
        this.handlers.onShape(line);
      } else if (line.event) {
        this.handlers.onLine(line);
      }
    }
  }

  /** Go to a time. To go back, start again at a shape, because rows contain only changes. */
  seek(at) {
    this.at = Math.min(Math.max(at, this.first), this.last);
    if (!this.next || this.lines[this.next - 1].at > this.at) this.next = this.shapeBefore();
    this.advance();
    this.handlers.onState();
  }

  shapeBefore() {
    let ret = 0;
    this.lines.forEach(({ line, at }, i) => {
      if (line.event === "telemetry_shape" && at <= this.at) ret = i;
    });
    return ret;
  }

  /** Pause, and go @by snapshots forward (above 0) or back. */
  step(by) {
    const times = this.lines.filter(({ line }) => line.event === "telemetry").map(({ at }) => at);
    const here = times.findLastIndex((at) => at <= this.at);
    this.pause(true);
    this.seek(times[Math.min(Math.max(here + by, 0), times.length - 1)]);
  }

  pause(paused) {
    this.paused = paused;
    if (!paused && this.at >= this.last) this.seek(this.first);
    this.handlers.onState();
  }

  close() {
    clearInterval(this.timer);
  }
}
