/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * main.js - the page. A feed delivers lines of telemetry, the model applies them, the layout
 * computes the positions of the parts of the network, the painter draws them, and panels describe
 * them. The *shape* is the line that describes the network. For a large network it describes groups
 * of switches and nodes. A *block* is a part of a large network. If the page *opens* a block, the
 * fabric sends each switch and node of the block. docs/web.md is the user's guide.
 *
 * window.fabemu gives tests and the browser's console access to the model and the drawing.
 */
import { FileFeed, LiveFeed } from "./feed.js";
import { Layout } from "./layout.js";
import { Matrix } from "./matrix.js";
import { Model } from "./model.js";
import { Painter } from "./paint.js";
import { RANGES, el, rangesOf, rangesText, renderCollectives, renderEvents, renderSelection,
  renderTip, settingsText } from "./panel.js";
import { standstillLines, standstillMarks } from "./standstill.js";
import { renderSummary } from "./summary.js";
import { captionOf } from "./caption.js";
import { loadColour, ticksOf } from "./colours.js";
import { counted, short, timeText } from "./words.js";

const FRAME_MS = 42; /* time between two pictures, while something moves */
const LINES = 8; /* largest number of lines about a standstill */
const WRONG_MS = 4000; /* how long an error is shown */
const FILE_MOST = 1 << 29; /* bytes of a recording */
const ANSWER_MS = 12000; /* time-out of a request; the server waits 9 s for the fabric */
const LIST_MS = 200; /* time between two requests for the list of faults */
const SNAPSHOT_MS = 100; /* interval of snapshots, at speed 1 */
const PACE_MS = 1000; /* time between two requests for the pace of simulated time */
const PACE_FOR_MS = 5000; /* how long such a request is in force */
const PACE_HIDDEN_MS = 65000; /* the same for a hidden page: browsers run its timers seldom */
const REPORT_MS = 2000; /* time between two requests for a report, while the matrix is open */
const RATES_MS = 1000; /* time between two updates of the mean rates and of the caption */
const TIP_PX = 14; /* distance of the tooltip from the pointer */

const DARK = matchMedia("(prefers-color-scheme: dark)");

const $ = (id) => document.getElementById(id);

class Page {
  constructor() {
    this.canvas = $("canvas");
    this.painter = new Painter(this.canvas);
    this.model = null;
    this.layout = null;
    this.before = null; /* model and layout of the running fabric, while a recording is shown */
    this.served = location.hash === "#recording"; /* this is the page of fabemu web FILE */
    this.ended = this.served; /* the fabric has ended */
    this.selected = null; /* id of an item or edge */
    this.toggled = null; /* block that the user has opened or closed, until the next shape */
    this.kinds = []; /* kinds of faults for the selected part, from the fabric */
    this.kindChosen = null; /* the kind that the user has chosen */
    this.faultsOf = ""; /* target and duration in the form */
    this.kindsOf = ""; /* target and duration for which `kinds` is the answer */
    this.dirty = true;
    this.last = 0;
    this.who = crypto.getRandomValues(new Uint32Array(1))[0]; /* id of this page in pace requests */
    this.matrix = new Matrix();
    this.report = null; /* the last report of the fabric */
    this.clock = 0; /* time of the animation, in seconds */
    this.listen();
    this.setTheme(this.storedTheme());
    this.watchLive();
    if (this.served) this.replayServed();
    requestAnimationFrame((now) => this.frame(now));
  }

  /* --- feeds --- */

  handlers() {
    return { onShape: (shape) => this.onShape(shape), onLine: (line) => this.onLine(line),
      onState: () => this.onState(), onRefused: (why) => this.onRefused(why),
      onLeftOut: () => this.onLeftOut() };
  }

  watchLive() {
    const { before } = this;
    this.feed?.close();
    this.before = null;
    this.feed = new LiveFeed(this.handlers(), this.ended, [...before?.model?.open || []]);
    this.feed.speed = Number($("speed").value);
    this.show(before?.model || null, before?.layout || null);
    this.onState();
  }

  /* The state of the feed has changed. While no snapshots arrive, no movement is drawn. */
  onState() {
    const { feed } = this;
    if (feed.live && feed.state === "ended") this.ended = true;
    if (feed.live && !feed.paused && feed.state !== "connected") {
      this.model?.clearRates();
      this.painter.clearRates();
      this.announce(""); /* the last texts for screen readers are no longer true */
      $("alarm").textContent = "";
      this.dirty = this.dirtySide = true;
    }
    this.renderFeed();
  }

