/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * panel.js - what is told in words and numbers beside the picture. All text goes into the page as
 * text: names in it may be those of a stranger's file.
 */

/** An element: attributes, handlers (functions), and children: text or elements. */
export function el(tag, attributes = {}, ...children) {
  const ret = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") ret.addEventListener(name, value);
    else if (value !== false && value !== null && value !== undefined)
      ret.setAttribute(name, value === true ? "" : value);
  }
  ret.append(...children.filter((child) => child !== null && child !== undefined));
  return ret;
}

export const RANGES = 32; /* of nodes that a fault names, at most */
const UNITS = [[1e9, "G"], [1e6, "M"], [1e3, "k"]];

/** A number for people: 12.3 k. */
export function short(number) {
  for (const [size, unit] of UNITS)
    if (Math.abs(number) >= size) return `${(number / size).toPrecision(3)} ${unit}`;
  return Math.abs(number) >= 10 || Number.isInteger(number) ? number.toFixed(0)
    : number.toPrecision(2);
}

export function bytesText(bytes) {
  for (const [size, unit] of [[1 << 30, "GiB"], [1 << 20, "MiB"], [1 << 10, "KiB"]])
    if (bytes >= size) return `${+(bytes / size).toPrecision(3)} ${unit}`;
  return `${bytes} B`;
}

export function timeText(seconds) {
  if (seconds >= 0.9995) return `${seconds.toPrecision(3)} s`; /* what is rounded to 1.00 */
  if (seconds >= 0.9995e-3) return `${(seconds * 1e3).toPrecision(3)} ms`;
  if (seconds >= 0.9995e-6) return `${(seconds * 1e6).toPrecision(3)} µs`;
  return `${(seconds * 1e9).toPrecision(3)} ns`;
}

/** Numbers as ranges: [[0, 3], [7, 7]]. */
export function rangesOf(numbers) {
  const ret = [];
  for (const number of [...numbers].sort((a, b) => a - b)) {
    const last = ret.at(-1);
    if (last && last[1] === number - 1) last[1] = number;
    else ret.push([number, number]);
  }
  return ret;
}

/** The first of some ranges as text: 0-3,7. */
export function rangesText(ranges, most) {
  return ranges.slice(0, most).map(([from, to]) => (from === to ? from : `${from}-${to}`)).join();
}

/* --- a line chart ------------------------------------------------------------------- */

const SVG = "http://www.w3.org/2000/svg";

function svg(tag, attributes, ...children) {
  const ret = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) ret.setAttribute(name, value);
  ret.append(...children);
  return ret;
}

/** Lines over time: @series: [{points: [[at, value], …], name, kind}]. */
export function chart(series, unit, label) {
  const width = 300, height = 84, foot = 14;
  const points = series.flatMap((one) => one.points);
  const from = Math.min(...points.map(([at]) => at)), to = Math.max(...points.map(([at]) => at));
  const most = Math.max(...points.map(([, value]) => value), 1e-9);
  const x = (at) => ((at - from) / (to - from || 1)) * width;
  const y = (value) => 14 + (1 - value / most) * (height - foot - 16);
  const lines = series.map(({ points: some, kind }) => svg("polyline", { class: `line ${kind}`,
    points: some.map(([at, value]) => `${x(at).toFixed(1)},${y(value).toFixed(1)}`).join(" ") }));
  return svg("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img",
    "aria-label": label },
  svg("line", { x1: 0, x2: width, y1: y(0), y2: y(0), class: "axis" }),
  ...lines,
  svg("text", { x: 2, y: 10, class: "tick" }, most > 1e-8 ? `${short(most)} ${unit}` : ""),
  svg("text", { x: 2, y: height - 2, class: "tick" },
    points.length ? `−${timeText(to - from)}` : ""),
  svg("text", { x: width - 2, y: height - 2, class: "tick end" }, "now"));
}

/* --- what is selected --------------------------------------------------------------- */

/* Rows of a table of counters: name, so far, a second. */
function counters(rows) {
  return el("table", { class: "counters" },
    el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "counter"),
      el("th", { scope: "col" }, "so far"), el("th", { scope: "col" }, "a second"))),
    el("tbody", {}, ...rows.map(([name, total, rate, kind]) =>
      el("tr", { class: kind && rate > 0 ? kind : "" }, el("th", { scope: "row" }, name),
        el("td", {}, total === null ? "" : total.toLocaleString("en")),
        el("td", {}, rate === null ? "" : short(rate))))));
}

const sumOf = (values, parts) => parts.reduce((sum, part) => sum + values[part], 0);

