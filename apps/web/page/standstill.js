/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * standstill.js - describes which process waits for which while no segment moves, from the event
 * "standstill" (docs/control.md). All functions are pure functions of the event and of the names
 * of nodes.
 */
import { KINDS, bytesText, counted, listText, timeText, withArticle } from "./words.js";

const OLD_NS = 1e9; /* younger operations are ignored */
const WORD = 2 ** 32; /* an MPI tag is the lower word of a tag of the fabric */
const COMMUNICATOR = 2 ** 34; /* Open MPI's number of a communicator is the tag divided by this */
const CYCLE_MOST = 3; /* in a cycle of more nodes, their operations are not described */

/* Calls that wait for an action of another member of an MPI window, and the action. */
const ACTIONS = {
  __proto__: null, /* so that it has no other names: a recording may have any kind */
  unlock: ["a call for the lock of an MPI window"],
  post: ["MPI_Win_start", "MPI_Win_post"],
  complete: ["MPI_Win_wait", "MPI_Win_complete"],
  free: ["MPI_Win_free", "MPI_Win_free"],
};

function whyText({ kind, state }) {
  if (state === "unsent") return "it was not sent, because the receiver accepts no more";
  if (state === "moving") return "its data is being transferred";
  return kind === "receive" || kind === "probe" ? "no matching message has arrived"
    : "no matching receive is posted";
}

/*
 * Return the tag of a message or a receive as text. Open MPI gives messages of its collectives
 * negative MPI tags. A tag that JavaScript has rounded is left out. @mpi: the process has a rank,
 * so Open MPI made the tag.
 */
function tagText({ tag, ignore }, mpi) {
  if (ignore % WORD || ignore >= WORD * WORD) return ", any tag";
  if (!Number.isSafeInteger(tag)) return "";
  const communicator = Math.floor(tag / COMMUNICATOR), low = tag % WORD;
  const text = !mpi ? `tag ${tag}` : low >= WORD / 2 ? "in a collective" : `tag ${low}`;
  return `, ${text}${mpi && communicator ? ` of communicator ${communicator}` : ""}`;
}

/*
 * Return a clause about messages that match no receive: the receive that waits may have been meant
 * for one of them.
 */
function unmatchedText({ first_unexpected: first, unexpected: count, rank }, model) {
  if (!first) return "";
  return `; ${counted(count, "message has", "messages have")} arrived that ` +
    `${count === 1 ? "matches" : "match"} no receive, the first from ` +
    `${first.node === undefined ? "an unknown node" : model.nodeName(first.node)}` +
    `${tagText(first, rank !== undefined)}, ${counted(first.bytes, "byte")}`;
}

const collectivesOf = ({ standstill }) => standstill?.collectives || [];

/* Return a process's operations with other nodes. */
const operationsOf = ({ receive, send }) =>
  [receive, send].filter((op) => op && op.for_ns >= OLD_NS);

const kindText = ({ call, kind }) => call || KINDS[kind] || kind;
const callText = (one) => withArticle(kindText(one)) +
  (one.bytes ? ` of ${bytesText(one.bytes)}` : "");
const placeText = ({ name, group }) => name || `group ${group}`;

/** Map each waiting node to the nodes for which it waits. A collective's members share one set. */
export function waitsOf(status) {
  const waits = new Map();
  const add = (node, others) => waits.set(node, waits.has(node)
    ? new Set([...waits.get(node), ...others]) : others);
  for (const process of status.attached || [])
    for (const { node } of operationsOf(process))
      if (node !== undefined) add(process.node, new Set([node]));
  for (const { arrived, missing } of collectivesOf(status)) {
    const others = new Set((missing || []).map(({ node }) => node));
    if (others.size) (arrived || []).forEach((node) => add(node, others));
  }
  return waits;
}

/**
 * Return nodes that wait for each other in a cycle, each for the next one; null: there is no cycle.
 * This depth-first search visits each node and each set of @waits only once.
 */
