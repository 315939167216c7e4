/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * caption.js - one sentence about what a fabric is doing, and why. It is computed from the means of
 * the counters (Model.average) or, while no segment moves, from the processes that wait for each
 * other. All functions are pure functions of the model (model.js).
 */
import { RECENT } from "./model.js";
import { partiesText, partyName, standstillText } from "./standstill.js";
import { KINDS, bytesText, capital, counted, short, timeText, withArticle } from "./words.js";

const HELD_UP = 50; /* even in a congested network, a sender sends once in this many snapshots */
/* The network counts as congested if there are more credit waits per segment than this. */
const STALLS_MATTER = 0.02;
/* The caption describes collectives if nodes send more contributions per segment than this. */
const COLLECTIVES_SHARE = 0.3;
/*
 * A node is hot if it receives at least HOT_SHARE of the busiest node's rate. Hot nodes are
 * reported only if there are at most HOT_MOST of them, and if the average rate of the other nodes
 * is below COOL_SHARE of the busiest node's rate.
 */
const HOT_SHARE = 0.8;
const COOL_SHARE = 0.5;
const HOT_MOST = 4;

const sum = (values) => values.reduce((all, value) => all + value, 0);

/*
 * Return the nodes that have sent a segment in recent snapshots, or have one to send. Sources of
 * synthetic traffic never stop, and do not report whether they have a segment to send. So in a
 * congested network, each source that has ever sent a segment counts.
 */
function sendersOf(model, congested) {
  const used = model.directionsUsed(congested ? HELD_UP : RECENT);
  const { posted, sent } = model.node;
  const sends = Array.from(posted, (count, n) =>
    count > 0 || (congested && model.synthetic && sent[n] > 0));
  model.cables.forEach(({ toSwitch, peer }, c) => {
    if (!toSwitch && used[2 * c]) sends[peer] = true;
  });
  return [...sends.keys()].filter((n) => sends[n]);
}

/* Return the mean rates of both directions of all cables, and their sums by node. */
function flows(model) {
  const { segmentsMean: segments, stallsMean: stalls } = model.directions;
  const sent = new Float64Array(model.nodeCount), received = new Float64Array(model.nodeCount);
  model.cables.forEach(({ toSwitch, peer }, c) => {
    if (toSwitch) return;
    sent[peer] += segments[2 * c];
    received[peer] += segments[2 * c + 1];
  });
  const blocked = model.switches.map((_, s) => s)
    .filter((s) => model.directionsOut[s].some((i) => stalls[i] > 0));
  /* credit_stalls includes the waits at nodes */
  const waits = Math.max(sum(stalls), model.means.credit_stalls || 0);
  const congested = sum(stalls) > STALLS_MATTER * sum(segments);
  const senders = sendersOf(model, congested);
  return { segments, waits, sent, received, senders, blocked, congested,
    rate: model.means.sent || 0 };
}

/* Return the unit of the counters of links. */
const unitOf = (model) => `segments${model.countsReplies ? " and replies" : ""}/s`;

function hotNodes({ received }) {
  const most = Math.max(...received, 0);
  const nodes = [...received.keys()];
  const hot = nodes.filter((n) => received[n] >= HOT_SHARE * most);
  const others = nodes.filter((n) => received[n] < HOT_SHARE * most);
  const cool = sum(others.map((n) => received[n])) / (others.length || 1);
  return most > 0 && hot.length <= HOT_MOST && others.length > hot.length &&
    cool < COOL_SHARE * most ? hot : [];
}

function nodesSend(model, nodes) {
  const count = model.nodeCountOf(nodes);
  return `${counted(count, "node")} ${count === 1 ? "sends" : "send"}`;
}

function blockedText(model, blocked) {
  const all = model.switchCount([...model.switches.keys()]);
  const count = model.switchCount(blocked);
  if (!count) return "segments wait for credits at the nodes";
  const where = counted(all, "switch", "switches"); /* "1,280 switches" */
  if (all === 1) return "segments wait for credits in the switch";
  return "segments wait for credits in " +
    (count === all ? `all ${where}` : `${count.toLocaleString("en")} of ${where}`);
}