function wayRows(model, name, ways) {
  const { segments, segmentsRate, stalls, stallsRate, queue, errors, errorsRate } = model.ways;
  const rows = [[`segments ${name}`, sumOf(segments, ways), sumOf(segmentsRate, ways)],
    [`waits for credit ${name}`, sumOf(stalls, ways), sumOf(stallsRate, ways), "stalled"],
    [`queue ${name}`, sumOf(queue, ways), null]];
  if (sumOf(errors, ways)) rows.push([`errors ${name}`, sumOf(errors, ways),
    sumOf(errorsRate, ways), "wrong"]);
  return rows;
}

function history(model, ways) {
  return el("div", {},
    chart([{ points: model.seriesOfWays("segments", ways), kind: "segments" },
      { points: model.seriesOfWays("stalls", ways), kind: "stalls" }], "/s",
    "segments, and waits for credit, a second"),
    el("p", { class: "keyline" }, el("span", { class: "key segments" }, "segments"), " ",
      el("span", { class: "key stalls" }, "waits for credit")));
}

function edgePart(model, edge) {
  const [first] = edge.cables, one = edge.cables.length === 1;
  const states = edge.cables.map((c) => model.stateName(c));
  const outs = sumOf(model.outs, edge.cables);
  const up = states.filter((name) => name === "up").length, text = model.cableText(first);
  const all = edge.cables.reduce((sum, c) => sum + model.cables[c].count, 0);
  const many = all > edge.cables.length; /* of some only the sum is known */
  return {
    title: one ? model.cableName(first) : `${all} cables`,
    facts: [text === null ? null : one ? `link=${text}` : `first: link=${text}`,
      many ? `${sumOf(model.wrong, edge.cables)} of ${all} links not up`
        : one ? `state: ${states[0]}` : `${up} up, ${states.length - up} not`,
      outs ? `out of use ${outs} time${outs === 1 ? "" : "s"}` : null],
    rows: [...wayRows(model, "up", edge.up), ...wayRows(model, "down", edge.down)],
    ways: [...edge.up, ...edge.down],
  };
}

/* Where it is part of a large network: what a second click does. */
function blockFact(model, item) {
  const block = model.blockOf(item), [s] = item.switches;
  if (block < 0) return null;
  if (model.closed.has(block)) return "Enter or a second click opens it";
  return model.open.has(block) && model.switches[s]?.level === model.tops.get(block)
    ? "Enter or a second click closes what it is in" : null;
}

function switchPart(model, item) {
  const { switches } = item, { sw } = model, one = switches.length === 1;
  const ways = switches.flatMap((s) => model.waysOut[s]);
  const at = model.switches[switches[0]];
  return {
    title: one ? model.switchName(switches[0]) : `${model.switchCount(switches)} switches`,
    facts: [item.kind === "box" ? null : `level ${at.level}`,
      at.high >= at.low && item.kind !== "box" && !model.folded
        ? `above nodes ${at.low}–${at.high}` : null,
      model.shape.combines === "switches" ? "combines collectives" : null,
      one && model.shape.hosts?.[model.shape.host_of[switches[0]]]
        ? `on host ${model.shape.hosts[model.shape.host_of[switches[0]]]}` : null,
      item.kind === "box" ? null : blockFact(model, item)],
    rows: [...wayRows(model, "out", ways),
      ["contributions combined", sumOf(sw.contributions, switches),
        sumOf(sw.contributionsRate, switches), "combined"],
      ["results sent", sumOf(sw.results, switches), sumOf(sw.resultsRate, switches)],
      ["multicasts", sumOf(sw.multicasts, switches), sumOf(sw.multicastsRate, switches)],
      ["partial results now", sumOf(sw.states, switches), null]],
    ways,
  };
}

function waitText(model, wait) {
  if (!wait) return null;
  const whom = wait.other >= 0 ? ` with ${model.numbered.nodeName(wait.other)}` : "";
  const group = wait.group >= 0 ? ` in group ${wait.group}` : "";
  return `waits for ${wait.kind}${whom}${group}, ${bytesText(wait.bytes)}, ` +
    `for ${timeText(Math.max(model.at - wait.since, 0))}`;
}

