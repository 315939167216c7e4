/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * panel.js - texts and numbers beside the picture. All text is added to the page as text, never as
 * HTML, because names may come from an untrusted recording.
 */
import { NODE_COUNTERS, SWITCH_COUNTERS, TOTALS, DIRECTION_COUNTERS } from "./counters.js";
import { KINDS, bytesText, counted, short, timeText } from "./words.js";

/** Make an element. @attributes: values, or functions as event handlers. */
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

export const RANGES = 32; /* largest number of ranges of nodes in a fault */

/** Return numbers as ranges: [[0, 3], [7, 7]]. */
export function rangesOf(numbers) {
  const ret = [];
  for (const number of [...numbers].sort((a, b) => a - b)) {
    const last = ret.at(-1);
    if (last && last[1] === number - 1) last[1] = number;
    else ret.push([number, number]);
  }
  return ret;
}

/** Return the first @most ranges as text: 0-3,7. */
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

/** Make a line chart. @series: [{points: [[time, value], …], kind}], with values in @unit. */
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

/* --- the selected part -------------------------------------------------------------- */

/* Make the table of @rows: [name, total, rate, CSS class]. @note: the meaning of the rates. */
function counters(rows, note) {
  return el("table", { class: "counters" }, el("caption", { class: "faint" }, note),
    el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "counter"),
      el("th", { scope: "col" }, "in total"), el("th", { scope: "col" }, "per second"))),
    el("tbody", {}, ...rows.map(([name, total, rate, kind]) =>
      el("tr", { class: kind && rate > 0 ? kind : "" }, el("th", { scope: "row" }, name),
        el("td", {}, total === null ? "" : total.toLocaleString("en")),
        el("td", {}, rate === null ? "" : short(rate))))));
}

const sumOf = (values, parts) => parts.reduce((sum, part) => sum + values[part], 0);

/* CSS classes of counters whose rows are highlighted while their rate is above 0. */
const MARKS = { stalls: "stalled", credit_stalls: "stalled", errors: "wrong",
  contributions: "combined" };

/* Return a row for each counter of @list: its sum over @parts. @of: the values of all parts. */
function partRows(list, of, parts, text = (counter) => counter.text) {
  return list.map((counter) => [text(counter), sumOf(of[counter.name], parts),
    counter.level ? null : sumOf(of[counter.name + "Mean"], parts), MARKS[counter.name]])
    .filter(([, total], i) => isShown(list[i], total));
}

const isShown = ({ shown }, value) => shown === "ALWAYS" || (shown === "IF_ANY" && value > 0);

/* Return rows for some directions. A level is the length of a queue, in segments or packets. */
function directionRows(model, name, directions) {
  return partRows(DIRECTION_COUNTERS, model.directions, directions, ({ level, text }) =>
    `${level ? `${model.shape.queue || "segments"} ` : ""}${text} (${name})`);
}

/* Make a chart of two rates, with its key. @what: the name of the first. */
function history(model, what, segments, stalls) {
  return el("div", {},
    chart([{ points: segments, kind: "segments" }, { points: stalls, kind: "stalls" }],
      "per second", `${what}, and stalls for lack of a credit, per second`),
    el("p", { class: "keyline" }, el("span", { class: "key segments" }, what), " ",
      el("span", { class: "key stalls" }, "stalls for lack of a credit")));
}

/* Describe the load of one direction of a link, or the mean of several links. */
function loadFact(model, name, directions) {
  const links = directions.reduce((sum, direction) => sum + model.cables[direction >> 1].count, 0);
  const share = sumOf(model.directions.segmentsMean, directions) / links / model.capacity;
  return `${name}: ${Math.min(Math.round(100 * share), 100)} % of the ` +
    `capacity of ${links === 1 ? "the link" : "the links"}`;
}

function edgePart(model, edge) {
  const [first] = edge.cables, one = edge.cables.length === 1;
  const states = edge.cables.map((c) => model.stateName(c));
  const outs = sumOf(model.outs, edge.cables);
  const up = states.filter((name) => name === "up").length, text = model.cableText(first);
  const all = edge.cables.reduce((sum, c) => sum + model.cables[c].count, 0);
  const many = all > edge.cables.length; /* includes groups of cables */
  return {
    title: one ? model.cableName(first) : `${all} links`,
    facts: [text === null ? null
      : `in the text of a fault, ${one ? "this link" : "the first of these links"} is link=${text}`,
      many ? `${sumOf(model.wrong, edge.cables)} of ${all} links are not up`
        : one ? `state: ${states[0]}` : `${up} are up, ${states.length - up} are not`,
      ...(model.capacity ? [loadFact(model, "upwards", edge.up),
        loadFact(model, "downwards", edge.down)]
        : []),
      outs ? `went out of use ${counted(outs, "time")} so far` : null],
    rows: [...directionRows(model, "upwards", edge.up),
      ...directionRows(model, "downwards", edge.down)],
    directions: [...edge.up, ...edge.down],
  };
}

