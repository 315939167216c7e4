/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * feed.js - where lines come from: a running fabric, or a file that it has recorded.
 *
 * Both say onShape(shape) when a fabric begins, onLine(line) for each line of it, and onState()
 * when something about the feed itself has changed. A running fabric says onRefused(why) when
 * blocks cannot be opened, and onLeftOut() when a line is not as fabemu writes it.
 */

import { lineFits, shapeIsWhole } from "./whole.js";

const LOOKS_A_SECOND = 10; /* of a recording, at speed 1 */
const RETRY_MS = 1000; /* until the stream is asked for again, after a refusal */
const HIDDEN_MS = 2000; /* that a page which nobody sees keeps its stream for */
const HELD_MOST = 64e6; /* bytes of lines that a pause keeps; then it begins anew afterwards */
const OPEN_MOST = 4096; /* characters of the numbers of blocks, as the server takes them */

export class LiveFeed {
  /* @ended: the fabric has ended before; nothing more comes. @blocks: that are open. */
  constructor(handlers, ended, blocks) {
    this.handlers = handlers;
    this.live = true;
    this.paused = false;
    this.speed = 1; /* of simulated time */
    this.held = [];
    this.heldBytes = 0;
    this.failures = 0;
    this.why = null; /* there is no stream, if the server has said it */
    this.blocks = blocks; /* of a large network, that are open */
    this.before = null; /* those before, until it is known that these can be */
    this.shape = null; /* the last one that came; null: it was not whole, or none has come */
    this.leftOut = 0; /* lines that do not fit it */
    this.fresh = false; /* what comes next is shown, whether it pauses or not */
    this.state = ended ? "ended" : "connecting";
    this.onVisible = () => this.beSeen();
    document.addEventListener("visibilitychange", this.onVisible);
    if (!ended) this.open();
    this.beSeen(); /* it may have begun unseen */
  }

  get address() {
    return this.blocks.length ? `stream?open=${this.blocks.join()}` : "stream";
  }