  onLeftOut() {
    this.flash(`skipped ${counted(this.feed.leftOut, "invalid line")}`);
  }

  async replayServed() {
    try {
      const reply = await fetch("recording");
      if (!reply.ok) throw new Error((await reply.text()).trim());
      await this.replay(new File([await reply.blob()], "recording"));
    } catch (error) {
      this.flash(`the recording cannot be read: ${error.message}`);
    }
  }

  async replay(file) {
    try {
      if (file.size > FILE_MOST) throw new Error("this file is larger than 512 MiB");
      const feed = new FileFeed(this.handlers(), file.name, await file.text());
      new Model(feed.shape); /* check that this works before the current feed is closed */
      this.feed.close();
      if (this.feed.live) this.before = { model: this.model, layout: this.layout };
      this.feed = feed;
      feed.speed = Number($("speed").value);
      feed.start();
      if (feed.leftOut)
        this.flash(`${file.name}: skipped ${counted(feed.leftOut, "invalid line")}`);
    } catch (error) {
      this.announce(error.message);
      this.flash(`${file.name}: ${error.message}`);
    }
    $("file").value = ""; /* so that the same file can be chosen again */
    this.renderFeed();
  }

  /* Show an error for a moment in place of the feed's state. */
  flash(wrong) {
    clearTimeout(this.flashing);
    this.wrong = wrong;
    this.flashing = setTimeout(() => {
      this.wrong = null;
      this.renderFeed();
    }, WRONG_MS);
    this.renderFeed();
  }

  onShape(shape) {
    const old = this.model, model = new Model(shape), layout = new Layout(model);
    const same = old && JSON.stringify(old.shape.cables) === JSON.stringify(shape.cables);
    const folded = this.feed.live && old?.folded && shape.folded && old.shape.name === shape.name;
    if (same || folded) layout.chosen = this.layout.chosen;
    if (same && this.feed.live) model.carry(old);
    else if (folded) model.carryEvents(old);
    if (this.toggled !== null && model.blocks)
      layout.reveal(this.toggled, model.open.has(this.toggled));
    this.show(model, layout, same);
    this.selectBlock();
    if (!this.feed.live) return;
    if (this.steers) {
      this.pace();
      return;
    }
    this.listFaults();
  }

  /* --- simulated time --- */

  /** Return whether this page can control the pace of simulated time. */
  get steers() {
    return this.feed.live && this.model?.synthetic && !this.ended;
  }

  /* Request the pace every second. When the page is gone, the last request expires. */
  pace() {
    clearTimeout(this.pacing);
    if (!this.steers) return;
    const { paused, speed } = this.feed;
    this.ask({ cmd: "pace", who: this.who, hold: paused, every_ms: Math.round(SNAPSHOT_MS / speed),
      for_ms: document.hidden ? PACE_HIDDEN_MS : PACE_FOR_MS });
    this.pacing = setTimeout(() => this.pace(), PACE_MS);
  }

  /* Withdraw the request for the pace, because the page is about to close. */
  releasePace() {
    if (!this.steers) return;
    const request = JSON.stringify({ cmd: "pace", who: this.who, for_ms: 0 });
    navigator.sendBeacon("ask", new Blob([request], { type: "application/json" }));
  }

  pause() {
    this.feed.pause(!this.feed.paused);
    this.pace();
  }

  setSpeed() {
    this.feed.speed = Number($("speed").value);
    this.pace();
  }

  /* Show another model. @model, @layout: null before the first shape. @same: keep the selection. */
  show(model, layout, same) {
    const shape = model?.shape;
    this.model = model;
    this.layout = layout;
    if (!same) this.selected = null;
    this.painter.setModel(model, layout);
    this.expireRates();
    this.renderScale();
    $("name").textContent = shape?.name || "fabemu";
    $("what").textContent = !shape ? ""
      : `${shape.topo} · ${shape.profile}${settingsText(shape)} · clock ${shape.clock}` +
        (shape.folded ? ` · shown as ${counted(shape.nodes, "group")} of nodes` : "");
    document.title = shape?.name ? `${shape.name} – fabemu` : "fabemu";
    this.renderStandstill();
    this.askKinds();
    this.place();
    this.renderSide();
    this.renderFeed();
  }

  onLine(line) {
    if (line.event === "report") {
      if (!this.feed.live) return; /* fabemu writes no report into a recording */
      this.report = line.report; /* the fabric has ended */
      this.renderMatrix();
      return;
    }
    if (!this.model) return;
    if (this.model.take(line)) {
      this.painter.follow();
    } else if (line.event === "fault") {
      this.listFaults();
    } else if (line.event === "standstill") {
      this.expireRates();
      this.renderStandstill();
    }
    this.dirty = this.dirtySide = true;
  }