export function cycleOf(waits) {
  const done = new Set(), none = new Set();
  for (const first of waits.keys()) {
    const path = [], places = new Map(); /* places: index in the path, by node */
    const left = []; /* for each node of the path: the set of its peers, and the next of them */
    const enter = (node) => {
      const others = waits.get(node) || none;
      places.set(node, path.push(node) - 1);
      left.push({ others, next: (done.has(others) ? none : others).values() });
    };
    if (!done.has(first)) enter(first);
    while (path.length) {
      const { value: other, done: all } = left.at(-1).next.next();
      if (all) {
        done.add(path.at(-1)).add(left.pop().others);
        places.delete(path.pop());
      } else if (places.has(other)) {
        return path.slice(places.get(other));
      } else if (!done.has(other)) {
        enter(other);
      }
    }
  }
  return null;
}

/* Return the nodes for which others wait, and which do not wait themselves. */
function rootsOf(waits) {
  const sets = [...new Set(waits.values())];
  return [...new Set(sets.flatMap((others) => [...others]))]
    .filter((node) => !waits.has(node)).sort((a, b) => a - b);
}

/**
 * Return the marks in the picture: the nodes for which collectives wait, and an arrow
 * [waiting node, peer] for each operation that waits for a peer.
 */
export function standstillMarks(status) {
  return {
    missing: new Set(collectivesOf(status).flatMap(({ missing }) =>
      (missing || []).map(({ node }) => node))),
    arrows: (status.attached || []).flatMap((process) => operationsOf(process)
      .filter(({ node }) => node !== undefined).map(({ node }) => [process.node, node])),
  };
}

/**
 * Return a node's name, or the rank of its process if no process of another MPI job has the same
 * one. @model: Model.numbered.
 */
export function partyName(model, node) {
  const rank = model.processes?.[node]?.rank ?? -1;
  const isUnique = rank >= 0 &&
    model.processes.filter((process) => process?.rank === rank).length === 1;
  return isUnique ? `rank ${rank}` : model.nodeName(node);
}

/** Return the names of several nodes: "ranks 1, 2 and 5". */
export function partiesText(model, nodes) {
  const names = nodes.map((node) => partyName(model, node));
  const kind = names[0]?.split(" ")[0];
  return names.length > 1 && names.every((name) => name.startsWith(`${kind} `))
    ? `${kind}s ${listText(names.map((name) => name.slice(kind.length + 1)))}` : listText(names);
}

/* Map each node to the operation in which it waits: "a receive", "a barrier of group 1". */
function doingsOf(status) {
  const doings = new Map();
  for (const process of status.attached || [])
    for (const { kind } of operationsOf(process))
      doings.set(process.node, ACTIONS[kind]?.[0] || withArticle(kind));
  for (const one of collectivesOf(status))
    for (const node of one.arrived || [])
      doings.set(node, `${withArticle(kindText(one))} of ${placeText(one)}`);
  return doings;
}

/* Return the operation in which all of @nodes wait, or null if there are several. */
function commonOf(doings, nodes) {
  const all = new Set(nodes.map((node) => doings.get(node)));
  return all.size === 1 ? [...all][0] : null;
}

/* Return a clause about members of one group that call different collectives, or null. */
function differText(model, status) {
  const one = collectivesOf(status).find(({ differ }) => differ?.length);
  if (!one) return null;
  const others = one.differ.map((other) =>
    `${partyName(model, other.node)} calls ${callText(other)}`);
  return `the members of ${placeText(one)} call different collectives: ${listText(others)}, ` +
    `the others call ${callText(one)}`;
}

function cycleText(model, doings, cycle) {
  const common = commonOf(doings, cycle);
  if (cycle.length === 1)
    return `${partyName(model, cycle[0])} waits for itself in ${common}`;
  return `${partiesText(model, cycle)} wait for each other` +
    `${cycle.length > 2 ? " in a cycle" : ""}` +
    (common ? `, each in ${common}` : cycle.length > CYCLE_MOST ? ""
      : `: ${listText(cycle.map((node) => `${partyName(model, node)} in ${doings.get(node)}`))}`);
}

function rootsText(model, doings, waits, roots) {
  const common = commonOf(doings, [...waits.keys()]);
  return `${counted(waits.size, "process", "processes")} ` +
    `${waits.size === 1 ? "waits" : "wait"}${common ? ` in ${common}` : ""} for ` +
    `${partiesText(model, roots)}, which ${roots.length === 1 ? "does" : "do"} not wait for ` +
    "the network";
}