function nodePart(model, item) {
  const n = item.nodes[0], { node } = model, process = model.processes[n];
  const ways = model.cables.flatMap((cable, c) =>
    !cable.toSwitch && cable.far === n ? [2 * c, 2 * c + 1] : []);
  return {
    title: model.nodeName(n),
    facts: [process ? `${process.command}, pid ${process.pid}`
      : model.nodeNumber(n) < 0 ? null : "no process",
      waitText(model, model.waits[n]), blockFact(model, item)],
    rows: [["segments sent", node.sent[n], node.sentRate[n]],
      ["segments delivered", node.delivered[n], node.deliveredRate[n]],
      ["posted, not in the fabric", node.posted[n], null],
      ["not taken by the process", node.untaken[n], null],
      ["contributions combined", node.contributions[n], node.contributionsRate[n], "combined"]],
    ways,
  };
}

function boxPart(model, item) {
  const part = switchPart(model, item), numbers = item.nodes.map((n) => model.nodeNumber(n));
  const ranges = rangesOf(numbers);
  part.title = `Subtree of ${model.nodeCountOf(item.nodes)} nodes`;
  part.facts = [numbers.length === 1 && numbers[0] < 0 ? model.nodeName(item.nodes[0])
    : numbers.includes(-1) ? null
      : `nodes ${rangesText(ranges, RANGES)}${ranges.length > RANGES ? ", …" : ""}`,
    `${model.switchCount(item.switches)} switches`,
    "Enter or a second click opens it"];
  part.rows.push(["segments sent by nodes", sumOf(model.node.sent, item.nodes),
    sumOf(model.node.sentRate, item.nodes)]);
  return part;
}

/* What is told of the whole fabric, while nothing is selected. */
function fabricPart(model) {
  const { shape, totals, rates } = model;
  const names = ["sent", "delivered", "hops", "credit_stalls", "contributions", "results",
    "multicasts", "dropped", "sent_again", "damaged", "lost"];
  return {
    title: "The fabric",
    facts: [shape.folded ? `${shape.folded.nodes} nodes, ${shape.folded.switches} switches, ` +
        `${shape.folded.cables} cables` : null,
      `${shape.folded ? "folded into " : ""}${shape.nodes} nodes, ` +
        `${shape.switches.length} switches, ${shape.cables.length} cables`,
      model.capacity ? `a link carries ${short(model.capacity)} segments/s` : null,
      shape.hosts ? `on ${shape.hosts.length} hosts` : null,
      model.skipped ? `${model.skipped} snapshots were left out: this browser was slow` : null,
      "Click a link, a switch or a node"],
    rows: names.filter((name) => totals[name] || names.indexOf(name) < 6)
      .map((name) => [name.replaceAll("_", " "), totals[name] || 0, rates[name] || 0,
        name === "credit_stalls" ? "stalled" : null]),
    points: [{ points: model.series((slot) => model.past.totals[slot].hops || 0),
      kind: "segments" },
    { points: model.series((slot) => model.past.totals[slot].credit_stalls || 0),
      kind: "stalls" }],
  };
}

/** Fill @place with what is known of the part that is selected; null: of the fabric. */
export function renderSelection(place, model, part) {
  const told = !part ? fabricPart(model) : part.cables ? edgePart(model, part)
    : part.kind === "node" ? nodePart(model, part)
      : part.kind === "box" ? boxPart(model, part) : switchPart(model, part);
  const past = told.points
    ? el("div", {}, chart(told.points, "/s", "hops, and waits for credit, a second"),
      el("p", { class: "keyline" }, el("span", { class: "key segments" }, "hops"), " ",
        el("span", { class: "key stalls" }, "waits for credit")))
    : history(model, told.ways);
  place.replaceChildren(el("h2", {}, told.title),
    el("ul", { class: "facts" }, ...told.facts.filter(Boolean).map((text) => el("li", {}, text))),
    past, counters(told.rows));
}

/* --- collectives and events --------------------------------------------------------- */

const KINDS = { allreduce: "all-reduce" };

export function renderCollectives(place, model) {
  place.replaceChildren(...model.lastFinished(14).map((one) => el("li",
    { title: `number ${one.number} of group ${one.group}: ended at ${one.ended.toFixed(3)} s` },
    el("span", {}, el("b", {}, KINDS[one.kind] || one.kind), ` ${bytesText(one.bytes)}`),
    el("span", { class: "faint" },
      el("span", { class: "took" }, timeText(Math.max(one.ended - one.began, 0))),
      ` · ${one.members} of group ${one.group}`))));
  if (!model.finished.size)
    place.append(el("li", { class: "none" }, "No collective has been finished yet."));
}