/* Describe what a second click on a part of a large network does. */
function blockFact(model, item) {
  const block = model.blockOf(item), [s] = item.switches;
  if (block < 0) return null;
  if (model.closed.has(block)) return "a second click, or Enter, opens it";
  return model.open.has(block) && model.switches[s]?.level === model.tops.get(block)
    ? "a second click, or Enter, closes this part of the network" : null;
}

function switchPart(model, item) {
  const { switches } = item, one = switches.length === 1;
  const directions = switches.flatMap((s) => model.directionsOut[s]);
  const at = model.switches[switches[0]];
  return {
    title: one ? model.switchName(switches[0])
      : counted(model.switchCount(switches), "switch", "switches"),
    facts: [item.kind === "box" ? null : `level ${at.level}`,
      at.high >= at.low && item.kind !== "box" && !model.folded
        ? `above nodes ${at.low}–${at.high}` : null,
      model.shape.combines === "switches" ? "has combine units for collectives" : null,
      one && model.shape.hosts?.[model.shape.host_of[switches[0]]]
        ? `on host ${model.shape.hosts[model.shape.host_of[switches[0]]]}` : null,
      item.kind === "box" ? null : blockFact(model, item)],
    rows: [...directionRows(model, "outgoing links", directions),
      ...partRows(SWITCH_COUNTERS, model.sw, switches)],
    directions,
  };
}

function waitText(model, wait) {
  if (!wait) return null;
  const whom = wait.other >= 0 ? ` with ${model.numbered.nodeName(wait.other)}` : "";
  const group = wait.group >= 0 ? ` in group ${wait.group}` : "";
  return `has waited for ${timeText(Math.max(model.at - wait.since, 0))} in ` +
    `${KINDS[wait.kind] || wait.kind}${whom}${group}, ${bytesText(wait.bytes)}`;
}

function nodePart(model, item) {
  const n = item.nodes[0], process = model.processes[n];
  const directions = model.cables.flatMap((cable, c) =>
    !cable.toSwitch && cable.peer === n ? [2 * c, 2 * c + 1] : []);
  return {
    title: model.nodeName(n),
    facts: [process ? `${process.command}, pid ${process.pid}`
      : model.nodeNumber(n) < 0 || model.synthetic ? null : "no process is attached",
      waitText(model, model.waits[n]), blockFact(model, item)],
    rows: partRows(NODE_COUNTERS, model.node, [n]),
    directions,
  };
}

function boxPart(model, item) {
  const part = switchPart(model, item), numbers = item.nodes.map((n) => model.nodeNumber(n));
  const ranges = rangesOf(numbers);
  part.title = `Subtree of ${counted(model.nodeCountOf(item.nodes), "node")}`;
  part.facts = [numbers.length === 1 && numbers[0] < 0 ? model.nodeName(item.nodes[0])
    : numbers.includes(-1) ? null
      : `nodes ${rangesText(ranges, RANGES)}${ranges.length > RANGES ? ", …" : ""}`,
    counted(model.switchCount(item.switches), "switch", "switches"),
    "a second click, or Enter, opens it"];
  part.rows.push(["segments sent by nodes", sumOf(model.node.sent, item.nodes),
    sumOf(model.node.sentMean, item.nodes)]);
  return part;
}

const quoted = (word) => /^[\w@%+=:,./-]+$/.test(word) ? word
  : `'${word.replaceAll("'", "'\\''")}'`;

/** Return the fields of the profile that --set has changed: " with link_retry=go_back_n". */
export function settingsText({ origin }) {
  const settings = Object.entries(origin?.settings || {});
  return settings.length ? ` with ${settings.map(([name, value]) => `${name}=${value}`).join(", ")}`
    : "";
}

function originFacts({ origin }) {
  if (!origin) return [];
  const { version, host, date, command } = origin, seed = origin.seed ?? null;
  return [`fabemu ${version ?? "of an unknown version"}, host ${host ?? "unknown"}, ` +
      `started ${date ?? "at an unknown time"}${seed === null ? "" : `, seed ${seed}`}`,
  command?.length ? command.map(quoted).join(" ") : null];
}

function sizeText(nodes, switches, links, one = "node", many = `${one}s`) {
  return `${counted(nodes, one, many)}, ${counted(switches, "switch", "switches")}, ` +
    counted(links, "link");
}

