/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * summary.js - the summary of a run or a recording that has ended. It is made from the run's report
 * (`fabemu run --report`). In simulated time and for a recording there is no report, so it is made
 * from the last counters. Numbers of a report are checked here, because the fabric may have another
 * version.
 */
import { el } from "./panel.js";
import { KINDS, bytesText, counted, short, timeText } from "./words.js";

/* Why a collective ran as messages (enum fabemu_why). */
const WHY = {
  operation: "the network cannot execute the operation",
  type: "the network cannot combine the data type",
  window: "no group with a larger window was left", group: "there was no group",
  single: "the communicator has one process", intercommunicator: "on an intercommunicator",
  finalize: "MPI was shutting down", off: "disabled", slower: "messages are faster",
  counts: "a process does not know all amounts of data",
};

const number = (value) => (Number.isFinite(value) ? value : 0);
const list = (value) => (Array.isArray(value) ? value : []);
const fields = (value) => Object.entries(typeof value === "object" && value ? value : {});

function commandText({ command, exit_status: status, wall_s: wall }) {
  if (!command) return null;
  const words = list(command).map(String).join(" ");
  if (status === null) return `${words}: not started`;
  return `${words}: exit status ${number(status)} after ${timeText(number(wall))}`;
}

function collectiveTexts(report) {
  return fields(report.collectives).map(([kind, one]) => {
    const inside = number(one?.in_switch) + number(one?.in_adapter);
    const reasons = fields(one?.why).map(([why, count]) => `${WHY[why] || why}: ${number(count)}`)
      .join(", ");
    return inside + number(one?.elsewhere) === 0 ? null
      : `${KINDS[kind] || kind}: ${counted(inside, "collective")} in the network, ` +
        `${number(one.elsewhere).toLocaleString("en")} as messages` +
        (reasons && ` (${reasons})`);
  });
}

function longestText(report) {
  const [most] = list(report.communication?.collectives)
    .sort((a, b) => number(b?.time_ns?.sum) - number(a?.time_ns?.sum));
  if (!number(most?.time_ns?.sum)) return null;
  const known = number(most.wait_ns?.sum) + number(most.network_ns?.sum);
  const share = Math.round((100 * number(most.wait_ns?.sum)) / (known || 1));
  return `most time was spent in ${KINDS[most.kind] || most.kind}` +
    `${number(most.bytes_most) ? ` (up to ${bytesText(most.bytes_most)})` : ""}: ` +
    `${counted(number(most.calls), "call")} of processes took ` +
    `${timeText(number(most.time_ns.mean) / 1e9)} on average` +
    (known ? `; during ${share} % of that time, processes waited for the last one to begin` : "");
}

function checkText({ check }) {
  if (!check) return null;
  return check.right === true
    ? "check: no credit, buffer, channel or combine state was lost"
    : `check: ${counted(number(check.found), "error")} found (the report lists them)`;
}

/*
 * Hits are added up by their unit (hits_are), which depends on the kind of fault. If there were
 * very many faults, the report has only sums for the earliest.
 */
function faultsText({ faults, past_faults: past, links }) {
  const sums = new Map(), count = list(faults).length + number(past?.faults);
  for (const one of list(faults)) {
    const what = String(one?.hits_are ?? "packets hit");
    sums.set(what, (sums.get(what) || 0) + number(one?.hits));
  }
  const texts = [...sums].map(([what, hits]) => `${what}: ${hits.toLocaleString("en")}`);
  if (number(past?.hits))
    texts.push(`hits of faults that are no longer listed: ${past.hits.toLocaleString("en")}`);
  if (number(links?.new_tables) && !number(links.partitioned))
    texts.push(`routes were changed ${counted(links.new_tables, "time")}`);
  return count === 0 ? null : [`${counted(count, "fault")} injected`, ...texts].join("; ");
}

function reportTexts(report) {
  const messages = report.communication?.messages, drops = number(report.dropped);
  return [commandText(report),
    `${counted(number(report.processes?.attached), "process", "processes")} attached` +
      (number(report.processes?.died) ? `, ${number(report.processes.died)} died` : ""),
    `${counted(number(report.segments?.sent), "segment")} sent, forwarded ` +
      `${counted(number(report.segments?.hops), "time")} by switches`,
    `${counted(number(report.credit_stalls), "stall")} for lack of a credit, ` +
      `${counted(drops, "segment")} dropped`,
    number(report.standstill_ns)
      ? `nothing moved for ${timeText(number(report.standstill_ns) / 1e9)}` +
        (report.clock?.mode === "virtual" ? " of simulated time" : "") : null,
    ...collectiveTexts(report), longestText(report),
    number(messages?.messages) ? `${counted(messages.messages, "message")} with ` +
      `${bytesText(number(messages.bytes))} in total, between ` +
      `${counted(number(messages.pairs), "pair")} ` +
      "of nodes (key M shows the matrix)" : null,
    faultsText(report), checkText(report)];
}

function totalTexts({ totals, at, virtual, synthetic }) {
  return [virtual ? `${timeText(at)} of simulated time`
    : `${timeText(at)} since the start of the fabric`,
    `${counted(number(totals.sent), "segment")} sent, ` +
      `${number(totals.delivered).toLocaleString("en")} delivered, ` +
      `forwarded ${counted(number(totals.hops), "time")} by switches`,
    `${counted(number(totals.credit_stalls), "stall")} for lack of a credit, ` +
      `${counted(number(totals.dropped), "segment")} dropped`,
    number(totals.contributions)
      ? `${counted(totals.contributions, "contribution")} combined` : null,
    synthetic ? "fabemu traffic prints latency and throughput" : null];
}

/** Fill @place with the summary. @live: of a run, not a recording. @report: its report, or null. */
export function renderSummary(place, model, live, report) {
  const texts = live && report ? reportTexts(report) : totalTexts(model);
  place.replaceChildren(el("h2", {}, `Summary of the ${live ? "run" : "recording"}`),
    el("ul", { class: "lines" },
      ...texts.filter(Boolean).map((text) => el("li", {}, text))));
}