  /** Other blocks are open from the next shape on. What a pause has kept goes by the old one. */
  openBlocks(blocks) {
    if (this.state === "ended") return;
    if (blocks.join().length > OPEN_MOST) {
      this.handlers.onRefused("too many blocks are open: close some first");
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
    this.shut();
    this.source = new EventSource(this.address);
    this.source.onopen = () => {
      this.why = null;
      this.failures = 0; /* without an answer between them */
      this.become("connected");
    };
    this.source.onerror = () => this.failed();
    this.source.onmessage = (message) => this.on(message.data);
  }

  shut() {
    clearTimeout(this.timer);
    this.asking?.abort();
    this.asking = null;
    this.source?.close();
    this.source = null;
  }

  become(state) {
    this.state = state;
    this.handlers.onState();
  }

  /** Does more come, of what is shown? */
  get flows() {
    return this.state === "connected" && !this.paused;
  }

  /* A browser tries again by itself where a stream has ended, but not where it was refused. */
  failed() {
    if (this.state === "ended") return;
    if (++this.failures > 1) this.why = "nobody answers; the fabric may have ended";
    this.become("connecting");
    if (this.source.readyState !== EventSource.CLOSED) return;
    this.later();
    this.explain();
  }

  later() {
    this.shut();
    this.timer = setTimeout(() => this.open(), RETRY_MS);
    this.become("connecting");
  }

  /* An EventSource does not tell why it was refused. */
  async explain() {
    const over = this.asking = new AbortController();
    setTimeout(() => over.abort(), RETRY_MS);
    try {
      const reply = await fetch(this.address, { signal: over.signal });
      const why = reply.ok ? null : (await reply.text()).trim();
      if (this.asking === over && this.state === "connecting") this.why = why;
    } catch {
      return; /* nobody answers, or nobody wants to know any more */
    } finally {
      over.abort();
    }
    this.handlers.onState();
  }

  /* Browsers have six connections to a server for all of their pages together. */
  beSeen() {
    if (this.state === "ended") return;
    clearTimeout(this.unseen);
    if (document.hidden) this.unseen = setTimeout(() => this.sleep(), HIDDEN_MS);
    else if (!this.source) this.open();
  }

  sleep() {
    if (this.paused || this.state === "ended") return; /* what comes is to be kept */
    this.shut();
    this.become("connecting");
  }

  on(text) {
    let line;
    try {
      line = JSON.parse(text);
    } catch {
      return; /* the end of a stream that was cut */
    }
    if (typeof line?.ok === "boolean") {
      if (!line.ok) this.refused(String(line.error));
      return;
    }
    if (!this.fits(line)) {
      this.leftOut++;
      this.handlers.onLeftOut();
      return;
    }
    if (line.event === "ended") {
      this.shut();
      this.become("ended");
    }
    if (this.paused && !this.fresh) this.hold(line, text.length);
    else this.pass(line);
    this.fresh &&= line.event !== "telemetry";
  }

  /* Each line once, as it comes, by the shape that came before it. */
  fits(line) {
    if (line?.event !== "telemetry_shape") return lineFits(this.shape, line);
    this.shape = shapeIsWhole(line) ? line : null;
    return this.shape !== null;
  }

  /* What was open before can be again; what else is refused is asked for later. */
  refused(why) {
    if (!this.before) {
      this.why = why;
      this.later();
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
    else this.shut();
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
    this.shut();
  }
}

/*
 * Lines of a file, by the time at which each came. Where several runs are in it, one behind the
 * other, each begins a snapshot's time behind the end of the one before.
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
    this.next = 0; /* the line that comes next */
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
   * What does not fit is left out, and so is what follows a shape that is not whole, to the next.
   * Faults may have begun before the first shape: they stand behind it then.
   */
  read(text) {
    const rows = text.split("\n"), early = [];
    let at = 0, unit = 1e9, base = 0, every = 0, shape = null;
    rows.forEach((row, i) => {
      const line = this.parse(row, i, rows.length);
      if (!line) return;
      const begins = line.event === "telemetry_shape";
      if (begins) shape = shapeIsWhole(line) ? line : null;
      if (!this.lines.length) this.checkFirst(line, shape);
      if (!this.lines.length && !begins) {
        early.push(line);
        return;
      }
      if (!shape || !(begins || lineFits(shape, line))) {
        this.leftOut++;
        return;
      }
      if (begins) {
        unit = line.clock === "virtual" ? 1e12 : 1e9;
        base = at += every;
        every = this.paceOf(line) / LOOKS_A_SECOND;
      }
      if (line.event === "telemetry")
        at = base + (shape.clock === "virtual" ? line.at_ps : line.at_ns) / unit;
      this.lines.push({ line, at });
      for (const before of early.splice(0))
        if (lineFits(shape, before)) this.lines.push({ line: before, at });
        else this.leftOut++;
    });
    if (!this.lines.length)
      throw new Error(early.length ? "this is no recording of fabemu: it has no shape"
        : "this file is empty");
    this.pace = this.paceOf(this.lines[0].line);
    this.first = this.lines.find(({ line }) => line.event === "telemetry")?.at ?? 0;
    this.last = this.lines.at(-1).at;
  }

  /* A row as an object; null: it is none. */
  parse(row, i, rows) {
    let line = null;
    if (!row.trim()) return null;
    try {
      line = JSON.parse(row);
    } catch {
      if (i === 0) throw new Error("this is no recording of fabemu: line 1 is not JSON");
    }
    if (typeof line === "object" && line) return line;
    if (i < rows - 1) this.leftOut++; /* the last one may be of a run that was killed */
    return null;
  }

  /* Before the first shape has come there is nothing but events, or this is another file. */
  checkFirst(line, shape) {
    const begins = line.event === "telemetry_shape";
    if (typeof line.event !== "string" || line.event === "telemetry")
      throw new Error("this is no recording of fabemu: it does not begin with its shape");
    if (begins && !shape)
      throw new Error("this is no recording of fabemu: its shape is not whole");
  }

  /* Ten snapshots a second are one second's: of simulated time, many times slower. */
  paceOf(shape) {
    return shape.every_ns ? (shape.every_ns / 1e9) * LOOKS_A_SECOND : 1;
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

  /** Be at a time. Rows are cumulative: back is from the shape on, again. */
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

  /** One snapshot further, or back. */
  step(by) {
    const looks = this.lines.filter(({ line }) => line.event === "telemetry").map(({ at }) => at);
    const here = looks.findLastIndex((at) => at <= this.at);
    this.pause(true);
    this.seek(looks[Math.min(Math.max(here + by, 0), looks.length - 1)]);
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