  /* --- the picture --- */

  place() {
    $("tip").hidden = true; /* the described part may have moved */
    this.painter.resize();
    if (this.layout) this.layout.place(this.painter.width, this.painter.height,
      this.painter.text);
    if (this.selected && !this.part(this.selected)) this.select(null); /* the part was folded */
    this.dirty = true;
  }

  frame(now) {
    requestAnimationFrame((then) => this.frame(then));
    const moves = this.painter.moves && this.feed.flows && !document.hidden;
    if (!this.dirty && (!moves || now - this.last < FRAME_MS)) return;
    if (moves) this.clock += Math.min(now - this.last, 10 * FRAME_MS) / 1000;
    this.last = now;
    this.dirty = false;
    this.painter.chosen = this.selected;
    this.painter.draw(this.clock);
    if (this.dirtySide) this.renderSide();
  }

  part(id) {
    return this.layout?.items.find((item) => item.id === id) ||
      this.layout?.edges.find((edge) => edge.id === id) || null;
  }

  select(part) {
    this.selected = part ? part.id : null;
    this.announce(part ? [this.nameOf(part), ...this.statesOf(part)].join(", ")
      : "nothing selected");
    this.askKinds();
    $("selection").scrollIntoView({ block: "nearest" });
    this.renderSide();
    this.dirty = true;
  }

  nameOf(part) {
    if (part.cables?.length > 1) return `${part.cables.length} links`;
    if (part.cables && this.model.cables[part.cables[0]].count > 1)
      return this.model.cableName(part.cables[0]);
    if (part.cables) return `link ${this.model.cableName(part.cables[0])}`;
    if (part.kind === "node") return this.model.nodeName(part.nodes[0]);
    if (part.kind === "switch") return this.model.switchName(part.switches[0]);
    const { model } = this;
    return part.kind === "bundle" ? `${counted(model.switchCount(part.switches), "switch",
      "switches")}${model.spanText(model.switchNames, part.switches)}, folded`
      : `subtree of ${counted(model.nodeCountOf(part.nodes), "node")}` +
        `${model.spanText(model.nodeNames, part.nodes)}, folded`;
  }

  statesOf(part) {
    const { model } = this;
    const directions = part.cables ? [...part.up, ...part.down]
      : part.switches.flatMap((s) => model.directionsOut[s]);
    const mean = model.directions.segmentsMean;
    const rate = directions.length ? directions.reduce((sum, i) => sum + mean[i], 0)
      : part.nodes.reduce((sum, n) => sum + model.node.sentMean[n], 0);
    const states = part.cables ? [...new Set(part.cables.map((c) => model.stateName(c)))] : [];
    return [...states, ...(model.hasRates ? [`${short(rate)} segments per second`] : [])];
  }

  /** Open a folded part, or fold the subtree of an open one. */
  toggle(part) {
    if (!part || part.cables || this.toggleBlock(part) || !this.layout.toggle(part)) return;
    this.selected = null;
    this.place();
    this.select(null);
  }

  /*
   * Request that the fabric opens or closes a part's block. Returns false if the part has no block.
   */
  toggleBlock(part) {
    const { model } = this, block = model.blockOf(part), [s] = part.switches;
    const closes = model.open.has(block);
    if (!this.feed.live || block < 0) return false;
    if (closes ? part.kind !== "switch" || model.switches[s].level !== model.tops.get(block)
      : !model.closed.has(block)) return false;
    this.toggled = block;
    this.feed.openBlocks(closes ? [...model.open].filter((one) => one !== block)
      : [...model.open, block]);
    return true;
  }

  /* Select the block that was opened or closed, so that keyboard users can go on from there. */
  selectBlock() {
    const { model, layout, toggled } = this;
    this.toggled = null;
    if (toggled === null || !model.folded) return;
    const items = layout.items.filter((item) => item.switches.some((s) =>
      model.blocks[s] === toggled) || item.nodes.some((n) =>
      model.blocks[model.switches.length + n] === toggled));
    if (items.length) this.select(items[0]);
  }

  onRefused(why) {
    this.toggled = null;
    this.announce(why);
    this.flash(why);
  }

