/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * caption.js - one sentence about what a fabric is doing, and why. It is computed from the counters
 * of the last second or, while nothing moves, from the processes that wait for each other.
 *
 * Pure functions of the model.
 */
import { partiesText, partyName, standstillText } from "./standstill.js";
import { KINDS, bytesText, capital, counted, short, timeText, withArticle } from "./words.js";

const RECENT = 10; /* snapshots that a sentence covers: one second of the stream */
const HELD_UP = 50; /* snapshots in which a blocked sender sends at least once */
const STALLS_MATTER = 0.02; /* congestion: waits for a credit per segment on a link */
const HOT_SHARE = 0.8; /* hot nodes have at least this share of the busiest receiver's rate */
const COOL_SHARE = 0.5; /* and the other receivers less than this share on average */
const HOT_MOST = 4; /* largest number of hot nodes */
const COLLECTIVES_SHARE = 0.3; /* least contributions per segment that nodes send */

const sum = (values) => values.reduce((all, value) => all + value, 0);

/* --- traffic -------------------------------------------------------------------------- */

/* Nodes that have sent a segment in the last @looks snapshots, or have one to send. */
function sendersOf(model, looks) {
  const segments = model.meanOfWays("segments", looks);
  const sends = Array.from(model.node.posted, (posted) => posted > 0);
  model.cables.forEach(({ toSwitch, peer }, c) => {
    if (!toSwitch && segments[2 * c] > 0) sends[peer] = true;
  });
  return [...sends.keys()].filter((n) => sends[n]);
}

/* Recent rates of all directions of cables, and their sums by node. */
function flows(model) {
  const segments = model.meanOfWays("segments", RECENT);
  const stalls = model.meanOfWays("stalls", RECENT);
  const sent = new Float64Array(model.nodeCount), received = new Float64Array(model.nodeCount);
  model.cables.forEach(({ toSwitch, peer }, c) => {
    if (toSwitch) return;
    sent[peer] += segments[2 * c];
    received[peer] += segments[2 * c + 1];
  });
  const blocked = model.switches.map((_, s) => s)
    .filter((s) => model.waysOut[s].some((way) => stalls[way] > 0));
  const congested = sum(stalls) > STALLS_MATTER * sum(segments);
  const senders = sendersOf(model, congested ? HELD_UP : RECENT);
  return { segments, stalls, sent, received, senders, blocked, congested,
    rate: model.meanOfTotal("sent", RECENT) };
}

/* Nodes that receive far more than the others do. */
function hotNodes({ received }) {
  const most = Math.max(...received, 0);
  const nodes = [...received.keys()];
  const hot = nodes.filter((n) => received[n] >= HOT_SHARE * most);
  const others = nodes.filter((n) => received[n] < HOT_SHARE * most);
  const cool = sum(others.map((n) => received[n])) / (others.length || 1);
  return most > 0 && hot.length <= HOT_MOST && others.length > hot.length &&
    cool < COOL_SHARE * most ? hot : [];
}

function blockedText(model, blocked) {
  const all = model.switchCount([...model.switches.keys()]);
  const count = model.switchCount(blocked);
  if (!count) return "segments wait for credits at the nodes";
  return `segments wait for credits in ${count === all ? `all ${all}` : `${count} of ${all}`} ` +
    "switches";
}

function hotSpotText(model, flow) {
  const hot = hotNodes(flow), senders = flow.senders.filter((n) => !hot.includes(n));
  if (!flow.congested || !hot.length || senders.length < 2) return null;
  const one = hot.length === 1, rate = sum(hot.map((n) => flow.received[n])) / hot.length;
  const limit = model.capacity ? `than ${one ? "its link carries" : "their links carry"}`
    : `than ${one ? "it takes" : "they take"}`;
  return `${capital(partiesText(model, hot))} ${one ? "is the hot spot" : "are hot spots"}: ` +
    `${counted(model.nodeCountOf(senders), "node")} send more ${limit} (${short(rate)} segments/s` +
    `), so ${blockedText(model, flow.blocked)}`;
}

function congestionText(model, flow) {
  if (!flow.congested) return null;
  return `${counted(model.nodeCountOf(flow.senders), "node")} send more than the network ` +
    `can deliver: ${blockedText(model, flow.blocked)}`;
}

/* A sentence about collectives that finished within the last second, or the last snapshots. */
function collectivesText(model, flow) {
  const contributions = sum(model.sw.contributionsRate) + sum(model.node.contributionsRate);
  const [last] = model.lastFinished(1);
  if (!last || contributions < COLLECTIVES_SHARE * sum(flow.sent)) return null;
  const combining = [...model.switches.keys()].filter((s) => model.sw.contributionsRate[s] > 0);
  const where = combining.length
    ? `, which ${counted(model.switchCount(combining), "switch", "switches")} ` +
      (combining.length === 1 ? "combines" : "combine") : ", which adapters combine";
  return `${last.members} processes do collectives${where}: the last one, ` +
    `${KINDS[last.kind] || last.kind} of ${bytesText(last.bytes)}, took ` +
    timeText(Math.max(last.ended - last.began, 0));
}

function trafficText(model, flow) {
  if (!sum(flow.segments)) return null;
  const [busiest] = [...flow.segments.keys()].sort((a, b) => flow.segments[b] - flow.segments[a]);
  const rate = flow.segments[busiest] / model.cables[busiest >> 1].count;
  const load = model.capacity
    ? `${Math.min(Math.round((100 * rate) / model.capacity), 100)} % of what it can`
    : `${short(rate)} segments${model.countsReplies ? " and replies" : ""}/s`;
  const hot = hotNodes(flow);
  const mostly = 2 * sum(hot.map((n) => flow.received[n])) > sum(flow.received);
  return `${counted(model.nodeCountOf(flow.senders), "node")} send ${short(flow.rate)} segments/s` +
    `${mostly ? `, most of them to ${partiesText(model, hot)}` : ""}: ` +
    `the busiest link carries ${load}, and ` +
    `${flow.blocked.length ? "few segments wait" : "no segment waits"} for a credit`;
}

function linksText(model) {
  const out = sum(model.wrong);
  return out ? `; ${counted(out, "link")} ${out === 1 ? "is" : "are"} out of use, and traffic ` +
    "takes other routes" : "";
}

/* --- no traffic ----------------------------------------------------------------------- */

function idleText(model) {
  const attached = model.processes.filter(Boolean).length;
  const waiting = [...model.waits.keys()].filter((n) => model.waits[n]);
  if (model.virtual) return "No segment is under way";
  if (!attached) return "The fabric is idle: no process is attached to it";
  const name = attached === 1 ? "1 process is attached" : `${attached} processes are attached`;
  if (!waiting.length) return `No segment is under way: ${name}, and none waits for the network`;
  const [n] = waiting, wait = model.waits[n];
  const whom = wait.other >= 0 ? ` with ${partyName(model.numbered, wait.other)}` : "";
  return `No segment is under way: ${name}, and ${waiting.length} of them ` +
    `${waiting.length === 1 ? "waits" : "wait"}, for example ${partyName(model, n)} in ` +
    `${withArticle(KINDS[wait.kind] || wait.kind)}${whom}`;
}

/** The sentence for the caption. */
export function captionOf(model) {
  if (model.standstill) return standstillText(model.standstill, model.numbered);
  const flow = flows(model);
  return `${hotSpotText(model, flow) || congestionText(model, flow) ||
    collectivesText(model, flow) || trafficText(model, flow) || idleText(model)}` +
    `${linksText(model)}.`;
}