function hotSpotText(model, flow) {
  const hot = hotNodes(flow), senders = flow.senders.filter((n) => !hot.includes(n));
  if (!flow.congested || !hot.length || senders.length < 2) return null;
  const one = hot.length === 1, rate = sum(hot.map((n) => flow.received[n])) / hot.length;
  const limit = model.capacity ? `than ${one ? "its link carries" : "their links carry"}`
    : `than ${one ? "it takes" : "they take"}`;
  return `${capital(partiesText(model, hot))} ${one ? "is the hot spot" : "are hot spots"}: ` +
    `${nodesSend(model, senders)} more ${limit} (${one ? "it receives" : "each receives"} ` +
    `${short(rate)} ${unitOf(model)}), so ${blockedText(model, flow.blocked)}`;
}

function congestionText(model, flow) {
  if (!flow.congested) return null;
  return `${nodesSend(model, flow.senders)} more than the network ` +
    `can deliver: ${blockedText(model, flow.blocked)}`;
}

/* Return a sentence about collectives; null: none, or they are only a small part of the traffic. */
function collectivesText(model, flow) {
  const contributions = sum(model.sw.contributionsMean) + sum(model.node.contributionsMean);
  const [last] = model.lastFinished(1);
  if (!last || !contributions || contributions < COLLECTIVES_SHARE * sum(flow.sent)) return null;
  const combining = model.switchCount([...model.switches.keys()]
    .filter((s) => model.sw.contributionsMean[s] > 0));
  const where = combining ? counted(combining, "switch combines", "switches combine")
    : "adapters combine";
  /* some members may not have finished the latest collective yet, so use the highest count */
  const members = Math.max(...model.lastFinished(Infinity)
    .filter(({ group }) => group === last.group).map((one) => one.members));
  const who = counted(members, "process runs", "processes run");
  return `${who} collectives, and ${where} their contributions: the latest collective, ` +
    `${withArticle(KINDS[last.kind] || last.kind)}` +
    `${last.bytes ? ` of ${bytesText(last.bytes)}` : ""}, took ` +
    timeText(Math.max(last.ended - last.began, 0));
}

function trafficText(model, flow) {
  if (!sum(flow.segments)) return null;
  const [busiest] = [...flow.segments.keys()].sort((a, b) => flow.segments[b] - flow.segments[a]);
  const rate = flow.segments[busiest] / model.cables[busiest >> 1].count;
  const load = model.capacity
    ? `${Math.min(Math.round((100 * rate) / model.capacity), 100)} % of its capacity`
    : `${short(rate)} ${unitOf(model)}`;
  const hot = hotNodes(flow);
  const mostly = 2 * sum(hot.map((n) => flow.received[n])) > sum(flow.received);
  return `${nodesSend(model, flow.senders)} ${short(flow.rate)} segments/s` +
    `${mostly ? `, most of them to ${partiesText(model, hot)}` : ""}: ` +
    `the busiest link carries ${load}, and ` +
    `${flow.waits > 0 ? "few segments wait" : "no segment waits"} for a credit`;
}

function linksText(model) {
  const out = sum(model.wrong);
  return out ? `; ${counted(out, "link is", "links are")} out of use` : "";
}

function idleText(model) {
  const attached = model.processes.filter(Boolean).length;
  const waiting = [...model.waits.keys()].filter((n) => model.waits[n]);
  if (model.synthetic) return "No segment is under way";
  if (!attached) return "The fabric is idle: no process is attached to it";
  const name = attached === 1 ? "1 process is attached" : `${attached} processes are attached`;
  if (!waiting.length) return `No segment is under way: ${name}, and none waits for the network`;
  const [n] = waiting, wait = model.waits[n];
  const whom = wait.other >= 0 ? ` with ${partyName(model.numbered, wait.other)}` : "";
  return `No segment is under way: ${name}, and ${waiting.length} of them ` +
    `${waiting.length === 1 ? "waits" : "wait"}, for example ${partyName(model, n)} in ` +
    `${withArticle(KINDS[wait.kind] || wait.kind)}${whom}`;
}

/** Return the sentence for the caption, from the last Model.average(). */
export function captionOf(model) {
  if (model.standstill) return standstillText(model.standstill, model.numbered);
  const flow = flows(model);
  return `${hotSpotText(model, flow) || congestionText(model, flow) ||
    collectivesText(model, flow) || trafficText(model, flow) || idleText(model)}` +
    `${linksText(model)}.`;
}