  pointer(event) {
    const { left, top } = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - left, event.clientY - top];
    return this.layout ? this.layout.itemAt(x, y) || this.layout.edgeAt(x, y) : null;
  }

  onClick(event) {
    const part = this.pointer(event);
    if (part && !part.cables && part.id === this.selected) this.toggle(part);
    else this.select(part);
  }

  onMove(event) {
    const part = this.pointer(event), id = part ? part.id : null;
    if (id === this.painter.hovered) return;
    this.painter.hovered = id;
    this.renderTip(event);
    this.canvas.style.cursor = part ? "pointer" : "default";
    this.dirty = true;
  }

  renderTip({ clientX, clientY }) {
    const tip = $("tip"), part = this.part(this.painter.hovered);
    tip.hidden = !part;
    if (!part) return;
    renderTip(tip, this.model, part);
    const { left, top, width, height } = this.canvas.getBoundingClientRect();
    const [x, y] = [clientX - left, clientY - top];
    tip.style.left = `${x + TIP_PX + tip.offsetWidth < width ? x + TIP_PX
      : Math.max(x - TIP_PX - tip.offsetWidth, 0)}px`;
    tip.style.top = `${Math.max(Math.min(y + TIP_PX, height - tip.offsetHeight), 0)}px`;
  }

  /** Select the nearest item in a direction from the selected one. */
  move(dx, dy) {
    const { items } = this.layout, from = this.part(this.selected);
    if (!from || from.cables) {
      this.select(from ? items[from.low] : items[0]);
      return;
    }
    let best = null, least = Infinity;
    for (const item of items) {
      const [x, y] = [item.x - from.x, item.y - from.y];
      const along = x * dx + y * dy, off = Math.abs(x * dy) + Math.abs(y * dx);
      if (item === from || along <= 2) continue;
      const far = along + off * (dx ? 6 : 1.2);
      if (far < least) [best, least] = [item, far];
    }
    if (best) this.select(best);
  }

  nextLink() {
    const part = this.part(this.selected);
    if (!part) return;
    const home = part.cables ? this.part(this.linksOf) : part;
    const at = this.layout.items.indexOf(home);
    const edges = this.layout.edges.filter((edge) => edge.low === at || edge.high === at);
    if (!edges.length) return;
    this.linksOf = home.id;
    this.select(edges[(edges.findIndex((edge) => edge.id === this.selected) + 1) % edges.length]);
  }

  /* --- texts --- */

  announce(text) {
    $("announcement").textContent = text;
  }

  renderSide() {
    this.dirtySide = false;
    this.renderRates();
    if (!this.model) {
      ["selection", "collectives", "events"].forEach((id) => $(id).replaceChildren());
      ["out", "time"].forEach((id) => { $(id).textContent = "–"; });
      return;
    }
    const { model } = this, out = model.wrong.reduce((sum, wrong) => sum + wrong, 0);
    renderSelection($("selection"), model, this.part(this.selected));
    renderCollectives($("collectives"), model);
    renderEvents($("events"), model);
    if (!$("tip").hidden) renderTip($("tip"), model, this.part(this.painter.hovered));
    $("out").textContent = String(out);
    $("out").parentElement.classList.toggle("wrong", out > 0);
    $("time").textContent = model.virtual ? timeText(model.at) : `${model.at.toFixed(1)} s`;
    $("timeof").textContent = model.virtual ? "simulated time" : "time";
  }

  /*
   * Compute the mean rates, and show the rates of the whole fabric and the caption about them.
   * While snapshots arrive, this happens once per RATES_MS, so that the texts can be read. All
   * texts of the page use the same mean rates, so they agree with each other.
   */
  renderRates() {
    const { feed, model } = this;
    if (this.ratesStay && feed.flows) return;
    model?.average();
    for (const [id, name] of [["hops", "hops"], ["stalls", "credit_stalls"],
      ["combined", "contributions"]])
      $(id).textContent = model?.hasRates ? short(model.means[name] || 0) : "–";
    $("stalls").parentElement.classList.toggle("stalled", model?.means.credit_stalls > 0);
    const text = this.captionText();
    if ($("caption").textContent !== text) $("caption").textContent = text;
    if (feed.flows && model?.hasRates)
      this.ratesStay = setTimeout(() => this.expireRates(), RATES_MS);
  }

  /* Make the next frame compute the mean rates and the caption again. */
  expireRates() {
    clearTimeout(this.ratesStay);
    this.ratesStay = 0;
    this.dirty = this.dirtySide = true;
  }

  /* Return whether a recording is shown up to its last line. */
  get atEndOfRecording() {
    const { feed } = this;
    return !feed.live && feed.at >= feed.last;
  }

  captionText() {
    const { feed, model } = this;
    if (!model && this.served) return "Waiting for the recording.";
    if (!model || (feed.live && feed.state === "connecting" && !feed.paused))
      return feed.why ? `Waiting for the fabric: ${feed.why}` : "Waiting for the fabric.";
    if (feed.live && feed.state === "ended")
      return `The fabric has ended, ${timeText(model.at)} after its start.`;
    if (this.atEndOfRecording)
      return `The recording has ended, ${timeText(model.at)} after the start of the run.` +
        (model.standstill ? ` ${captionOf(model)}` : "");
    return model.hasRates ? captionOf(model) : "";
  }

  /* Draw the legend of the colours, which does not change while the fabric runs. */
  renderScale() {
    const { model } = this;
    $("scaleof").textContent = !model ? "" : model.capacity ? "load of a link"
      : `segments${model.countsReplies ? " and replies" : ""}/s on a link`;
    $("ticks").replaceChildren(...(model ? ticksOf(model) : []).map((text) =>
      el("span", {}, text)));
  }

  renderFeed() {
    const { feed } = this;
    const state = this.wrong ? "wrong" : feed.state === "ended" ? "ended"
      : feed.paused ? "paused" : feed.state;
    $("feed").dataset.state = state;
    $("feed").textContent = { connected: "live", wrong: this.wrong,
      connecting: feed.why ? `connecting: ${feed.why}` : "connecting" }[state] || state;
    $("pause").textContent = feed.paused ? "Resume" : "Pause";
    $("pause").setAttribute("aria-pressed", String(feed.paused));
    $("replay").hidden = feed.live && !this.steers;
    ["replayname", "seek", "live"].forEach((id) => { $(id).hidden = feed.live; });
    $("live").hidden ||= this.served;
    $("summary").hidden = !this.model || !(this.atEndOfRecording || feed.state === "ended");
    if (!$("summary").hidden)
      renderSummary($("summary"), this.model, feed.live, this.report);
    this.dirty = this.dirtySide = true; /* the caption depends on the state */
    this.renderFaultsAbsence();
    this.renderMatrixAbsence();
    if (feed.live) return;
    $("replayname").textContent = feed.name;
    $("seek").value = String(Math.round(1000 * (feed.at - feed.first) /
      (feed.last - feed.first || 1)));
    $("seek").setAttribute("aria-valuetext", this.model ? timeText(this.model.at) : "");
  }

  /* If there is no matrix, disable its button and give the reason. */
  renderMatrixAbsence() {
    const why = this.model?.synthetic ? "Synthetic traffic has no matrix of messages."
      : this.feed.live ? "" : "A recording has no counts of messages between nodes. The report " +
        "of the run (fabemu run --report FILE) has them in communication.messages.";
    $("who").disabled = Boolean(why);
    $("who").title = why || "How much each node has sent to every other node (M)";
  }

  /* If faults cannot be injected, show the reason instead of the form. */
  renderFaultsAbsence() {
    const { feed, model } = this;
    const why = !model ? "The page has no data of a fabric yet."
      : !feed.live ? "This is a recording, so no faults can be injected."
        : feed.state === "ended" ? "The fabric has ended."
          : model.synthetic ? "In synthetic traffic, faults are part of the run, so that it can " +
            "be repeated exactly: start fabemu traffic with --faults FILE." : "";
    $("fault").hidden = $("active").hidden = Boolean(why);
    $("faultsaid").hidden = Boolean(why);
    if (why) $("whynot").hidden = true;
    $("faultnot").hidden = !why;
    $("faultnot").textContent = why;
  }

  /* --- requests to the fabric --- */

  async ask(request) {
    try {
      const reply = await fetch("ask", { method: "POST", body: JSON.stringify(request),
        headers: { "Content-Type": "application/json" },
        signal: AbortSignal.timeout(ANSWER_MS) });
      return reply.ok ? await reply.json() : { ok: false, error: (await reply.text()).trim() };
    } catch (error) {
      return { ok: false, error: error.name === "TimeoutError"
        ? "no reply in time; the cause may be that more than five pages are open in this browser"
        : "the page's server cannot be reached; the fabric may have ended" };
    }
  }

  /* Return the target of a fault: the selected part, or a random member of a selected group. */
  faultPlace() {
    const part = this.part(this.selected), { model } = this;
    const text = part?.cables ? model.cableText(part.cables[0]) : null;
    const switches = part?.switches?.map((s) => model.switchNumber(s)) || [];
    const nodes = part?.nodes?.map((n) => model.nodeNumber(n)) || [];
    if (!part || (part.cables ? text === null : [...switches, ...nodes].includes(-1)))
      return { place: "random" };
    if (part.cables) return { place: `link=${text}` };
    if (part.kind === "node") return { place: `node=${nodes[0]}` };
    if (part.kind === "switch") return { place: `switch=${switches[0]}` };
    return part.kind === "bundle" ? { place: `level=${part.level}` } : this.faultNodes(nodes);
  }

  /* A fault can name at most RANGES ranges of nodes. If this leaves out nodes, a note says so. */
  faultNodes(nodes) {
    const ranges = rangesOf(nodes), named = ranges.slice(0, RANGES);
    const count = named.reduce((sum, [from, to]) => sum + to - from + 1, 0);
    return { place: `nodes=${rangesText(ranges, RANGES)}`,
      note: count < nodes.length ? `a fault can name at most ${RANGES} ranges of nodes, so ` +
        `this one affects only ${count} of these ${nodes.length} nodes` : "" };
  }

  /*
   * Query the fabric for the faults that can be injected at the selected part. There is only one
   * request at a time. If the selection has changed before the reply, another request follows. The
   * form is disabled until the reply arrives.
   */
  async askKinds() {
    const wanted = this.faultsNow();
    if (wanted === this.faultsOf) return;
    this.faultsOf = wanted;
    this.renderKinds([]);
    if (this.asksKinds) return;
    this.asksKinds = true;
    while (this.kindsOf !== this.faultsOf && this.canInject) {
      const { faultsOf } = this, { place, note } = this.faultPlace();
      const reply = await this.ask({ cmd: "fault_kinds", where: place, for: $("duration").value });
      this.kindsOf = faultsOf;
      if (faultsOf !== this.faultsOf) continue;
      if (!reply.ok) this.faultsOf = this.kindsOf = ""; /* query again at the next change */
      this.renderKinds(Array.isArray(reply.kinds) ? reply.kinds : []);
      this.showFaultMessage(reply.ok ? note || "" : reply.error, reply.ok);
    }
    this.asksKinds = false;
  }

  /* Return target and duration in the form. When they change, the fabric is queried again. */
  faultsNow() {
    return this.canInject ? `${this.faultPlace().place} ${$("duration").value}` : "";
  }

  get canInject() {
    return Boolean(this.feed.live && this.model && !this.model.synthetic && !this.ended);
  }

  renderKinds(kinds) {
    const before = this.kindChosen, can = kinds.filter(({ why }) => !why);
    this.kinds = kinds;
    $("kind").replaceChildren(...[...can, ...kinds.filter(({ why }) => why)].map(
      ({ name, about, why, note }) => el("option", { value: name, title: why || note || about,
        disabled: Boolean(why) }, why ? `${name} (not here)` : name)));
    const chosen = can.find(({ name }) => name === before) || can.find(({ note }) => !note) ||
      can[0];
    $("kind").value = chosen?.name || "";
    $("kind").disabled = $("inject").disabled = !chosen;
    $("text").value = chosen?.text || "";
    const reasons = new Map();
    for (const { name, why } of kinds.filter((one) => one.why)) {
      const text = why.startsWith(`${name}: `) ? why.slice(name.length + 2) : why;
      reasons.set(text, [...reasons.get(text) || [], name]);
    }
    $("whynot").hidden = !reasons.size;
    $("whynot").open = kinds.length > 0 && !can.length;
    $("whynotlist").replaceChildren(...[...reasons].map(([why, names]) =>
      el("li", {}, el("b", {}, names.join(", ")), `: ${why}`)));
  }

  renderFaultText() {
    this.kindChosen = $("kind").value;
    $("text").value = this.kinds.find(({ name }) => name === this.kindChosen)?.text || "";
  }

  /* @injected: number of the fault that the message is about, or 0. The message changes when this
   * fault ends. */
  showFaultMessage(text, ok, injected = 0) {
    this.injected = injected;
    $("faultsaid").className = ok ? "" : "wrong";
    $("faultsaid").textContent = text;
  }

  async inject(text) {
    const reply = await this.ask({ cmd: "fault", fault: text });
    this.showFaultMessage(reply.ok ? `fault ${reply.fault} is injected` +
      (reply.note ? `: ${reply.note}` : "") : reply.error, reply.ok, reply.fault);
    this.listFaults();
  }

  /* Request the list of faults, and again if it may have changed during the request. */
  async listFaults() {
    this.listAgain = true;
    if (this.listing) return;
    this.listing = true;
    while (this.listAgain && this.feed.live && !this.ended) {
      this.listAgain = false;
      const reply = await this.ask({ cmd: "faults" });
      if (reply.ok) this.renderFaults(reply.faults); /* after an error, keep the old list */
      await new Promise((done) => { setTimeout(done, LIST_MS); });
    }
    this.listing = false;
  }

  /*
   * Show the active faults. A fault that stays active keeps its row element, because the user may
   * be about to click in it, or have the keyboard focus in it.
   */
  renderFaults(faults) {
    const active = faults.filter((fault) => fault.state !== "over");
    const before = new Map([...$("active").children].map((row) => [row.dataset.fault, row]));
    const rows = active.map((fault) => before.get(`${fault.fault}: ${fault.text}`) ||
      this.faultRow(fault));
    rows.forEach((row, i) => {
      before.delete(row.dataset.fault);
      row.firstChild.lastChild.textContent = `(${active[i].state})`;
      if ($("active").children[i] !== row) $("active").insertBefore(row, $("active").children[i]);
    });
    if (faults.some(({ fault, state }) => fault === this.injected && state === "over"))
      this.showFaultMessage(`fault ${this.injected} has ended`, true);
    const left = [...before.values()].some((row) => row.contains(document.activeElement));
    before.forEach((row) => row.remove());
    if (left) $("text").focus(); /* keep the keyboard focus near the list */
  }

  faultRow({ fault, text }) {
    return el("li", { "data-fault": `${fault}: ${text}` },
      el("span", {}, `${fault}: ${text} `, el("span", { class: "faint" })),
      el("button", { type: "button", "aria-label": `clear fault ${fault}`,
        click: () => this.clear(fault) }, "clear"));
  }

  async clear(number) {
    const reply = await this.ask({ cmd: "fault_clear", fault: number });
    this.showFaultMessage(reply.ok ? `fault ${number} is cleared` : reply.error, reply.ok);
    this.listFaults();
  }

  async showMatrix() {
    if ($("matrix").open) return;
    if ($("who").disabled) {
      this.flash($("who").title);
      return;
    }
    $("matrix").showModal();
    this.renderMatrix();
    if (this.asksReports) return; /* the loop of the last call still runs */
    this.asksReports = true;
    while ($("matrix").open && !this.ended) {
      const reply = await this.ask({ cmd: "report" });
      if (reply.ok && !this.ended) this.report = reply.report;
      this.renderMatrix();
      await new Promise((done) => { setTimeout(done, REPORT_MS); });
    }
    this.asksReports = false;
  }

  renderMatrix() {
    if (!$("matrix").open) return;
    const { report } = this;
    this.matrix.take(report?.communication?.messages || null, report?.nodes || 0,
      this.model?.nodeNames);
    this.matrix.render(this.painter.theme,
      this.ended ? "The fabric has ended without a report." : "Waiting for the fabric.");
  }

  /* While no segment moves, list which process waits for which. */
  renderStandstill() {
    const standstill = this.model?.standstill, lines = standstill
      ? standstillLines(standstill, this.model.numbered) : [];
    this.painter.still = standstill ? standstillMarks(standstill) : null;
    $("standstill").hidden = !lines.length;
    $("legend").classList.toggle("still", Boolean(standstill));
    /* screen readers get the first line only once, since the list changes each second */
    if (!lines.length) $("alarm").textContent = "";
    else if (!$("alarm").textContent) $("alarm").textContent = `Nothing moves. ${lines[0]}`;
    if (!lines.length) return;
    const shown = lines.slice(0, LINES);
    if (lines.length > LINES) shown.push(`and ${lines.length - LINES} more`);
    $("standstill").replaceChildren(
      el("h2", {}, `Nothing has moved for ${(standstill.standstill.for_ns / 1e9).toFixed(0)} s`),
      el("ul", { class: "lines" }, ...shown.map((line) => el("li", {}, line))));
  }

  /* --- light and dark --- */

  storedTheme() {
    let stored = null;
    try {
      stored = localStorage.getItem("fabemu-theme");
    } catch { /* the browser does not store data */ }
    return stored || (DARK.matches ? "dark" : "light");
  }

  setTheme(name) {
    document.documentElement.dataset.theme = this.theme = name;
    this.painter.setTheme(name);
    $("theme").textContent = name === "dark" ? "Light" : "Dark";
    const scale = $("scale").getContext("2d"), { width, height } = $("scale");
    for (let x = 0; x < width; x++) {
      scale.fillStyle = loadColour(this.painter.theme, x / (width - 1));
      scale.fillRect(x, 0, 1, height);
    }
    this.dirty = true;
  }

  switchTheme() {
    this.setTheme(this.theme === "dark" ? "light" : "dark");
    try {
      localStorage.setItem("fabemu-theme", this.theme);
    } catch { /* the browser does not store data */ }
  }

  /* --- keys and buttons --- */

  listen() {
    new ResizeObserver(() => this.place()).observe(this.canvas);
    this.canvas.addEventListener("click", (event) => this.onClick(event));
    this.canvas.addEventListener("pointermove", (event) => this.onMove(event));
    this.canvas.addEventListener("pointerleave", () => {
      this.painter.hovered = null;
      $("tip").hidden = true;
      this.dirty = true;
    });
    DARK.addEventListener("change", () => this.setTheme(this.storedTheme()));
    document.addEventListener("keydown", (event) => this.onKey(event));
    document.addEventListener("visibilitychange", () => this.pace());
    $("pause").addEventListener("click", () => this.pause());
    $("who").addEventListener("click", () => this.showMatrix());
    addEventListener("pagehide", () => this.releasePace());
    $("open").addEventListener("click", () => $("file").click());
    $("file").addEventListener("change", () => {
      if ($("file").files[0]) this.replay($("file").files[0]);
    });
    $("theme").addEventListener("click", () => this.switchTheme());
    $("help").addEventListener("click", () => $("keys").showModal());
    $("live").addEventListener("click", () => this.watchLive());
    $("seek").addEventListener("input", () => this.feed.seek(this.feed.first +
      ($("seek").value / 1000) * (this.feed.last - this.feed.first)));
    $("speed").addEventListener("change", () => this.setSpeed());
    $("kind").addEventListener("change", () => this.renderFaultText());
    $("duration").addEventListener("change", () => this.askKinds());
    $("fault").addEventListener("submit", (event) => {
      event.preventDefault();
      this.inject($("text").value);
    });
  }

  speed(by) {
    const choice = $("speed"), at = choice.selectedIndex + by;
    if ((this.feed.live && !this.steers) || at < 0 || at >= choice.length) return;
    choice.selectedIndex = at;
    this.setSpeed();
  }

  onKey(event) {
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
    if (event.ctrlKey || event.metaKey || event.altKey || $("keys").open ||
      $("matrix").open) return;
    if (typing && event.key === "Escape") this.canvas.focus();
    if (typing || (event.target.tagName === "BUTTON" && (event.key === " " ||
      event.key === "Enter"))) return;
    const act = this.keyActions()[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!act || !this.layout) return;
    event.preventDefault();
    act();
  }

  foldAll() {
    this.layout.reset();
    this.select(null);
    this.place();
    if (this.feed.live && this.model.open.size) this.feed.openBlocks([]);
  }

  keyActions() {
    return {
      ArrowLeft: () => this.move(-1, 0), ArrowRight: () => this.move(1, 0),
      ArrowUp: () => this.move(0, -1), ArrowDown: () => this.move(0, 1),
      Enter: () => (this.selected ? this.toggle(this.part(this.selected))
        : this.select(this.layout.items[0])),
      Escape: () => this.select(null),
      l: () => this.nextLink(),
      f: () => $("text").focus(),
      " ": () => this.pause(),
      ",": () => this.feed.step?.(-1), ".": () => this.feed.step?.(1),
      "-": () => this.speed(-1), "+": () => this.speed(1), "=": () => this.speed(1),
      0: () => this.foldAll(),
      m: () => this.showMatrix(),
      o: () => $("file").click(),
      t: () => this.switchTheme(),
      "?": () => $("keys").showModal(),
    };
  }

  /** Describe the current drawing, which tests compare with counters. */
  drawn() {
    const { painter, layout, model } = this;
    return {
      theme: this.theme,
      items: layout.items.map(({ id, kind, level, x, y, w, h, switches, nodes }) => ({ id, kind,
        level, x, y, w, h, switches, nodes,
        combines: switches.some((s) => painter.combined[s] > 0) })),
      edges: layout.edges.map((edge) => ({ id: edge.id, cables: edge.cables, level: edge.level,
        x0: edge.x0, y0: edge.y0, x1: edge.x1, y1: edge.y1,
        up: painter.styleOf(edge.up), down: painter.styleOf(edge.down),
        states: edge.cables.map((c) => model.stateName(c)) })),
    };
  }
}

const page = new Page();
window.fabemu = Object.freeze({
  get model() { return page.model; },
  get selected() { return page.selected; },
  get feed() { return { state: page.feed.state, paused: page.feed.paused, live: page.feed.live,
    at: page.feed.at, leftOut: page.feed.leftOut,
    moves: Boolean(page.painter.moves && page.feed.flows) }; },
  get report() { return page.report; },
  drawn: () => page.drawn(),
});
