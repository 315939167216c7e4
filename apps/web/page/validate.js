/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * validate.js - checks the lines of a fabric or a recording (docs/telemetry.md). A file may be
 * untrusted, and a fabric may have another version. So each line is checked against the last
 * *shape*, the line that describes the network.
 */

const NODES_MOST = 65536; /* largest number of nodes of a fabric */
const LEVELS_MOST = 64;

const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
const isNumber = (value) => typeof value === "number" && Math.abs(value) <= 2 ** 64;
const isAmount = (value) => isNumber(value) && value >= 0;
const isText = (value) => typeof value === "string";
const below = (most) => (value) => Number.isInteger(value) && value >= 0 && value < most;
const maybe = (is) => (value) => value === undefined || value === null || is(value);
const listOf = (is) => (value) => Array.isArray(value) && value.every(is);

/* Make a check for an array: the first values must pass @first, the others must be numbers. */
const row = (...first) => (value) => Array.isArray(value) && value.length >= first.length &&
  value.every((one, i) => (first[i] || isNumber)(one));

/* Make a check for an object. Each field in @fields must pass its check. There may be others. */
const having = (fields) => (value) => isObject(value) &&
  Object.entries(fields).every(([name, is]) => is(value[name]));

const isPlain = (value) => !isObject(value) && !Array.isArray(value);

const isFolded = (parts) => having({ nodes: isNumber, switches: isNumber, cables: isNumber,
  open: maybe(listOf(Number.isInteger)),
  ...Object.fromEntries(["number_of", "block_of", "count_of"].map((name) => [name,
    (value) => listOf(Number.isInteger)(value) && value.length === parts])) });

const isOrigin = having({ version: maybe(isText), host: maybe(isText), date: maybe(isText),
  seed: maybe(isNumber), command: maybe(listOf(isText)) });

/** Return whether this is a valid shape. */
export function isValidShape(shape) {
  if (!having({ nodes: below(NODES_MOST + 1), levels: below(LEVELS_MOST),
    switches: listOf(row(below(LEVELS_MOST), isNumber, isNumber, isNumber)), cables: Array.isArray,
    link_states: listOf(isText), wait_kinds: listOf(isText), name: maybe(isText),
    topo: maybe(isText), profile: maybe(isText), clock: maybe(isText), names: maybe(listOf(isText)),
    hosts: maybe(listOf(isText)), every_ns: maybe(isAmount), link_bytes_per_s: maybe(isNumber),
    segment_bytes: maybe(isNumber), origin: maybe(isOrigin) })(shape)) return false;
  const { nodes, switches, hosts } = shape, sw = below(switches.length);
  const ofNode = row(sw, isNumber, below(1), below(nodes));
  const ofSwitch = row(sw, isNumber, (kind) => kind === 1, sw);
  return shape.cables.every((cable) => Array.isArray(cable) && cable.length >= 6 &&
    (ofNode(cable) || ofSwitch(cable)) && (cable[6] ?? 1) > 0) &&
    (!hosts || row(...switches.map(() => below(hosts.length)))(shape.host_of)) &&
    maybe(isFolded(switches.length + nodes))(shape.folded);
}

const isCollective = having({ kind: isText, number: isNumber, group: isNumber, members: isNumber,
  name: maybe(isText), bytes: maybe(isAmount), arrived: maybe(listOf(isNumber)),
  missing: maybe(listOf(having({ node: isNumber }))),
  differ: maybe(listOf(having({ node: isNumber, kind: isText, bytes: maybe(isAmount) }))) });

const isMessage = { node: maybe(isNumber), target: maybe(isNumber), tag: maybe(isAmount),
  ignore: maybe(isAmount) };
const isWaiting = having({ node: isNumber, stopped: isPlain, rank: maybe(isNumber),
  unexpected: maybe(isNumber), first_unexpected: maybe(having({ ...isMessage, bytes: isAmount })),
  ...Object.fromEntries(["receive", "send"].map((name) => [name, maybe(having({ kind: isText,
    state: isText, for_ns: maybe(isNumber), bytes: maybe(isAmount), ...isMessage }))])) });

const isStandstill = having({ attached: maybe(listOf(isWaiting)), standstill: maybe(having({
  for_ns: isNumber, collectives: maybe(listOf(isCollective)),
  links: maybe(listOf(having({ for_ns: isNumber, port: isNumber, waits_for: isText }))) })) });

const isPath = having({ group: isPlain, mine: maybe(having({ node: isPlain })),
  other: maybe(having({ node: isPlain })) });

function isValidSnapshot(shape, line) {
  const { nodes, switches, cables } = shape, kind = below(shape.wait_kinds.length);
  const at = line[shape.clock === "virtual" ? "at_ps" : "at_ns"];
  const rows = (...first) => maybe(listOf(row(...first)));
  const collectives = line.collectives ?? [];
  return having({ sample: below(Number.MAX_SAFE_INTEGER), links: rows(below(2 * cables.length)),
    switches: rows(below(switches.length)), nodes: rows(below(nodes)),
    states: rows(below(cables.length), below(shape.link_states.length), isNumber),
    processes: maybe(listOf(having({ node: below(nodes), pid: isNumber, rank: maybe(isNumber),
      command: maybe(isText) }))),
    waits: rows(below(nodes), kind, isNumber, isNumber, isNumber, isNumber),
    finished: rows(isNumber, isNumber, kind, isNumber, isNumber, isNumber, isNumber),
    skipped: maybe(isNumber), totals: maybe(isObject) })(line) && isNumber(at) && at >= 0 &&
    Object.values(line.totals ?? {}).every(isNumber) && typeof collectives === "object" &&
    Object.values(collectives).every(maybe(row(isNumber, isNumber)));
}

/*
 * Fields of events that the page shows as text. Lists and objects are refused: the conversion to
 * text throws if they are nested too deeply or have a field "toString".
 */
const isShown = having(Object.fromEntries(["by", "cable", "command", "fault", "group", "how",
  "links_out", "members", "node", "state", "switch", "switches", "text", "what", "why",
  "without_route"].map((name) => [name, isPlain])));

/* Check a report. It numbers nodes as the fabric does, even if the shape has groups of nodes. */
function isValidReport(report) {
  const node = below(report?.nodes ?? 0);
  const isMessages = having({ messages: isNumber, bytes: isNumber, pairs: isNumber,
    not_listed: maybe(isObject), matrix: maybe(listOf(row(node, node, isAmount, isAmount))) });
  return having({ nodes: maybe(below(NODES_MOST + 1)), command: maybe(listOf(isPlain)),
    communication: maybe(having({ messages: maybe(isMessages),
      collectives: maybe(listOf(having({ kind: isPlain }))) })) })(report);
}

/** Return whether this is a valid line of a fabric of this shape. @shape: null before the first. */
export function isValidLine(shape, line) {
  if (!isObject(line) || !isText(line.event) || !maybe(isNumber)(line.s)) return false;
  switch (line.event) {
    case "telemetry":
      return shape !== null && isValidSnapshot(shape, line);
    case "standstill":
      return isStandstill(line);
    case "report":
      return isValidReport(line.report);
    case "disagreement":
      return maybe(isPath)(line.disagreement);
    default:
      return maybe(isNumber)(line.took_ns) && maybe(isNumber)(line.packets) && isShown(line);
  }
}