/* Describe the whole fabric, which is shown while nothing is selected. */
function fabricPart(model) {
  const { shape, totals, means } = model, past = (name) =>
    model.series((slot) => model.past.totals[slot][name] || 0);
  return {
    title: "The fabric",
    facts: [shape.folded ? sizeText(shape.folded.nodes, shape.folded.switches,
      shape.folded.cables) : null,
      shape.folded ? `shown as ${sizeText(shape.nodes, shape.switches.length,
        shape.cables.length, "group of nodes", "groups of nodes")}`
        : sizeText(shape.nodes, shape.switches.length, shape.cables.length),
      model.linkRate ? `a link can carry ${short(model.linkRate)} segments/s in each direction`
        : "clock raw: no limit on the rate of a link",
      model.countsReplies ? "counters of links count replies as segments" : null,
      shape.hosts ? `on ${counted(shape.hosts.length, "host")}` : null,
      model.skipped
        ? `${counted(model.skipped, "snapshot")} skipped because this browser was too slow` : null,
      ...originFacts(shape),
      "Click a link, a switch or a node to see its counters"],
    rows: TOTALS.filter((total) => isShown(total, totals[total.name] || 0))
      .map(({ name, text }) => [text, totals[name] || 0, means[name] || 0,
        name === "credit_stalls" ? MARKS[name] : null]),
    past: history(model, "segments forwarded", past("hops"), past("credit_stalls")),
  };
}

function describe(model, part) {
  return !part ? fabricPart(model) : part.cables ? edgePart(model, part)
    : part.kind === "node" ? nodePart(model, part)
      : part.kind === "box" ? boxPart(model, part) : switchPart(model, part);
}

/** Fill @place with the counters of @part; null: of the whole fabric. */
export function renderSelection(place, model, part) {
  const { title, facts, rows, directions, past } = describe(model, part);
  place.replaceChildren(el("h2", {}, title),
    el("ul", { class: "facts" }, ...facts.filter(Boolean).map((text) => el("li", {}, text))),
    past || history(model, "segments", model.seriesOfDirections("segments", directions),
      model.seriesOfDirections("stalls", directions)),
    counters(model.hasRates ? rows : rows.map(([name, total]) => [name, total, null]),
      model.meanText));
}

/** Fill @place with the tooltip of a part. */
export function renderTip(place, model, part) {
  const { title, facts, rows } = describe(model, part);
  const moving = rows.filter(([, , rate]) => rate > 0).map(([name, , rate]) =>
    `${name}: ${short(rate)}/s`);
  place.replaceChildren(el("b", {}, title), ...[...facts.filter(Boolean), ...moving]
    .map((text) => el("div", {}, text)));
}

/* --- collectives and events --------------------------------------------------------- */

export function renderCollectives(place, model) {
  place.replaceChildren(...model.lastFinished(14).map((one) => el("li",
    { title: `number ${one.number} of group ${one.group}: ended at ${one.ended.toFixed(3)} s` },
    el("span", {}, el("b", {}, KINDS[one.kind] || one.kind),
      one.bytes ? ` ${bytesText(one.bytes)}` : null),
    el("span", { class: "faint" },
      el("span", { class: "took" }, timeText(Math.max(one.ended - one.began, 0))),
      ` · done by ${counted(one.members, "member")}`))));
  if (!model.finished.size)
    place.append(el("li", { class: "none" }, "No collective has finished yet."));
}

/** Return the text of an event. */
export function eventText(event) {
  const cable = event.cable !== undefined ? ` ${event.cable}` : "";
  switch (event.event) {
    case "fault":
      return `fault ${event.fault} ${event.state}: ${event.text}`;
    case "hit":
      return `fault ${event.fault}: ${event.packet === "credit" ? "credit" : "packet"} ` +
        `${event.what}${cable && ` on${cable}`}`;
    case "link":
      return `link${cable} ${event.state}${event.took_ns ? ` after ${timeText(event.took_ns / 1e9)}`
        : ""}`;
    case "tables":
      return `new routes after ${timeText((event.took_ns || 0) / 1e9)}: ` +
        `${counted(event.links_out, "link")} out of use`;
    case "trap":
      return `${event.switches > 1 ? `${event.switches} switches` : `switch ${event.switch}`} ` +
        `had no route for ${counted(event.packets, "packet")}`;
    case "unit":
      return `combine unit of switch ${event.switch} ${event.state}`;
    case "lost":
      return `data lost: ${event.why}`;
    case "partitioned":
      return `${counted(event.without_route, "pair")} of a switch and a node without a route`;
    case "disagreement":
      return `nodes ${event.disagreement?.mine?.node} and ` +
        `${event.disagreement?.other?.node} call different ` +
        `collectives in group ${event.disagreement?.group}`;
    case "node_died":
      return `the process at node ${event.node} (${event.command}) died: ${event.how}`;
    case "group":
      return `group ${event.group} (${event.members} members) is broken` +
        (event.why ? `: ${event.why}` : event.by !== undefined ? ` by node ${event.by}` : "");
    case "node_no_link":
      return `node ${event.node} has no link that is up`;
    default:
      return event.event.replaceAll("_", " ") + (event.why ? `: ${event.why}` : "");
  }
}

const GRAVE = new Set(["lost", "node_died", "broken", "down", "taken out", "stuck", "begins",
  "test failed"]);

/* Gather events into lines: consecutive hits of one fault, and consecutive missing routes. */
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
  if (!last.length) place.append(el("li", { class: "none" }, "No event yet."));
}