/** Return a sentence about why no segment moves. @model: Model.numbered. */
export function standstillText(status, model) {
  const waits = waitsOf(status), doings = doingsOf(status);
  const since = `Nothing has moved for ${timeText(status.standstill.for_ns / 1e9)}` +
    (status.standstill.simulated ? " of simulated time" : "");
  const cycle = cycleOf(waits), roots = rootsOf(waits);
  const stopped = (status.attached || []).filter((one) => one.stopped).map(({ node }) => node);
  if (stopped.length)
    return `${since}: the ${stopped.length === 1 ? "process" : "processes"} at ` +
      `${partiesText(model, stopped)} ${stopped.length === 1 ? "is" : "are"} stopped.`;
  const differ = differText(model, status);
  if (differ) return `${since}: ${differ}.`;
  if (cycle) return `${since}: ${cycleText(model, doings, cycle)}.`;
  if (roots.length) return `${since}: ${rootsText(model, doings, waits, roots)}.`;
  const waiting = doings.size, common = commonOf(doings, [...doings.keys()]);
  if (!waiting) return `${since}, and processes wait for the network.`;
  return `${since}: ${counted(waiting, "process waits", "processes wait")}` +
    `${common ? ` in ${common}` : ""}.`;
}

function collectiveLine(one, model) {
  const arrived = one.arrived?.length || 0, differ = one.differ?.length || 0;
  const missing = (one.missing || []).map(({ node }) => model.nodeName(node));
  return `${kindText(one)} number ${one.number} of ${placeText(one)}: ${arrived} of ` +
    `${one.members} members have begun` +
    (differ ? `, and ${differ} ${differ === 1 ? "is" : "are"} in another collective`
      : `; it waits for ${listText(missing) ||
        (arrived < one.members ? "the other members" : "the network")}`);
}

/* Describe a link. link.port is a port of link.switch or, if that is undefined, of link.node. */
function linkLine(link, model) {
  const at = link.switch !== undefined ? model.switchName(link.switch) : model.nodeName(link.node);
  return `${at} port ${link.port} has sent nothing for ${timeText(link.for_ns / 1e9)}: ` +
    (link.waits_for === "port" ? "it has a segment and a credit, but does not send it"
      : link.waits_for === "process" ? "it waits until the process receives its segments"
        : `it waits for a ${link.waits_for}`);
}

/* Describe what a process waits for: an action of another member of an MPI window. */
function actionText({ kind, node, target }, model) {
  const [call, action] = ACTIONS[kind], who = node === undefined ? "others" : model.nodeName(node);
  if (action) return `in ${call} for ${action} of ${who}`;
  return `for ${who} to release the lock of ${model.nodeName(target)} in an MPI window`;
}

/* Describe a process that waits in @op. */
function operationLine(process, op, model) {
  if (ACTIONS[op.kind])
    return `${model.nodeName(process.node)} has waited for ${timeText(op.for_ns / 1e9)} ` +
      actionText(op, model);
  const receives = op.kind === "receive" || op.kind === "probe";
  const takes = receives || op.kind === "get";
  const tag = receives || op.kind === "send" ? tagText(op, process.rank !== undefined) : "";
  const bytes = op.bytes === undefined ? ""
    : `, ${receives ? "at most " : ""}${counted(op.bytes, "byte")}`;
  const details = `${tag}${bytes}`.slice(2);
  return `${model.nodeName(process.node)} has waited for ${timeText(op.for_ns / 1e9)} in ` +
    `${withArticle(op.kind)} ${takes ? "from" : "to"} ` +
    `${op.node !== undefined ? model.nodeName(op.node) : "anyone"}` +
    `${details && ` (${details})`}: ${whyText(op)}` +
    (receives ? unmatchedText(process, model) : "");
}

/** Return a line for each pending operation. @model: Model.numbered. */
export function standstillLines(status, model) {
  const lines = collectivesOf(status).map((one) => collectiveLine(one, model));
  lines.push(...(status.standstill?.links || []).map((link) => linkLine(link, model)));
  for (const process of status.attached || []) {
    const [op] = operationsOf(process);
    if (process.stopped) lines.push(`the process at ${model.nodeName(process.node)} is stopped`);
    else if (op) lines.push(operationLine(process, op, model));
    if (process.finalizes) lines.push(`${model.nodeName(process.node)} is in MPI_Finalize`);
  }
  return lines;
}