/** An event, as a line. */
export function eventText(event) {
  const cable = event.cable !== undefined ? ` ${event.cable}` : "";
  switch (event.event) {
    case "fault":
      return `fault ${event.fault} ${event.state}: ${event.text}`;
    case "hit":
      return `fault ${event.fault}: ${event.what}${cable}`;
    case "link":
      return `link${cable} ${event.state}${event.took_ns ? ` after ${timeText(event.took_ns / 1e9)}`
        : ""}`;
    case "tables":
      return `new routes in force after ${timeText((event.took_ns || 0) / 1e9)}, ` +
        `${event.links_out} link${event.links_out === 1 ? "" : "s"} out`;
    case "trap":
      return `${event.switches > 1 ? `${event.switches} switches` : `switch ${event.switch}`} ` +
        `had no way for ${event.packets} packet${event.packets === 1 ? "" : "s"}`;
    case "unit":
      return `combine unit of switch ${event.switch} ${event.state}`;
    case "lost":
      return `lost for good: ${event.why}`;
    case "parted":
      return `${event.without_route} pairs have no route`;
    case "disagreement":
      return `processes of group ${event.disagreement?.group} do different things: nodes ` +
        `${event.disagreement?.mine?.node} and ${event.disagreement?.other?.node}`;
    case "node_died":
      return `the process at node ${event.node} (${event.command}) died: ${event.how}`;
    case "group":
      return `group ${event.group} of ${event.members} broken` +
        (event.why ? `: ${event.why}` : event.by !== undefined ? ` by node ${event.by}` : "");
    case "alone":
      return `node ${event.node} has no link`;
    default:
      return event.event.replaceAll("_", " ") + (event.why ? `: ${event.why}` : "");
  }
}

const GRAVE = new Set(["lost", "node_died", "broken", "down", "taken out", "stuck", "begins",
  "test failed"]);

/*
 * Many hits of one fault are one line, and so are all switches that had no way: until something
 * else happens.
 */
function gathered(events) {
  const ret = [];
  let from = 0;
  for (const event of events) {
    const many = event.event === "hit" || event.event === "trap";
    const line = many && ret.slice(from).find(({ event: other }) =>
      other.event === event.event && (event.event === "trap" || other.fault === event.fault));
    if (!line) {
      ret.push({ event: { ...event }, times: 1, of: new Set([event.switch]) });
      if (!many) from = ret.length;
    } else if (event.event === "hit") {
      line.times++;
    } else {
      line.event.packets += event.packets;
      line.event.switches = line.of.add(event.switch).size;
    }
  }
  return ret;
}

export function renderEvents(place, model) {
  const last = gathered(model.events).slice(-40).reverse();
  place.replaceChildren(...last.map(({ event, times }) =>
    el("li", { class: GRAVE.has(event.state) || GRAVE.has(event.event) ? "grave"
      : event.state === "up" || event.state === "over" ? "well" : "" },
    el("time", {}, `${event.at.toFixed(2)} s`), " ", eventText(event),
    times > 1 ? ` (${times} times)` : null)));
  if (!last.length) place.append(el("li", { class: "none" }, "Nothing has happened yet."));
}

/* --- who waits for whom ------------------------------------------------------------- */

/** Lines about who waits for whom: of the event `standstill`, as docs/control.md has it. */
export function standstillLines(status, model) {
  const at = status.standstill || {};
  const lines = (at.collectives || []).map((one) => {
    const missing = (one.missing || []).map(({ node }) => model.nodeName(node));
    const some = missing.slice(0, 6).join(", ") + (missing.length > 6 ? ", …" : "");
    return `${one.kind} ${one.number} of group ${one.group}: ${(one.came || []).length} of ` +
      `${one.members} have come; it waits for ${some || "the network"}`;
  });
  for (const link of at.links || [])
    lines.push(`${link.node !== undefined ? `node ${link.node}` : `switch ${link.switch}`} port ` +
      `${link.port} has not moved for ${timeText(link.for_ns / 1e9)}: it waits for ` +
      (link.waits_for === "port" ? "nothing" : link.waits_for));
  (status.attached || []).forEach((process) => {
    const op = process.receive || process.send;
    if (process.stopped) lines.push(`${model.nodeName(process.node)} is stopped`);
    else if (op && op.for_ns > 1e9)
      lines.push(`${model.nodeName(process.node)}: ${op.kind} ` +
        `${op.node !== undefined ? `with ${model.nodeName(op.node)}` : "from anyone"}, ` +
        `${op.state} for ${timeText(op.for_ns / 1e9)}`);
  });
  return lines;
}

/** Nodes that others wait for. */
export function missingNodes(status) {
  const ret = new Set();
  for (const one of status.standstill?.collectives || [])
    for (const { node } of one.missing || []) ret.add(node);
  return ret;
}
