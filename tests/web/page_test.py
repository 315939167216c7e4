#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""page_test.py - the page in a real browser: what a user sees and does.

   tests/web/page_test.py --fabemu build/fabemu [unittest options]

The page reports what it draws (window.fabemu); that is compared with the control socket's data
about the same fabric. Screenshots go to build/test-logs/web.
"""
import collections
import contextlib
import json
import math
import os
import random
import re
import subprocess
import sys
import threading
import time
import unittest

import browser

browser.with_selenium()

from web_helpers import FabemuCase, FakeFabric, PATIENCE_S, main, page_of, until  # noqa: E402
from cli_helpers import Client  # noqa: E402
from helpers.seed import seed  # noqa: E402
from helpers.telemetry import View  # noqa: E402

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
SHOTS = os.path.join(TOP, "build", "test-logs", "web")
# Of a line that is drawn: the greatest difference between a pixel near its middle and the
# background.
INK = """
const canvas = document.getElementById("canvas"), ratio = canvas.width / canvas.clientWidth;
const [x, y, reach] = arguments, at = (v) => Math.round(v * ratio);
const { data } = canvas.getContext("2d").getImageData(at(x - reach), at(y - reach),
  at(2 * reach), at(2 * reach));
const has = new Set();
for (let i = 0; i < data.length; i += 4)
  has.add(`${data[i] >> 4},${data[i + 1] >> 4},${data[i + 2] >> 4}`);
return [...has];
"""
RESTS = "return !fabemu.feed.moves && fabemu.model.rates.hops === 0 &&" \
    " fabemu.drawn().edges.every((e) => e.up.sum + e.down.sum === 0)"
# Two switches and their nodes below a third; all but the second and its node are on host a.
SHAPE = {
    "event": "telemetry_shape", "version": 1, "name": "played", "topo": "kary:1,2", "nodes": 2,
    "profile": "oq2004", "clock": "raw", "every_ns": 10**8, "levels": 2, "ports": 2,
    "link_bytes_per_s": 10**9, "segment_bytes": 256, "queue": "segments", "combines": "switches",
    "link_states": ["up", "testing", "out", "down"], "wait_kinds": ["nothing", "send"],
    "switches": [[0, 0, 0, 0], [0, 1, 1, 1], [1, 0, 0, 1]],
    "cables": [[0, 0, 0, 0, 0, 0], [1, 0, 0, 1, 0, 0], [0, 1, 1, 2, 0, 0], [1, 1, 1, 2, 1, 0]],
    "hosts": ["a", "b"], "host_of": [0, 1, 0]}
NO_KINDS = {"ok": True, "kinds": []}
# Lines of two points in the last frame, as they were drawn on the canvas.
STROKES = """
const canvas = document.getElementById("canvas"), { prototype } = CanvasRenderingContext2D;
let path = [];
const before = (name, look) => {
  const own = prototype[name];
  prototype[name] = function (...given) {
    look(this, ...given);
    return own.apply(this, given);
  };
};
window.strokes = [];
before("fillRect", (ctx, x, y, w, h) => {
  if (!x && !y && w === canvas.clientWidth && h === canvas.clientHeight) window.strokes = [];
});
before("beginPath", () => { path = []; });
before("moveTo", (ctx, x, y) => path.push([x, y]));
before("lineTo", (ctx, x, y) => path.push([x, y]));
before("stroke", (ctx) => {
  if (path.length === 2) window.strokes.push({ ends: path, colour: ctx.strokeStyle,
    width: ctx.lineWidth, alpha: ctx.globalAlpha, dash: ctx.getLineDash() });
});
"""
# The pace of simulated time that the page requests, and whether it is granted.
PACES = """
const own = window.fetch;
window.paces = [];
window.fetch = async (at, how) => {
  const reply = await own(at, how), wish = at === "ask" ? JSON.parse(how.body) : {};
  if (wish.cmd === "pace") window.paces.push({ ...wish, ok: (await reply.clone().json()).ok });
  return reply;
};
"""
LISTED = """
return [...document.querySelectorAll("#collectives li")].map((li) => [li.title,
  ...li.querySelectorAll(":scope > span")].map((part) => part.textContent ?? part));
"""


# The caption of a fabric of @shape after some lines of its stream.
CAPTION = """
const [shape, lines] = arguments;
return Promise.all([import("./model.js"), import("./caption.js")]).then(
  ([{ Model }, { captionOf }]) => {
    const model = new Model(shape);
    lines.forEach((line) => model.take(line));
    model.average();
    return captionOf(model);
  });
"""
# The texts that are drawn on the canvas within some frames.
CANVAS_TEXTS = """
const { fillText } = CanvasRenderingContext2D.prototype, texts = [];
CanvasRenderingContext2D.prototype.fillText = function (text, ...where) {
  texts.push(text);
  return fillText.call(this, text, ...where);
};
return new Promise((done) => setTimeout(done, 300)).then(() => {
  CanvasRenderingContext2D.prototype.fillText = fillText;
  return texts;
});
"""
# The sizes of all visible texts in pixels: of elements, and those drawn on the canvas.
SIZES = """
const { fillText } = CanvasRenderingContext2D.prototype, sizes = new Map();
CanvasRenderingContext2D.prototype.fillText = function (text, ...where) {
  if (text) sizes.set(text, parseFloat(this.font.match(/([\\d.]+)px/)[1]));
  return fillText.call(this, text, ...where);
};
return new Promise((done) => setTimeout(done, 300)).then(() => {
  CanvasRenderingContext2D.prototype.fillText = fillText;
  for (const e of document.querySelectorAll("body *")) {
    const chart = e.closest("svg");
    const zoom = chart ? chart.clientWidth / chart.viewBox.baseVal.width : 1;
    if ([...e.childNodes].some((node) => node.nodeType === 3 && node.data.trim()) &&
      e.checkVisibility())
      sizes.set(e.textContent, zoom * parseFloat(getComputedStyle(e).fontSize));
  }
  return [...sizes];
});
"""
CONTRAST = """
const light = (colour) => {
  const [r, g, b] = colour.match(/[\\d.]+/g).map(Number).map((v) => v / 255)
    .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const behind = (e) => {
  const colour = getComputedStyle(e).backgroundColor;
  return colour === "rgba(0, 0, 0, 0)" && e.parentElement ? behind(e.parentElement) : colour;
};
const ret = { words: 0 };
for (const e of document.querySelectorAll("header *, aside *, footer *, #legend *")) {
  const own = [...e.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
  if (!own || !e.checkVisibility()) continue;
  const [one, other] = [light(getComputedStyle(e).color), light(behind(e))].sort((a, b) => b - a);
  const contrast = (one + 0.05) / (other + 0.05);
  ret.words++;
  if (contrast < 4.5) ret[`${e.tagName} ${e.textContent}`] = contrast;
}
return ret;
"""


def ink(colour):
    """INK's result for a colour."""
    return ",".join(str(int(colour[i:i + 2], 16) >> 4) for i in (1, 3, 5))


def three_digits(number):
    return f"{number:#.3g}".rstrip(".")


def time_text(ns):
    for unit, name in ((10**9, "s"), (10**6, "ms"), (10**3, "µs")):
        if ns >= 0.9995 * unit:
            return f"{three_digits(ns / unit)} {name}"
    return f"{three_digits(ns)} ns"


def collective_text(group, number, kind, bytes_, members, began, ended):
    """The text about one collective: its title, its kind, and its times."""
    size = next((f"{float(f'{bytes_ / unit:.3g}'):g} {name}" for unit, name in (
        (1 << 20, "MiB"), (1 << 10, "KiB")) if bytes_ >= unit), f"{bytes_} B" if bytes_ else "")
    return [f"number {number} of group {group}: ended at {ended / 1e9:.3f} s",
            f"{'all-reduce' if kind == 'allreduce' else kind} {size}".strip(),
            f"{time_text(ended - began)} · done by {members} members"]


class Loads:
    """The expected line of each direction, from its counters, by the rules of docs/web.md."""
    RAW = 100, 10**7  # segments per second: the logarithmic scale of clock raw
    SCALES = {"dark": ["#33405a", "#3b528b", "#2c728e", "#21918c", "#28ae80", "#5ec962", "#addc30",
                       "#fde725"],
              "light": ["#c3ccd8", "#8fd3b6", "#49c1ad", "#35a1ab", "#347fa4", "#395d9c",
                        "#40407a", "#2a1a3f"]}
    IDLE = {"dark": "#2a374d", "light": "#d7dee8"}
    STALL = {"dark": "#ff7043", "light": "#d9480f"}

    def __init__(self, shape):
        self.timed = shape["clock"] != "raw"
        self.full = shape["link_bytes_per_s"] / shape["segment_bytes"] if self.timed else 0
        self.ways = [[0, 0] for _ in range(2 * len(shape["cables"]))]  # segments, stalls
        self.rates = [[0.0, 0.0] for _ in self.ways]
        self.ages = [[0, 0] for _ in self.ways]
        self.at = None

    def take(self, at_s, rows):
        """The value shown after a snapshot: a moving average. A movement fades within half a
        second."""
        new = {row[0]: row[1:3] for row in rows}
        for way, was in enumerate(self.ways):
            for i in 0, 1:
                value = new.get(way, was)[i]
                rate = (value - was[i]) / (at_s - self.at) if self.at else 0
                self.ages[way][i] = 0 if rate else self.ages[way][i] + 1
                before = self.rates[way][i]
                mean = 0.6 * before + 0.4 * rate if before else rate
                self.rates[way][i] = mean if self.ages[way][i] < 6 else 0
            self.ways[way] = new.get(way, was)
        self.at = at_s

    def share(self, rate):
        least, most = self.RAW
        share = rate / self.full if self.timed else (math.log(rate / least) /
                                                     math.log(most / least) if rate else 0)
        return min(max(share, 0), 1)

    def lines(self, theme, ways):
        """The line of several directions together; and the dashes over it, if they wait."""
        sent, waited = (sum(self.rates[way][i] for way in ways) for i in (0, 1))
        width = 1.1 + 2.6 * self.share(sent) if sent else 0.8
        ret = [(self.colour(theme, sent / len(ways)), width, 1, [])]
        if waited:
            part = waited / (waited + sent)
            ret.append((self.STALL[theme], max(width, 1.6) + 1.6 * part,
                        min(0.12 + 2.2 * math.sqrt(part), 1), [4, 5]))
        return ret

    def colour(self, theme, rate):
        if not rate:
            return self.IDLE[theme]
        scale = [[int(text[i:i + 2], 16) for i in (1, 3, 5)] for text in self.SCALES[theme]]
        at = (0.12 + 0.88 * self.share(rate)) * (len(scale) - 1)
        low = min(int(at), len(scale) - 2)
        return "#" + "".join(f"{int(a + (b - a) * (at - low) + 0.5):02x}"
                             for a, b in zip(scale[low], scale[low + 1]))


class Subscriber(threading.Thread):
    """A reader of the same stream, which keeps the state after each sample."""

    def __init__(self, path):
        super().__init__(daemon=True)
        self.client = Client(path)
        self.client.ask("subscribe", telemetry=100)
        self.view = View(self.client.next())
        self.looks = {}
        self.events = []
        self.start()

    def run(self):
        try:
            while True:
                line = self.client.next()
                if line["event"] != "telemetry":
                    self.events.append(line)
                    continue
                self.view.take(line)
                self.looks[line["sample"]] = (
                    {way: row[:2] for way, row in self.view.links.items()},
                    {s: row[:3] for s, row in self.view.switches.items()},
                    dict(line["totals"]), dict(self.view.finished))
        except (EOFError, OSError):
            pass


class InBrowser(FabemuCase):
    def setUp(self):
        super().setUp()
        self.browser = browser.Browser(SHOTS)

    def demo(self, *options):
        """A running scripts/demo: its process, the page, and a subscriber to it."""
        if os.path.abspath(self.command) != os.path.abspath(os.path.join(TOP, "build/fabemu")):
            self.skipTest("scripts/demo runs build/fabemu")
        demo = subprocess.Popen([os.path.join(TOP, "scripts/demo"), "--headless", *options],
                                env=self.env, text=True, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.started.append(demo)
        text = ""
        while not page_of(text):
            line = demo.stdout.readline()
            self.assertTrue(line, text)
            text += line
        self.assertTrue(until(lambda: any(s.endswith(".sock") for s in self.sockets())))
        return demo, page_of(text)

    def tearDown(self):
        self.browser.close()  # first: it uses a core that ending processes need
        for demo in self.started:
            demo.terminate()
        super().tearDown()

    def end(self, demo):
        demo.terminate()
        out, _ = demo.communicate(timeout=PATIENCE_S)
        return out

    def ready(self, address):
        self.browser.open(address)
        self.browser.until("return window.fabemu?.model?.sample > 0 && fabemu.drawn().items.length")

    def theme(self, name):
        if self.browser.run("return fabemu.drawn().theme") != name:
            self.browser.click("#theme")
        self.browser.run(browser.PAINTED)
        self.assertEqual(self.browser.run("return document.documentElement.dataset.theme"), name)

    def recorded(self, record):
        """The complete snapshots in the recording."""
        with open(record) as f:
            lines = [json.loads(line) for line in f if line.endswith("\n")]
        return [line for line in lines if line["event"] == "telemetry"]

    def faults_are_not_offered(self, why):
        self.assertEqual(self.browser.text("#faultnot"), why)
        self.assertEqual(self.browser.run(
            "return [...document.querySelectorAll('#faults form, #faultnot')]"
            ".map((e) => e.checkVisibility())"), [False, True])

    def check_no_complaints(self):
        self.assertEqual(self.browser.complaints(), [])


class Live(InBrowser):
    def test_user_session(self):
        record = os.path.join(self.dir, "record")
        report = os.path.join(self.dir, "report")
        demo, page = self.demo("--pace", "2", "--record", record, "--report", report)
        self.ready(page.address)
        name, = [s[:-5] for s in self.sockets() if s.endswith(".sock")]  # beside its run's folder
        subscriber = Subscriber(self.socket_path(name))
        self.check_drawn_network()
        self.check_counters(subscriber)
        self.check_all_reduce_tree()
        self.check_hot_spot()
        self.check_keys()
        self.check_selection_when_folding()
        self.check_link_down_and_up(page, subscriber)
        self.check_no_complaints()
        out = self.end(demo)
        self.browser.until("return fabemu.feed.state === 'ended'")
        subscriber.join(PATIENCE_S)
        subscriber.client.close()
        self.browser.complaints()  # requests to a fabric that just ended are reported here
        self.assertIn("report", out)
        self.assertTrue(self.browser.until(RESTS))
        with open(report) as f:
            self.check_matrix(json.load(f)["communication"]["messages"])
        self.check_summary(report)
        hops = self.browser.run("return fabemu.model.totals.hops")
        self.check_replay(record)
        self.browser.click("#live")  # back to the state of the fabric, which has ended
        self.assertEqual(self.browser.run("return [fabemu.feed.state, fabemu.model.totals.hops]"),
                         ["ended", hops])
        self.faults_are_not_offered("The fabric has ended.")
        self.check_no_complaints()

    def check_summary(self, path):
        with open(path) as f:
            report = json.load(f)
        lines = self.browser.run("return [...document.querySelectorAll('#summary li')]"
                                 ".map((li) => li.textContent)")
        for text in (f"exit status {report['exit_status']} after", "64 processes attached",
                     f"{report['segments']['sent']:,} segments sent, "
                     f"forwarded {report['segments']['hops']:,} times by switches",
                     f"{report['credit_stalls']:,} stalls for lack of a credit, "
                     f"{report['dropped']:,} segment",
                     f"all-reduce: {report['collectives']['allreduce']['in_switch']:,} collectives "
                     "in the network, 0 as messages", "most time was spent in all-reduce (up to",
                     f"{report['communication']['messages']['messages']:,} messages with "):
            self.assertTrue(any(text in line for line in lines), (text, lines))
        self.browser.shot("summary")

    def check_drawn_network(self):
        drawn = self.browser.run("return fabemu.drawn()")
        kinds = [item["kind"] for item in drawn["items"]]
        self.assertEqual((kinds.count("node"), kinds.count("switch"), len(kinds)), (64, 48, 112))
        self.assertEqual(len(drawn["edges"]), 192)
        size = self.browser.run("const c = document.getElementById('canvas');"
                                "return [c.clientWidth, c.clientHeight]")
        for item in drawn["items"]:
            self.assertTrue(item["w"] / 2 <= item["x"] <= size[0] - item["w"] / 2, item)
            self.assertTrue(item["h"] / 2 <= item["y"] <= size[1] - item["h"] / 2, item)
        places = {(round(item["x"]), round(item["y"])) for item in drawn["items"]}
        self.assertEqual(len(places), 112)  # no item covers another
        self.assertEqual(self.browser.text("#what"),
                         "kary:4,3 · oq2004 with link_retry=go_back_n · clock raw")

    def check_counters(self, subscriber):
        """Paused, the page has exactly the subscriber's counters of the same sample."""
        until(lambda: len(subscriber.looks) > 10)
        self.browser.until("return fabemu.model.finished.size > 3")
        self.browser.keys(" ")
        self.browser.until("return fabemu.feed.paused")
        said = self.browser.run(
            "const m = fabemu.model; return [m.sample, "
            "[...m.directions.segments], [...m.directions.stalls],"
            "[...m.sw.contributions], m.totals.hops]")
        look, segments, stalls, contributions, hops = said
        self.browser.run(browser.PAINTED)
        listed = self.browser.run(LISTED)
        self.assertTrue(until(lambda: look in subscriber.looks))
        links, switches, totals, finished = subscriber.looks[look]
        self.check_last_collectives(listed, finished, subscriber.view.shape["wait_kinds"])
        self.assertEqual(hops, totals["hops"])
        for way, (sent, waited) in links.items():
            self.assertEqual((segments[way], stalls[way]), (sent, waited), way)
        self.assertEqual(sum(segments), sum(row[0] for row in links.values()))
        self.assertEqual({s: n for s, n in enumerate(contributions) if n},
                         {s: row[0] for s, row in switches.items() if row[0]})
        self.browser.keys(" ")
        self.browser.until("return !fabemu.feed.paused && fabemu.model.sample > arguments[0]", look)

    def check_last_collectives(self, listed, finished, kinds):
        """Each listed collective was reported with these values, and they match the program: 64
        processes in one group, 256 numbers at a time, or one."""
        expected = {}
        for (group, number), (kind, *row) in finished.items():
            text = collective_text(group, number, kinds[kind], *row)
            expected[text[0]] = (text, (group, kinds[kind]), *row)
        self.assertEqual(listed, [expected[title][0] for title, *_ in listed])
        _, whats, bytes_, members, *_ = zip(*(expected[title] for title, *_ in listed))
        self.assertEqual(len(set(whats)), 1)
        self.assertEqual(whats[0][1], "allreduce")
        self.assertLessEqual(set(bytes_), {8, 256 * 8})
        self.assertEqual(max(members), 64)  # not all members of the last one may have reported yet

    def check_all_reduce_tree(self):
        """At a moment with little other traffic: one tree, up and down, its switches combine."""
        tree = self.browser.until("""
            const { items, edges } = fabemu.drawn(), { model } = fabemu;
            const busy = edges.filter((edge) => edge.up.sum > 0 || edge.down.sum > 0);
            const combining = items.filter((item) => item.combines);
            const whole = busy.filter((e) => !e.level && e.up.sum > 0 && e.down.sum > 0);
            if (combining.length < 21 || busy.length > 100 || whole.length < 64) return null;
            return { busy, combining, finished: model.finished.size };""")
        combining = {s for item in tree["combining"] for s in item["switches"]}
        both = [e for e in tree["busy"] if e["up"]["sum"] > 0 and e["down"]["sum"] > 0]
        self.assertEqual(len([e for e in both if e["level"] == 0]), 64)  # up and down
        self.assertEqual({e["level"] for e in both}, {0, 1, 2})
        self.assertEqual(len(combining), 16 + 4 + 1)
        self.assertGreater(tree["finished"], 0)
        self.browser.until("return [...document.querySelectorAll('#collectives li')].some((li) =>"
                           " li.textContent.startsWith('all-reduce 2 KiB'))")
        self.theme("dark")
        self.browser.shot("all-reduce-dark")
        self.theme("light")
        self.browser.shot("all-reduce-light")

    def check_hot_spot(self):
        """The link to node 0 is the busiest, and links that lead there wait."""
        hot = self.browser.until("""
            const { edges } = fabemu.drawn(), { model } = fabemu;
            const cable = model.cables.findIndex((c) => !c.toSwitch && c.peer === 0);
            const way = 2 * cable + 1, rates = [...model.directions.segmentsRate];
            const stalled = edges.filter((e) => e.up.stalled > 0.1 || e.down.stalled > 0.1);
            const hot = edges.find((e) => e.cables.includes(cable)).down;
            const widest = Math.max(...edges.map((e) => Math.max(e.up.width, e.down.width)));
            if (rates[way] < Math.max(...rates) || stalled.length < 20 ||
              !model.rates.credit_stalls) return null;
            return hot.width === widest && { stalls: model.rates.credit_stalls, hot,
              up: stalled.filter((e) => e.level === 2).length };""")
        self.assertGreater(hot["stalls"], 0)
        self.assertGreater(hot["up"], 0)  # it backs up to the top
        self.theme("light")
        self.browser.shot("hot-spot-light")
        self.theme("dark")
        self.browser.shot("hot-spot-dark")

    def check_keys(self):
        self.browser.run("document.getElementById('canvas').focus()")
        self.browser.keys("ESCAPE", "ARROW_RIGHT")
        first = self.browser.until("return fabemu.selected")
        self.browser.keys("ARROW_RIGHT")
        self.assertNotEqual(self.browser.run("return fabemu.selected"), first)
        self.browser.keys("l")
        self.assertTrue(self.browser.run("return fabemu.selected").startswith("edge"))
        self.assertIn("link", self.browser.text("#announcement"))
        self.browser.keys("?")
        self.browser.until("return document.getElementById('keys').open")
        self.browser.keys("ESCAPE")
        self.browser.until("return !document.getElementById('keys').open")
        self.browser.keys("t")
        self.assertEqual(self.browser.run("return fabemu.drawn().theme"), "light")
        self.browser.keys("t", "ESCAPE")
        self.assertIsNone(self.browser.run("return fabemu.selected"))
        names = self.browser.run(
            "return [...document.querySelectorAll('button, input, select, canvas[tabindex]')]"
            ".filter((e) => !(e.labels?.length || e.textContent.trim() || e.ariaLabel))"
            ".map((e) => e.id)")
        self.assertEqual(names, [])  # each control has a name for screen readers

    def check_selection_when_folding(self):
        """Folding depends on the width: the same item stays selected, or none."""
        script = "const { selected } = fabemu, { items, edges } = fabemu.drawn();" \
            "return [selected, items.length, edges.find((e) => e.id === selected)?.cables]"
        size = self.browser.driver.get_window_size()
        self.browser.keys("ARROW_DOWN", "ARROW_UP", "ARROW_UP", "l")
        edge, items, cables = self.browser.run(script)
        self.assertTrue(cables, edge)
        self.browser.driver.set_window_size(600, 900)
        self.browser.until("return fabemu.drawn().items.length < arguments[0]", items)
        later, _, left = self.browser.run(script)
        self.assertIn((later, left), ((None, None), (edge, cables)))
        self.browser.driver.set_window_size(size["width"], size["height"])
        self.browser.until("return fabemu.drawn().items.length === arguments[0]", items)

    def check_link_down_and_up(self, page, subscriber):
        """Click a link, inject a fault there: it is drawn as down, and traffic is rerouted."""
        edge = self.browser.run(
            "return fabemu.drawn().edges.find((e) => e.level === 2 && e.x0 > 200 &&"
            " e.states.every((s) => s === 'up'))")
        cable = edge["cables"][0]
        self.browser.click_at(edge["x0"] * 0.9 + edge["x1"] * 0.1,
                              edge["y0"] * 0.9 + edge["y1"] * 0.1)
        self.assertEqual(self.browser.run("return fabemu.selected"), edge["id"])
        sw, port, _, remote, far_port, _ = subscriber.view.shape["cables"][cable]
        self.assertEqual(self.browser.text("#selection h2"),
                         f"switch {sw} port {port} – switch {remote} port {far_port}")
        self.browser.until("return document.getElementById('text').value === arguments[0]",
                           f"for=3s link-down link={sw}:{port}")
        self.browser.run("const d = document.getElementById('duration'); d.value = '';"
                         "d.dispatchEvent(new Event('change'))")
        self.assertEqual(self.browser.run("return document.getElementById('text').value"),
                         f"link-down link={sw}:{port}")
        self.browser.click("#fault button")
        self.browser.until("return fabemu.model.stateName(arguments[0]) === 'down'", cable)
        self.browser.run(browser.PAINTED)
        # the link may have moved: a longer caption takes space from the picture
        middle = self.browser.run(
            "const e = fabemu.drawn().edges.find((e) => e.id === arguments[0]);"
            "return [(e.x0 + e.x1) / 2, (e.y0 + e.y1) / 2]", edge["id"])
        down = self.browser.run(INK, *middle, 8)
        self.assertIn(ink("#ff5c8a"), down)  # the colour of links that are down, dark theme
        self.assertTrue(self.check_rerouting(cable))
        self.others_carry_it(cable, subscriber)
        self.browser.shot("link-down-dark")
        mine = f"//li[contains(., 'link={sw}:{port}')]/button"
        self.browser.driver.find_element("xpath", mine).click()
        self.browser.until("return fabemu.model.stateName(arguments[0]) === 'up'", cable)
        shown = self.browser.until("""
            const shown = [...document.querySelectorAll("#events li")].map((e) => e.textContent);
            return shown.some((text) => text.includes(" up ")) && shown;""")
        self.assertTrue(any("lost" in text for text in shown), shown)
        self.assertTrue(any("new routes" in text for text in shown), shown)
        states = [e["state"] for e in subscriber.events if e["event"] == "fault"]
        self.assertIn("over", states)

    def check_rerouting(self, cable):
        """No segments are counted on a link that is down, while other links carry them. Its state
        is reported at once; the new routes follow later, and segments that waited for the link
        are rerouted after that."""
        counted = "const m = fabemu.model, c = arguments[0], sent = m.directions.segments;" \
            "return [m.sample, sent[2 * c] + sent[2 * c + 1], m.totals.hops]"

        def rests():
            look, before, hops = self.browser.run(counted, cable)
            self.browser.until("return fabemu.model.sample > arguments[0] + 3 &&"
                               " fabemu.model.totals.hops > arguments[1]", look, hops)
            self.assertEqual(self.browser.run("return fabemu.model.stateName(arguments[0])", cable),
                             "down")
            return self.browser.run(counted, cable)[1] == before
        return until(rests)

    def others_carry_it(self, cable, subscriber):
        """While all traffic of the nodes below uses the top, the other cables up carry it, both in
        the counters and in the picture."""
        shape = subscriber.view.shape
        sw, first = shape["cables"][cable][0], max(subscriber.looks)
        up = [c for c, row in enumerate(shape["cables"]) if row[0] == sw and row[2]]
        below = [c for c, row in enumerate(shape["cables"]) if row[2] and row[3] == sw]
        self.assertEqual((len(up), len(below)), (4, 4))  # both directions; 2C + 1 leads up

        def grown(cables, from_, to):
            old, new = (subscriber.looks[look][0] for look in (from_, to))
            return [new.get(2 * c + 1, [0])[0] - old.get(2 * c + 1, [0])[0] for c in cables]

        def carried(from_, to):
            came, there = sum(grown(below, from_, to)), grown(up, from_, to)
            return came > 500 and sum(there) > 0.9 * came and not there[up.index(cable)]

        seen = []

        def is_so():
            seen.append(self.is_drawn_round(cable, up, subscriber, grown))
            looks = sorted(look for look in subscriber.looks if look > first)
            return any(seen) and any(carried(*ends) for ends in zip(looks, looks[5:]))
        self.assertTrue(until(is_so, browser.PATIENCE_S))

    def is_drawn_round(self, cable, up, subscriber, grown):
        """Directions that carried segments since the last sample are drawn so, and wider than idle
        ones, once these have faded. Returns whether there were any."""
        look, edges = self.browser.run(
            "const { model } = fabemu; return [model.sample, fabemu.drawn().edges.filter((e) =>"
            " arguments[0].includes(e.cables[0])).map((e) => [e.cables[0], e.up.sum, e.up.width,"
            " model.stateName(e.cables[0])])]", up)
        drawn = {c: row for c, *row in edges}
        self.assertEqual((len(drawn), drawn[cable][2]), (4, "down"))
        until(lambda: max(subscriber.looks) >= look)
        if drawn[cable][0] or not {look - 1, look} <= subscriber.looks.keys():
            return False
        moved = [c for c, count in zip(up, grown(up, look - 1, look)) if count]
        for c in moved:
            self.assertGreater(drawn[c][0], 0)
            self.assertGreater(drawn[c][1], drawn[cable][1])
        return bool(moved)

    def check_matrix(self, messages):
        """At the end of a run the page shows the counts of the report."""
        self.assertEqual(self.browser.run("return fabemu.report.communication.messages"), messages)
        self.browser.keys("m")
        self.browser.until("return document.getElementById('matrix').open")
        self.assertIn(f"{messages['messages']:,} messages", self.browser.text("#matrixsum"))
        for axis in "columns", "rows":
            self.assertEqual(self.browser.run(
                "return [...document.getElementById(arguments[0]).children].map((tick) =>"
                " Number(tick.textContent))", axis), list(range(0, 64, 8)))
        most = max(bytes_ for *_, bytes_ in messages["matrix"])
        first = self.browser.run("return [...document.querySelectorAll('#pairs tbody tr')]"
                                 ".map((row) => row.innerText.match(/\\d+/g).map(Number))")[0]
        self.assertIn(most, [bytes_ for from_, to, _, bytes_ in messages["matrix"]
                             if [from_, to] == first[:2]])
        self.browser.run("document.getElementById('cells').focus()")
        sent_by_pair = {(from_, to): sent for from_, to, sent, _ in messages["matrix"]}
        self.browser.keys("ARROW_DOWN", "ARROW_DOWN")  # the first is node 0 to itself
        self.assertIn("node 1 to node 0: ", self.browser.text("#cell"))
        self.assertIn(f"in {sent_by_pair.get((1, 0), 0):,} message", self.browser.text("#cell"))
        self.browser.shot("matrix-dark")
        self.browser.keys("ESCAPE")
        self.browser.until("return !document.getElementById('matrix').open")

    def check_replay(self, record):
        """The recording, at its end, shows the last snapshot of the run."""
        self.browser.find("#file").send_keys(record)
        self.browser.until("return !fabemu.feed.live && fabemu.model.sample > 0")
        seek = "const s = document.getElementById('seek'); s.value = arguments[0];" \
            "s.dispatchEvent(new Event('input')); return fabemu.model.totals.hops"
        last = self.browser.run(seek, 1000)
        self.assertEqual(last, max(line["totals"]["hops"] for line in self.recorded(record)))
        self.assertRegex(self.browser.text("#caption"), r"^The recording has ended, \S+ s after ")
        self.assertIn(f"forwarded {last:,} times by switches", self.browser.text("#summary"))
        middle = self.browser.run(seek, 500)
        self.assertLess(middle, last)
        self.assertNotIn("has ended", self.browser.text("#caption"))
        self.assertFalse(self.browser.run(
            "return document.getElementById('summary').checkVisibility()"))
        self.browser.keys("m")
        self.assertIn("A recording has no counts of messages", self.browser.text("#feed"))
        self.assertFalse(self.browser.run("return document.getElementById('matrix').open"))
        self.browser.keys(" ")
        self.browser.until("return fabemu.feed.paused")
        look = self.browser.run("return fabemu.model.sample")
        self.browser.keys(".")
        self.assertEqual(self.browser.run("return fabemu.model.sample"), look + 1)
        self.browser.keys(",", ",")
        self.assertEqual(self.browser.run("return fabemu.model.sample"), look - 1)
        self.browser.shot("replay-dark")


class ByHand(InBrowser):
    """A small fabric, used without a mouse, or inspected closely."""

    def up(self, *options):
        done = self.fabemu("up", *options, "--web", "u")
        self.ready(page_of(done.stdout).address)

    def focused(self):
        return self.browser.run("const e = document.activeElement;"
                                "return e.id || e.ariaLabel || e.textContent")

    def tab_to(self, name):
        for _ in range(12):
            if self.focused() == name:
                return
            self.browser.keys("TAB")
        self.fail(f"Tab does not lead to {name}, but to {self.focused()}")

    def test_keyboard_alone__from_load_to_a_fault_and_back(self):
        self.up("--topo", "kary:2,2", "--profile", "qsnet3")
        self.tab_to("canvas")
        self.browser.keys("ARROW_DOWN", "l", "f")
        self.assertEqual(self.focused(), "text")
        edge = self.browser.run("return fabemu.drawn().edges.find((e) => e.id === fabemu.selected)")
        place = self.browser.until("return document.getElementById('text').value.split(' ').at(-1)")
        self.check_refused_fault()
        self.browser.back("TAB")
        self.browser.keys("END", "TAB")  # duration "until cleared"; this rewrites the line
        self.browser.until("return document.getElementById('text').value === arguments[0]",
                           f"link-down {place}")
        self.browser.keys("ENTER")
        down = "return fabemu.model.stateName(arguments[0]) === arguments[1]"
        self.browser.until(down, edge["cables"][0], "down")
        self.browser.until("return document.querySelectorAll('#active li').length === 1")
        self.tab_to("clear fault 1")
        self.assertEqual(self.fabemu("fault", "--name", "u", "node-slow", "node=3",
                                     "share=50%").returncode, 0)
        self.browser.until("return document.querySelectorAll('#active li').length === 2")
        self.assertEqual(self.focused(), "clear fault 1")  # the list is not rebuilt
        self.browser.keys("ENTER")
        self.browser.until(down, edge["cables"][0], "up")
        self.browser.until("return document.querySelectorAll('#active li').length === 1")
        self.assertEqual(self.focused(), "text")  # not at the start of the page
        self.check_no_complaints()

    def test_impossible_faults_are_not_offered(self):
        """The fabric accepts the kinds that the page offers for a target, and no others."""
        self.up("--topo", "kary:2,3")  # lost segments are not retransmitted
        client = Client(self.socket_path("u"))
        self.clients.append(client)
        for key, where in (("ESCAPE", "random"), ("ENTER", "switch="), ("l", "link=")):
            self.browser.keys(key)
            self.browser.until("return document.getElementById('text').value.includes(arguments[0])"
                               " || document.getElementById('whynot').open", where)
            offered, refused = self.browser.run("""
                const options = [...document.getElementById("kind").options];
                return [false, true].map((not) => options.filter((o) => o.disabled === not)
                  .map((o) => [o.value, o.title]));""")
            self.assertIn("link-down", [name for name, _ in refused])
            self.assertIn("stuck-port", [name for name, _ in offered])
            text = self.browser.run("return document.getElementById('text').value")
            self.assertIn(text.split()[1], [name for name, _ in offered])
            place = text.split()[2]
            for name, why in refused:
                reply = client.ask("fault", fault=f"{name} {place}")
                self.assertFalse(reply["ok"], name)
            self.assertTrue(any("link_retry=go_back_n" in why for _, why in refused))
            self.assertIn("link_retry=go_back_n", self.browser.text("#whynotlist"))
        self.browser.click("#inject")
        self.browser.until("return document.getElementById('faultsaid').textContent"
                           " === 'fault 1 is injected'")
        self.check_no_complaints()

    def test_inject_is_in_view(self):
        """On a small screen, with a link selected and its counters above the form."""
        self.up("--topo", "kary:4,2", "--set", "link_retry=go_back_n")
        self.browser.size(1280, 900)
        in_view = ("const { top, bottom } = document.getElementById('inject')"
                   ".getBoundingClientRect(); return top >= 0 && bottom <= innerHeight")
        # the bottom of the section in which the counters scroll, and the top of the form
        edges = ("const at = (e) => e.getBoundingClientRect(), form = document.getElementById("
                 "'faults'); return [at(form.previousElementSibling).bottom, at(form).top]")
        names = "return document.getElementById('text').value.includes(arguments[0])"
        for where in "random", "link=":
            self.browser.until(names, where)
            self.assertTrue(self.browser.run(in_view))
            self.browser.keys("ENTER", "l")
        self.browser.size(1440, 600)
        self.browser.until("return innerWidth === 1440")
        counters, form = self.browser.run(edges)
        self.assertLessEqual(counters, form)
        self.check_no_complaints()

    def test_the_header_keeps_its_height(self):
        """So that the picture does not move under the pointer while the numbers change."""
        self.up("--topo", "kary:4,2", "--set", "link_retry=go_back_n")
        for width in range(1100, 1601, 20):
            self.browser.size(width, 900)
            self.browser.until("return innerWidth === arguments[0]", width)
            heights = self.browser.run("""
                return ["0", "1.07 k", "99.9 M"].map((rate) => {
                  for (const id of ["hops", "stalls", "combined"])
                    document.getElementById(id).textContent = rate;
                  return document.querySelector("header").clientHeight;
                });""")
            self.assertEqual(len(set(heights)), 1, (width, heights))

    def test_events_are_in_view(self):
        """Five lines of events are visible below the counters of a link."""
        self.up("--topo", "kary:4,2", "--set", "link_retry=go_back_n")
        self.browser.size(1280, 720)
        self.browser.keys("ENTER", "l")
        for _ in range(2):
            self.assertEqual(self.fabemu("fault", "--name", "u", "for=1ms", "link-down",
                                         "random").returncode, 0)
        self.browser.until("return document.querySelectorAll('#events li').length >= 5")
        seen, lines = self.browser.run("""
            const at = (e) => e.getBoundingClientRect(), events = document.getElementById("events");
            const bottom = Math.min(at(document.getElementById("log")).bottom,
              at(document.getElementById("faults")).top);
            return [bottom - at(events).top,
              5 * parseFloat(getComputedStyle(events).lineHeight)];""")
        self.assertGreaterEqual(seen, lines)
        self.check_no_complaints()

    def test_message_about_a_fault__changes_when_it_ends(self):
        self.up("--topo", "kary:2,2", "--profile", "qsnet3")
        self.browser.until("return document.getElementById('text').value")
        self.browser.run("const d = document.getElementById('duration'); d.value = '';"
                         "d.dispatchEvent(new Event('change'))")
        says = "return document.getElementById('faultsaid').textContent === arguments[0]"
        self.browser.until("return !document.getElementById('text').value.includes('for=') &&"
                           " !document.getElementById('inject').disabled")
        self.browser.click("#inject")
        self.browser.until(says, "fault 1 is injected")
        self.assertEqual(self.fabemu("fault", "--name", "u", "--clear", "1").returncode, 0)
        self.browser.until(says, "fault 1 has ended")
        self.check_no_complaints()

    def test_links_of_the_demos_can_fail(self):
        """As in README: click a link between switches, Inject. For a link of a node the page shows
        why it cannot fail."""
        with open(os.path.join(TOP, "README.md")) as f:
            line, = [line for line in f if "--web" in line and "apps/demo" in line]
        options = line.split(" -- ")[0].split()[2:]
        options.remove("--web")
        for given in (options, ["--topo", "kary:4,3", "--set", "link_retry=go_back_n"]):
            self.up(*given)
            for level in 0, 1:
                edge = self.browser.run("return fabemu.drawn().edges.find((e) => e.level ==="
                                        " arguments[0])", level)
                self.browser.click_at(edge["x0"] * 0.8 + edge["x1"] * 0.2,
                                      edge["y0"] * 0.8 + edge["y1"] * 0.2)
                self.browser.until("return fabemu.selected && (document.getElementById('whynot')"
                                   ".open || document.getElementById('text').value"
                                   ".startsWith('for=3s link-down link='))")
                if level == 0:
                    self.assertIn("without acknowledgments", self.browser.text("#whynotlist"))
                    continue
                self.browser.click("#inject")
                self.browser.until("return document.getElementById('faultsaid').textContent")
                self.assertEqual(self.browser.text("#faultsaid"), "fault 1 is injected")
            self.assertEqual(self.fabemu("down", "u").returncode, 0)
            self.browser.until("return fabemu.feed.state === 'ended'")
        self.browser.complaints()

    def check_refused_fault(self):
        wrong = "link-down link=99:0"
        self.browser.run("document.getElementById('text').select()")
        self.browser.keys(*wrong, "ENTER")
        self.browser.until("return document.getElementById('faultsaid').className === 'wrong'")
        done = self.fabemu("fault", "--name", "u", *wrong.split())
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(self.browser.text("#faultsaid"), done.stderr)
        self.assertIn("99", self.browser.text("#faultsaid"))

    def test_networks_of_every_kind__are_drawn_whole(self):
        """Each switch, node and cable of the shape is in the picture, once."""
        written = os.path.join(self.dir, "machine.topo")
        self.assertEqual(self.fabemu("topo", "clos:down=4x3,up=2", "--write", written).returncode,
                         0)
        for number, options in enumerate((("--topo", "qsnet:64,links=2,apart=router"),
                                          ("--topo", "qsnet:32,rails=2"),
                                          ("--topo", "clos:radix=8,levels=2"),
                                          ("--topo", written))):
            with self.subTest(options=options):
                done = self.fabemu("up", *options, "--web", "u")
                self.ready(page_of(done.stdout).address)
                client = Client(self.socket_path("u"))
                client.ask("subscribe", telemetry=100)
                shape = client.next()
                client.close()
                drawn = self.browser.until(
                    "return fabemu.model.sample > 0 && fabemu.drawn().items.length"
                    " && fabemu.drawn()")
                for what, count in (("switches", len(shape["switches"])),
                                    ("nodes", shape["nodes"])):
                    there = sorted(i for item in drawn["items"] for i in item[what])
                    self.assertEqual(there, list(range(count)), what)
                self.assertEqual(sorted(c for edge in drawn["edges"] for c in edge["cables"]),
                                 list(range(len(shape["cables"]))))
                self.browser.shot(f"network-{number}")
                self.assertEqual(self.fabemu("down", "u").returncode, 0)

    def test_legible_on_a_projector_and_on_a_phone(self):
        """Each text has 14 pixels or more at a width of 1920. On a phone nothing lies outside the
        screen or over the canvas."""
        self.up("--topo", "kary:4,3")
        self.browser.size(1920, 1080)
        self.browser.until("return innerWidth === 1920")
        self.browser.run(browser.PAINTED)
        sizes = self.browser.run(SIZES)
        self.assertGreater(len(sizes), 100)
        self.assertEqual([(text, size) for text, size in sizes if size < 14], [])
        self.browser.shot("projector")
        self.browser.size(390, 844)
        self.browser.until("return fabemu.drawn().items.length < 60")
        wide, over = self.browser.run("""
            const at = (id) => document.getElementById(id).getBoundingClientRect();
            return [document.documentElement.scrollWidth,
              ["caption", "legend"].filter((id) => at(id).bottom > at("canvas").top &&
                at(id).top < at("canvas").bottom)];""")
        self.assertEqual((wide, over), (390, []))
        self.browser.shot("phone")

    def test_light_and_dark__follow_the_system_until_chosen(self):
        self.browser.prefers("light")
        self.up("--topo", "kary:2,2")
        for name in ("light", "dark"):
            self.browser.prefers(name)
            self.browser.until("return fabemu.drawn().theme === arguments[0]", name)
            self.check_contrast(name)
        self.browser.keys("t")
        self.assertEqual(self.browser.run("return fabemu.drawn().theme"), "light")
        self.browser.driver.refresh()
        self.browser.until("return window.fabemu?.model?.sample > 0")
        self.assertEqual(self.browser.run("return fabemu.drawn().theme"), "light")  # kept

    def check_contrast(self, name):
        """The contrast of each text colour to its background, as defined by WCAG 2."""
        poor = self.browser.run(CONTRAST)
        self.assertGreater(poor.pop("words"), 6)
        self.assertEqual(poor, {}, name)


    def test_many_links_are_bundled(self):
        """Only as many lines are drawn as can be distinguished; a click shows all of them."""
        for topo, bundles in (("qsnet:1024", 1), ("kary:16,2", 1), ("kary:4,3", 0)):
            self.up("--topo", topo)
            kinds = self.browser.run("return fabemu.drawn().items.map(({ kind }) => kind)")
            self.assertEqual(kinds.count("bundle"), bundles, topo)
            self.assertLess(self.browser.run("return fabemu.drawn().edges.length"), 200)
            if topo == "kary:16,2":  # a range of nodes that is too long for one line takes two
                texts = {text for text, _ in self.browser.run(SIZES)}
                self.assertTrue("240–255" in texts or {"240–", "255"} <= texts, texts)
            self.assertEqual(self.fabemu("down", "u").returncode, 0)
            self.browser.until("return fabemu.feed.state === 'ended'")
        self.browser.complaints()


class Played(InBrowser):
    """A fabric played by the test: two switches below a third, on two hosts."""

    def setUp(self):
        super().setUp()
        self.fabric = FakeFabric(self.socket_path("u"))
        self.fabric.replies["faults"] = {"ok": True, "faults": []}
        self.fabric.replies["fault_kinds"] = NO_KINDS
        self.browser.open(page_of(self.start("web", "u").stdout.readline()).address)
        self.stream = self.fabric.next()
        self.fabric.say(self.stream, {"ok": True}, SHAPE)

    def tearDown(self):
        self.fabric.end()
        super().tearDown()

    def plays(self, look, **rows):
        self.fabric.say(self.stream, {"event": "telemetry", "sample": look, "since": look - 1,
                                      "at_ns": look * 10**8, "totals": {"hops": 0}, **rows})
        self.browser.until("return fabemu.model?.sample === arguments[0]", look)

    def selects(self, id_):
        part = self.browser.run(
            "const { items, edges } = fabemu.drawn();"
            "return [...items, ...edges].find((part) => part.id === arguments[0])", id_)
        self.browser.click_at(part.get("x", (part.get("x0", 0) + part.get("x1", 0)) / 2),
                              part.get("y", (part.get("y0", 0) + part.get("y1", 0)) / 2))
        self.assertEqual(self.browser.run("return fabemu.selected"), id_)

    def test_links_hosts_and_standstill(self):
        self.check_hosts()
        self.check_link_history()
        self.check_no_complaints()  # the browser complains about repeated pixel reads
        self.check_standstill()

    def check_link_history(self):
        """The segments and waits of its two directions together are drawn over time."""
        for look, (up, down, stalls) in enumerate(((0, 0, 0), (100, 0, 0), (200, 300, 50),
                                                   (200, 300, 50)), 3):
            self.plays(look, links=[[4, down, 0, 2, 0], [5, up, stalls, 7, 0]],
                       states=[[2, 0, 1]])  # it is up again
        self.selects("edge switch 0|switch 2")
        self.assertIn("went out of use 1 time so far", self.browser.text("#selection"))
        self.assertEqual(self.drawn_history(), [[0, 0, 0, 1000, 4000, 0], [0, 0, 0, 0, 500, 0]])
        rows = self.browser.until(  # rates: the mean of all snapshots so far
            "const rows = [...document.querySelectorAll('#selection tbody tr')]"
            ".map((row) => row.innerText.split(/\\s*\\t/));"
            "return rows.some(([name, , rate]) => name === 'segments (upwards)' && rate === '400')"
            " && rows")
        self.assertIn(["segments (upwards)", "200", "400"], rows)
        self.assertIn(["stalls for lack of a credit (upwards)", "50", "100"], rows)
        self.assertIn(["segments queued (downwards)", "2", ""], rows)

    def drawn_history(self):
        """The lines of the chart, as numbers on its own scale."""
        self.browser.run(browser.PAINTED)
        lines, top = self.browser.run(
            "const chart = document.querySelector('#selection .chart');"
            "return [[...chart.querySelectorAll('.line')].map((line) => [...line.points].map("
            "({ y }) => y)), chart.querySelector('.tick').textContent]")
        most, foot = min(map(min, lines)), max(map(max, lines))
        scale = float(top.split()[0]) * {"k": 1000, "per": 1}[top.split()[1]] / (foot - most)
        return [[round((foot - y) * scale, -1) for y in line] for line in lines]

    def test_tooltip_and_escape(self):
        from selenium.webdriver.common.action_chains import ActionChains
        self.plays(1)
        self.plays(2, links=[[4, 100, 0, 0, 0]], processes=[
            {"node": 1, "pid": 7, "rank": 3, "command": "solver"}])
        canvas = self.browser.find("#canvas")
        for id_, texts in (("node 1", ("node 1 (rank 3)", "solver, pid 7")),
                           ("edge switch 0|switch 2",
                            ("link=0:1", "segments (downwards): 1.00 k/s"))):
            at = self.browser.run("const { items, edges } = fabemu.drawn(); return [...items,"
                                  " ...edges].find((part) => part.id === arguments[0])", id_)
            x = at.get("x", (at.get("x0", 0) + at.get("x1", 0)) / 2)
            y = at.get("y", (at.get("y0", 0) + at.get("y1", 0)) / 2)
            ActionChains(self.browser.driver).move_to_element_with_offset(
                canvas, x - canvas.size["width"] / 2, y - canvas.size["height"] / 2).perform()
            self.browser.until("return !document.getElementById('tip').hidden")
            for text in texts:
                self.assertIn(text, self.browser.text("#tip"))
        self.browser.run("document.getElementById('canvas').focus()")
        self.browser.keys("f")
        self.assertEqual(self.browser.run("return document.activeElement.id"), "text")
        self.browser.keys("ESCAPE", "?")
        self.browser.until("return document.getElementById('keys').open")

    def test_all_texts_show_rates_of_the_same_snapshots(self):
        """The header, the sentence and the margin, also if the traffic has just changed."""
        for look, sent in enumerate((0, 100, 300, 1000), 1):
            self.plays(look, links=[[0, sent, sent // 1000, 0, 0], [1, 0, 0, 0, 0]],
                       totals={"hops": sent, "sent": sent, "credit_stalls": sent // 1000})
        caption, *shown = self.browser.until(
            "const [text, ...others] = ['#caption', '#hops', '#stalls', '.counters tbody td + td']"
            ".map((place) => document.querySelector(place).textContent);"
            "return text.startsWith('1 node sends 3.33 k segments/s') && [text, ...others]")
        self.assertEqual(shown, ["3.33 k", "3.3", "3.33 k"])
        self.assertTrue(caption.endswith("few segments wait for a credit."), caption)
        self.assertIn("mean of the last 10 snapshots (1.00 s)", self.browser.text("#selection"))

    def test_a_combining_switch_has_its_number(self):
        self.plays(1)
        self.plays(2, links=[[0, 100, 0, 0, 0]], switches=[[2, 100, 0, 0, 0]])
        self.assertLessEqual({"Σ", "2"}, set(self.browser.run(CANVAS_TEXTS)))

    def test_captions(self):
        """One sentence about what happens and why, from the counters of the last second."""
        nodes = 8
        shape = {**SHAPE, "nodes": nodes, "levels": 1, "switches": [[0, 0, 0, nodes - 1]],
                 "cables": [[0, n, 0, n, 0, 0] for n in range(nodes)], "hosts": None,
                 "wait_kinds": ["nothing", "send", "receive", "barrier", "allreduce"]}
        timed = {**shape, "clock": "real"}  # 3.9 M segments/s

        def looks(**last):
            for look, rows in ((1, {}), (2, last)):
                yield {"event": "telemetry", "sample": look, "at_ns": look * 10**8, "totals": {},
                       **rows}

        def ways(up, down, stalls=0):
            """A line with segments that nodes have sent and received, and stalls of the senders."""
            return {"links": [[2 * n, up[n], stalls * (n > 0), 0, 0] for n in range(nodes)] +
                    [[2 * n + 1, down[n], 0, 0, 0] for n in range(nodes)],
                    "totals": {"sent": sum(up)}}

        hot = ways([0] + 7 * [10000], [70000] + 7 * [0], 5000)
        still = {"event": "standstill", "standstill": {"for_ns": 6 * 10**9}}
        ranks = [{"node": n, "pid": 1, "rank": (n + 1) % nodes, "command": "p"}
                 for n in range(nodes)]
        jobs = [{**process, "rank": process["node"] % 4} for process in ranks]  # two jobs

        def waits(*pairs, **more):
            return {**still, "attached": [{"node": node, "receive": {
                "kind": "receive", "state": "unmatched", "node": other, "for_ns": 6 * 10**9}}
                for node, other in pairs], **more}

        barrier = {"group": 1, "number": 2, "kind": "barrier", "members": 8,
                   "arrived": [0, 1, 2, 4, 5, 6, 7], "missing": [{"node": 3}]}
        for given, lines, wanted in (
                (shape, looks(), "The fabric is idle: no process is attached to it."),
                (shape, looks(**hot), "Node 0 is the hot spot: 7 nodes send more than it takes (it "
                 "receives 700 k segments/s), so segments wait for credits at the nodes."),
                ({**shape, "queue": "packets"}, looks(**hot), "Node 0 is the hot spot: 7 nodes "
                 "send more than it takes (it receives 700 k segments and replies/s), so segments "
                 "wait for credits at the nodes."),
                (shape, looks(**ways([0] + 2 * [10000] + 5 * [0], [20000] + 7 * [0], 5000),
                              nodes=[[n, 0, 0, 9] for n in range(3, nodes)]),  # blocked
                 "Node 0 is the hot spot: 7 nodes send more than it takes (it receives 200 k "
                 "segments/s), so segments wait for credits at the nodes."),
                ({**shape, "generators": 1},  # sources that have not got a credit for long
                 looks(**ways([0] + 2 * [10000] + 5 * [0], [20000] + 7 * [0], 5000),
                       nodes=[[n, 1, 0, 0] for n in range(1, nodes)]),
                 "Node 0 is the hot spot: 7 nodes send more than it takes (it receives 200 k "
                 "segments/s), so segments wait for credits at the nodes."),
                (shape, looks(**ways([0] + 7 * [10000], [70000] + 7 * [0])), "7 nodes send 700 k "
                 "segments/s, most of them to node 0: the busiest link carries 700 k segments/s, "
                 "and no segment waits for a credit."),
                (shape, looks(**ways([800] + 7 * [0], [0, 800] + 6 * [0])), "1 node sends 8.00 k "
                 "segments/s, most of them to node 1: the busiest link carries 8.00 k segments/s, "
                 "and no segment waits for a credit."),
                (timed, looks(**ways(8 * [200000], 8 * [200000])), "8 nodes send 16.0 M segments/s:"
                 " the busiest link carries 51 % of its capacity, and no segment waits for a "
                 "credit."),
                (shape, looks(**{**hot, "states": [[3, 3, 1]]}), "Node 0 is the hot spot: 7 nodes "
                 "send more than it takes (it receives 700 k segments/s), so segments wait for "
                 "credits at the nodes; 1 link is out of use."),
                (shape, looks(**ways(8 * [800], 8 * [800]), switches=[[0, 6400, 8, 8, 0]],
                              finished=[[1, 1, 4, 8, 8, 10**8, 10**8 + 667000],
                                        [1, 2, 4, 8, 1, 2 * 10**8, 2 * 10**8 + 667000]]),
                 "8 processes run collectives, and 1 switch combines their contributions: the "
                 "latest collective, an all-reduce of 8 B, took 667 µs."),
                (shape, looks(**ways(8 * [800], 8 * [800]), switches=[[0, 6400, 8, 8, 0]],
                              finished=[[1, 1, 3, 0, 8, 10**8, 10**8 + 667000]]),
                 "8 processes run collectives, and 1 switch combines their contributions: the "
                 "latest collective, a barrier, took 667 µs."),
                # the second is after the last collective
                *((shape, looks(processes=ranks, waits=[[2, 2, 1, -1, 8, 0]], **more), "No segment "
                   "is under way: 8 processes are attached, and 1 of them waits, for example rank "
                   "3 in a receive with rank 2.")
                  for more in ({}, {"finished": [[1, 1, 4, 8, 8, 10**8, 10**8 + 667000]]})),
                (shape, [*looks(processes=ranks), waits((1, 0), (0, 2), (2, 1), (3, 1))],
                 "Nothing has moved for 6.00 s: ranks 2, 1 and 3 wait for each other in a cycle, "
                 "each in a receive."),
                (shape, [*looks(processes=jobs), waits((1, 0), (0, 2), (2, 1))],
                 "Nothing has moved for 6.00 s: nodes 1 (rank 1), 0 (rank 0) and 2 (rank 2) wait "
                 "for each other in a cycle, each in a receive."),
                (shape, [*looks(), waits((1, 0), (2, 0))], "Nothing has moved for 6.00 s: 2 "
                 "processes wait in a receive for node 0, which does not wait for the network."),
                (shape, [*looks(), waits((1, 1))],
                 "Nothing has moved for 6.00 s: node 1 waits for itself in a receive."),
                (shape, [*looks(), waits(standstill={"for_ns": 6 * 10**9,
                                                     "collectives": [barrier]})],
                 "Nothing has moved for 6.00 s: 7 processes wait in a barrier of group 1 for node "
                 "3, which does not wait for the network."),
                (shape, [*looks(), waits(standstill={"for_ns": 6 * 10**9, "collectives": [
                    {**barrier, "name": "MPI_COMM_WORLD", "missing": [], "differ": [
                        {"node": 3, "kind": "all-reduce", "bytes": 16}]}]})],
                 "Nothing has moved for 6.00 s: the members of MPI_COMM_WORLD call different "
                 "collectives: node 3 calls an all-reduce of 16 B, the others call a barrier."),
                (shape, [*looks(), waits(standstill={"for_ns": 6 * 10**9, "collectives": [
                    {**barrier, "arrived": [n], "missing": [], "name": f"of {n}"}
                    for n in range(2)]})],
                 "Nothing has moved for 6.00 s: 2 processes wait."),
                (shape, [*looks(processes=ranks), {**still, "attached": [
                    {"node": 4, "stopped": True}]}],
                 "Nothing has moved for 6.00 s: the process at rank 5 is stopped.")):
            self.assertEqual(self.browser.run(CAPTION, given, list(lines)), wanted)
        self.check_no_complaints()

    def check_hosts(self):
        self.plays(1)
        self.assertIn("on 2 hosts", self.browser.text("#selection"))
        for switch, host in ((0, "a"), (1, "b")):
            self.selects(f"switch {switch}")
            self.assertIn(f"on host {host}", self.browser.text("#selection"))
        self.plays(2, states=[[3, 3, 1]])  # the state of a cable to a lost host
        self.selects("edge switch 1|switch 2")
        self.assertIn("state: down", self.browser.text("#selection"))
        self.assertEqual(self.browser.text("#out"), "1")

    def test_invalid_lines_are_skipped(self):
        """Later lines are shown, and the page reports the invalid ones."""
        self.plays(1)
        self.fabric.say(self.stream, *WRONG)
        self.plays(2, links=[[4, 9, 0, 0, 0]])
        said = self.browser.run("return [fabemu.feed.leftOut, fabemu.model.events.length,"
                                " document.getElementById('feed').textContent]")
        self.assertEqual(said, [len(WRONG), 0, f"skipped {len(WRONG)} invalid lines"])
        snapshot = {"event": "telemetry", "sample": 3, "at_ns": 3 * 10**8}
        self.fabric.say(self.stream, {"event": "telemetry_shape"}, snapshot)
        self.browser.until("return fabemu.feed.leftOut === arguments[0]", len(WRONG) + 2)
        self.assertEqual(self.browser.run("return fabemu.model.sample"), 2)
        draw = random.Random(seed())
        for look in range(100, 100 + int(os.environ.get("FABEMU_MUTANTS", "12"))):
            lines = [mutate(draw, line) for line in LINES]
            self.fabric.say(self.stream, *lines, mutate(draw, SHAPE), *lines, SHAPE)
            self.plays(look)
        self.browser.until("return document.getElementById('feed').textContent === 'live'")
        self.check_no_complaints()

    def test_loads_are_drawn_by_their_counters(self):
        """Colour, width and dashes of each direction, also of two cables drawn as one: on the
        scale of clock raw, and on that of a link's capacity."""
        rand = random.Random(seed())
        self.plays(1)
        self.browser.run(STROKES)
        for theme, clock, most in (("dark", "raw", 9000), ("light", "real", 500000)):
            shape = {**SHAPE, "clock": clock, "cables": [*SHAPE["cables"], [0, 2, 1, 2, 2, 1]]}
            self.fabric.say(self.stream, shape)
            loads, ways = Loads(shape), [[0, 0] for _ in range(10)]
            for look in range(1, 12):
                some = rand.sample(range(10), 7) if look < 5 else [3]  # the others fade
                rows = []
                for way in some:
                    ways[way][0] += rand.choice((0, 1, rand.randrange(most)))
                    ways[way][1] += rand.choice((0, 0, rand.randrange(most // 10)))
                    rows.append([way, *ways[way], 0, 0])
                loads.take(look / 10, rows)
                self.plays(look, links=rows)
                self.theme(theme)
                self.check_lines(loads, theme, shape)
        self.browser.shot("loads-light")
        self.check_no_complaints()

    def check_lines(self, loads, theme, shape):
        self.browser.run(browser.PAINTED)
        edges, strokes = self.browser.run("return [fabemu.drawn().edges, strokes]")
        self.assertEqual(sorted(c for edge in edges for c in edge["cables"]), list(range(5)))
        for edge in edges:
            ends = [(edge["x0"], edge["y0"]), (edge["x1"], edge["y1"])]
            dx, dy = ends[1][0] - ends[0][0], ends[1][1] - ends[0][1]
            there = {True: [], False: []}  # upward directions are on the right
            for stroke in strokes:
                if all(math.dist(a, b) < 3 for a, b in zip(stroke["ends"], ends)):
                    x, y = (stroke["ends"][0][i] - ends[0][i] for i in (0, 1))
                    there[x * dy - y * dx > 0].append(
                        (stroke["colour"], stroke["width"], stroke["alpha"], stroke["dash"]))
            for up, lines in there.items():
                ways = [2 * c + (shape["cables"][c][2] == up) for c in edge["cables"]]
                wanted = loads.lines(theme, ways)
                self.assertEqual([line[::3] for line in lines], [line[::3] for line in wanted],
                                 edge["id"])
                for line, right in zip(lines, wanted):
                    self.assertAlmostEqual(line[1], right[1], 4, edge["id"])
                    self.assertAlmostEqual(line[2], right[2], 4, edge["id"])

    def test_rates_are_shown_from_the_second_snapshot_on(self):
        shown = ("return [...['hops', 'stalls', 'combined'].map((id) =>"
                 " document.getElementById(id)), document.querySelector('.counters tbody td + td')]"
                 ".map((e) => e.textContent)")
        self.fabric.say(self.stream, {**SHAPE, "origin": {"settings": {"link_retry": "go_back_n"}}})
        self.plays(1, totals={"hops": 1000})
        self.browser.run(browser.PAINTED)
        self.assertEqual(self.browser.run(shown), ["–", "–", "–", ""])
        self.plays(2, totals={"hops": 1050})
        self.browser.run(browser.PAINTED)
        self.assertEqual(self.browser.run(shown)[:3], ["500", "0", "0"])
        self.assertNotEqual(self.browser.run(shown)[3], "")
        self.assertIn(" with link_retry=go_back_n · clock", self.browser.text("#what"))

    def test_summary__reports_effects_of_faults(self):
        """For faults that break links, the rerouted traffic; for others, their hits."""
        report = {"faults": [{"hits": 0, "hits_are": "packets hit in transit"},
                             {"hits": 3, "hits_are": "packets hit"},
                             {"hits": 4, "hits_are": "packets hit"}],
                  "links": {"new_tables": 2, "partitioned": 0}, "standstill_ns": 7 * 10**9,
                  "processes": {"attached": 64, "died": 0},
                  "collectives": {"allreduce": {"in_switch": 2420, "elsewhere": 3}},
                  "communication": {"collectives": [{"kind": "allreduce", "calls": 36896,
                                                     "time_ns": {"sum": 1, "mean": 2000}}]}}
        self.plays(1)
        text = self.browser.run("""
            const [report] = arguments;
            return import("./summary.js").then(({ renderSummary }) => {
              const place = document.createElement("div");
              renderSummary(place, fabemu.model, true, report);
              return place.textContent;
            });""", report)
        self.assertIn("3 faults injected; packets hit in transit: 0; packets hit: 7; routes were "
                      "changed 2 times", text)
        self.assertIn("all-reduce: 2,420 collectives in the network, 3 as messages", text)
        self.assertIn("36,896 calls of processes took 2.00 µs on average", text)
        self.assertIn("nothing moved for 7.00 s", text)
        self.assertIn("64 processes attached", text)
        self.assertNotIn("died", text)

    def test_the_last_collectives_are_listed_newest_first(self):
        rows = [[7, 1, 6, 0, 4, 10**7, 10**7 + 999], [7, 2, 9, 8, 4, 10**7, 2 * 10**7],
                [9, 1, 7, 1536, 2, 3 * 10**7, 10**7 + 4 * 10**9],
                [7, 3, 8, 3 << 20, 3, 10**7, 10**7 + 123456]]
        shape = {**SHAPE, "wait_kinds": ["nothing", "send", "receive", "put", "get", "atomic",
                                         "barrier", "broadcast", "reduce", "allreduce"]}
        self.fabric.say(self.stream, shape)
        self.plays(1, finished=rows[:3])
        rows[1][4:] = 5, 10**7, 3 * 10**7  # one more member reports it: it is the newest again
        self.plays(2, finished=[rows[3], rows[1]])
        self.browser.run(browser.PAINTED)
        wanted = [collective_text(group, number, shape["wait_kinds"][kind], *row)
                  for group, number, kind, *row in (rows[1], rows[3], rows[2], rows[0])]
        self.assertEqual(self.browser.run(LISTED), wanted)
        self.assertEqual([row[1:] for row in wanted[1:]], [
            ["reduce 3 MiB", "123 µs · done by 3 members"],
            ["broadcast 1.5 KiB", "3.98 s · done by 2 members"],
            ["barrier", "999 ns · done by 4 members"]])
        self.plays(3, finished=[[7, 10 + i, 6, 0, 4, i, i + 1] for i in range(20)])
        self.browser.run(browser.PAINTED)
        self.assertEqual([title.split()[1] for title, *_ in self.browser.run(LISTED)],
                         [str(29 - i) for i in range(14)])
        self.check_no_complaints()

    def check_standstill(self):
        process = {"pid": 1, "rank": -1, "command": "p"}
        self.plays(7, processes=[{"node": n, **process} for n in range(2)],
                   waits=[[0, 1, 1, -1, 8, 0]])
        still = {"event": "standstill", "attached": [{"node": 0, "receive": {
            "kind": "receive", "state": "unmatched", "node": 1, "for_ns": 6 * 10**9}}],
                 "standstill": {
            "for_ns": 6 * 10**9, "collectives": [
                {"group": 1, "number": 2, "kind": "barrier", "members": 2, "arrived": [0],
                 "missing": [{"node": 1, "begun": 1}]}]}}
        self.plays(60)
        self.assertEqual(self.marks(), (False, False))
        self.fabric.say(self.stream, still)
        self.browser.until("return !document.getElementById('standstill').hidden")
        self.assertEqual(self.marks(), (True, True))
        self.assertIn("missing in a collective", self.browser.find("#legend").text)
        self.assertIn("it waits for node 1", self.browser.text("#alarm"))
        self.assertIn("Nothing has moved for 6.00 s", self.browser.text("#caption"))
        self.fabric.say(self.stream, {"event": "standstill"})
        self.browser.until("return document.getElementById('standstill').hidden")
        self.assertEqual(self.marks(), (False, False))
        self.assertNotIn("missing in a collective", self.browser.find("#legend").text)
        self.assertEqual(self.browser.text("#alarm"), "")

    def test_names_of_the_file__are_in_all_texts(self):
        """A network from a file: matrix, folded parts, links; the arrow begins below the names."""
        nodes = [f"node{n + 1:02}" for n in range(SHAPE["nodes"])]
        self.fabric.replies["report"] = {"ok": True, "report": {
            "nodes": len(nodes), "communication": {"messages": {
                "messages": 3, "bytes": 24, "pairs": 1, "matrix": [[0, 1, 3, 24]]}}}}
        self.fabric.say(self.stream, SHAPE | {"names": ["leaf1", "leaf2", "spine", *nodes]})
        self.plays(1)
        self.browser.keys("m")
        self.browser.until("return document.getElementById('pairs').innerText.includes('node01')")
        self.assertIn("node02", self.browser.text("#pairs"))
        self.browser.keys("ESCAPE")
        self.assertEqual(self.browser.run(
            "return fabemu.model.spanText(fabemu.model.nodeNames, [0, 1])"), " (node01 – node02)")
        self.plays(2, processes=[{"node": n, "pid": 1, "rank": -1, "command": "p"}
                                 for n in range(2)])
        op = {"kind": "receive", "state": "unmatched", "node": 1, "for_ns": 6 * 10**9}
        self.fabric.say(self.stream, {"event": "standstill", "attached": [
            {"node": 0, "receive": op}], "standstill": {
                "for_ns": 6 * 10**9, "collectives": [], "links": [
                    {"node": 0, "switch": 0, "port": 5, "waits_for": "credit", "for_ns": 10**9}]}})
        self.browser.until("return !document.getElementById('standstill').hidden")
        self.assertIn("leaf1 port 5 has sent nothing", self.browser.text("#standstill"))
        self.browser.run(browser.PAINTED)
        self.browser.shot("standstill-names")
        to = next(item for item in self.browser.run("return fabemu.drawn().items")
                  if item["id"] == "node 1")
        text = self.browser.run("return parseFloat(getComputedStyle(document.body).fontSize)")
        wait = {"dark": "#f2b134", "light": "#a86400"}[
            self.browser.run("return fabemu.drawn().theme")]
        below = to["y"] + to["h"] / 2 + 24 * text / 14 + 0.5 * text  # the lower edge of the name
        self.assertIn(ink(wait), self.browser.run(INK, to["x"], below + 5, 2))
        self.assertNotIn(ink(wait), self.browser.run(INK, to["x"], below - 6, 3))
        self.assertIn("Nothing moves", self.browser.text("#alarm"))
        self.fabric.hang_up(self.stream)
        self.browser.until("return document.getElementById('alarm').textContent === ''")

    def marks(self):
        """Does node 1, for which all wait, have a ring, and an arrow from node 0?"""
        self.browser.run(browser.PAINTED)
        at = {item["id"]: item for item in self.browser.run("return fabemu.drawn().items")}
        from_, to = at["node 0"], at["node 1"]
        theme = self.browser.run("return fabemu.drawn().theme")
        wait, down = {"dark": ("#f2b134", "#ff5c8a"), "light": ("#a86400", "#c2255c")}[theme]
        ring = self.browser.run(INK, to["x"], to["y"] - to["h"] / 2 - 3, 2)
        text = self.browser.run("return parseFloat(getComputedStyle(document.body).fontSize)")
        arrow = self.browser.run(INK, to["x"], to["y"] + to["h"] / 2 + 12 + 0.85 * text, 2)
        self.assertLess(from_["x"], to["x"])
        return ink(down) in ring, ink(wait) in arrow


# For each sample: the page's counts of each cable, in both directions.
KEEP_SUMS = """
const { model } = fabemu, take = model.takeSnapshot.bind(model);
window.sums = {};
model.takeSnapshot = (line) => {
  take(line);
  sums[model.sample] = Array.from(model.cables, (_, c) =>
    model.directions.segments[2 * c] + model.directions.segments[2 * c + 1]);
};
return model.shape;
"""


class Large(InBrowser):
    """65 536 nodes: the page requests an aggregated network."""
    TOPO, NODES, BLOCK = "kary:16,4", 65536, 256
    LINE_MOST = 64 << 10  # bytes of a snapshot in which every row has changed; not aggregated: 9 MB

    def folded_sums(self, shape, folded, segments):
        """For each aggregated cable: the segments of all cables in it."""
        group = {(level, low, high): g for g, (level, _, low, high)
                 in enumerate(folded["switches"])}
        of_switch = [group[level, low // self.BLOCK, high // self.BLOCK]
                     for level, _, low, high in shape["switches"]]
        trunk = {(sw, kind, remote): i for i, (sw, _, kind, remote, *_)
                 in enumerate(folded["cables"])}
        sums, count = [0] * len(trunk), [0] * len(trunk)
        for i, (sw, _, kind, remote, _, _) in enumerate(shape["cables"]):
            near, other = of_switch[sw], of_switch[remote] if kind else remote // self.BLOCK
            at = trunk.get((near, kind, other), trunk.get((other, kind, near)))
            sums[at] += segments[2 * i] + segments[2 * i + 1]
            count[at] += 1
        self.assertEqual(count, [row[6] for row in folded["cables"]])
        return sums

    def test_folded_network_is_drawn_as_counted(self):
        run = self.start("traffic", "--topo", self.TOPO, "--load", "0.02", "--measure",
                         "100000000ns", "--web")
        self.browser.open(page_of(run.stderr.readline()).address)
        self.browser.until("return window.fabemu?.model?.sample > 0")
        folded = self.browser.run(KEEP_SUMS)
        self.assertEqual({name: folded["folded"][name] for name in
                          ("nodes", "switches", "cables", "open")},
                         {"nodes": self.NODES, "switches": 4 * self.NODES // 16,
                          "cables": 4 * self.NODES, "open": []})
        path, = self.sockets()
        few, all_of_it = (Client(os.path.join(self.dir, "fabemu", path)) for _ in range(2))
        few.ask("subscribe", telemetry=100, fold=True)
        lines = [len(json.dumps(few.next(), separators=(",", ":"))) for _ in range(4)]
        few.close()
        self.assertLess(max(lines[1:]), self.LINE_MOST)
        all_of_it.socket.settimeout(60)
        all_of_it.ask("subscribe", telemetry=100)
        shape, segments, look, bytes_most = all_of_it.next(), {}, -1, 0
        segments = [0] * (2 * len(shape["cables"]))
        while not self.browser.run("return sums[arguments[0]] ?? null", look):
            line = all_of_it.next()
            bytes_most = max(bytes_most, len(json.dumps(line, separators=(",", ":"))))
            for way, sent, *_ in line["links"]:
                segments[way] = sent
            look = line["sample"]
            if sum(segments) < 10**5:
                look = -1  # it has hardly started
        all_of_it.close()
        drawn = self.browser.run("return sums[arguments[0]]", look)
        self.assertEqual(drawn, self.folded_sums(shape, folded, segments))
        self.look_at(folded, lines, bytes_most)
        run.terminate()

    def look_at(self, folded, lines, bytes_most):
        picture = self.browser.run("return fabemu.drawn()")
        nodes = [node for item in picture["items"] for node in item["nodes"]]
        self.assertEqual(sorted(nodes), list(range(folded["nodes"])))
        self.assertGreater(min(item["w"] for item in picture["items"]), 9)
        self.assertTrue(all(edge["up"]["sum"] > 0 for edge in picture["edges"]))
        frames = self.browser.run("""
            return new Promise((done) => {
              const begin = performance.now();
              let frames = 0;
              const next = () => (++frames < 20 ? requestAnimationFrame(next)
                : done((performance.now() - begin) / frames));
              requestAnimationFrame(next);
            });""")
        box = next(item for item in picture["items"] if item["kind"] != "node")
        self.browser.click_at(box["x"], box["y"])
        self.assertEqual(self.browser.run("return fabemu.selected"), box["id"])
        self.browser.run(browser.PAINTED)
        self.browser.shot("folded")
        print(f"\n  {self.NODES} nodes: a shape of {lines[0]} bytes, snapshots of {max(lines[1:])} "
              f"at most, unfolded {bytes_most}; {len(picture['items'])} things and "
              f"{len(picture['edges'])} edges drawn, {frames:.0f} ms a frame", file=sys.stderr)


class Opened(InBrowser):
    """Aggregated blocks are opened by click and keyboard, and drawn as counted."""

    def starts(self, topo):
        """A run in simulated time, its page in the browser, and the path of its socket."""
        run = self.start("traffic", "--topo", topo, "--load", "0.02", "--measure", "100000000ns",
                         "--web")
        self.browser.open(page_of(run.stderr.readline()).address)
        self.browser.until("return window.fabemu?.model?.totals.hops > 100000")
        path, = self.sockets()
        return run, os.path.join(self.dir, "fabemu", path)

    def holds(self):
        """Simulated time is stopped: the page and a new reader have the same sample."""
        self.browser.run("document.getElementById('canvas').focus()")
        self.browser.keys(" ")
        self.browser.until("return fabemu.feed.paused")
        return self.browser.run("return fabemu.model.sample")

    def open_blocks(self):
        return sorted(self.browser.run("return [...fabemu.model.open]"))

    def item(self, what, *arguments):
        """The first drawn item for which the script returns true."""
        found = self.browser.run("const args = arguments; return fabemu.drawn().items.find((item)"
                                 f" => {what}) ?? null", *arguments)
        self.assertIsNotNone(found, what)
        return found

    def clicks_twice(self, item):
        for _ in range(2):
            self.browser.click_at(item["x"], item["y"] + item["h"] / 2 - 4)

    def becomes(self, blocks):
        self.browser.until("return [...fabemu.model.open].join() === arguments[0] &&"
                           " fabemu.model.sample > 0", ",".join(map(str, blocks)))

    def check_drawn_counts(self, path):
        """Each part is drawn once; values of open parts equal those of a reader of the whole
        network."""
        whole = Client(path)
        whole.socket.settimeout(60)
        whole.ask("subscribe", telemetry=100)
        view = View(whole.next())
        view.take(whole.next())
        whole.close()
        said = self.browser.run("""
            const { model } = fabemu, drawn = fabemu.drawn();
            return { sample: model.sample, hops: model.totals.hops, names: model.shape.names,
              cables: model.shape.cables, folded: model.folded, nodes: model.nodeCount,
              switches: model.switches.length, segments: [...model.directions.segments],
              stalls: [...model.directions.stalls], sent: [...model.node.sent],
              items: drawn.items, edges: drawn.edges };""")
        self.assertEqual((said["sample"], said["hops"]),
                         (view.line["sample"], view.line["totals"]["hops"]))
        for kind in "nodes", "switches":
            parts = [part for item in said["items"] for part in item[kind]]
            self.assertEqual(sorted(parts), list(range(said[kind])))
        self.check_edges(said)
        self.assertEqual(sum(said["segments"]), sum(row[0] for row in view.links.values()))
        cables = {tuple(row[:2]): i for i, row in enumerate(view.shape["cables"])}
        singles = [(k, at) for k, (_, _, _, _, _, _, count, *at) in enumerate(said["cables"])
                   if count == 1]
        for k, at in singles:
            rows = [view.links.get(2 * cables[tuple(at)] + way, [0, 0])[:2] for way in (0, 1)]
            drawn = [[said[name][2 * k + way] for name in ("segments", "stalls")]
                     for way in (0, 1)]
            self.assertIn(drawn, (rows, rows[::-1]), said["cables"][k])
        for node, number in enumerate(said["folded"]["number_of"][said["switches"]:]):
            if number >= 0:
                self.assertEqual(said["sent"][node], view.nodes.get(number, [0])[0])
        return len(singles)

    def check_edges(self, said):
        at = {(kind, part): i for i, item in enumerate(said["items"])
              for kind in ("nodes", "switches") for part in item[kind]}
        drawn = {c: {edge["id"]} for edge in said["edges"] for c in edge["cables"]}
        for c, (sw, _, kind, remote, *_) in enumerate(said["cables"]):
            ends = {at["switches", sw], at["switches" if kind else "nodes", remote]}
            ids = "|".join(said["items"][i]["id"] for i in
                           sorted(ends, key=lambda i: said["items"][i]["level"]))
            self.assertEqual(drawn.get(c, set()), {f"edge {ids}"} if len(ends) == 2 else set())

    def test_a_block_of_65536_nodes(self):
        run, path = self.starts("kary:16,4")
        self.holds()
        self.clicks_twice(self.item("item.kind === 'box'"))  # 16 blocks, which the page has folded
        box = self.item("item.kind === 'box' && item.nodes.length === 1")
        self.browser.click_at(box["x"], box["y"])
        self.assertIn("opens it", self.browser.text("#selection"))
        self.browser.run(browser.PAINTED)
        self.browser.shot("blocks")
        block = self.browser.run("const { model } = fabemu; return model.blocks["
                                 "model.switches.length + arguments[0]]", box["nodes"][0])
        self.browser.click_at(box["x"], box["y"])
        self.becomes([block])
        self.assertEqual(self.check_drawn_counts(path), 512)
        self.assertIn("switch", self.browser.run("return fabemu.selected"))
        self.browser.run(browser.PAINTED)
        self.browser.shot("block-opened")
        self.assertIn("closes", self.browser.text("#selection"))
        self.clicks_twice(self.item("item.kind === 'box' && item.nodes.length === 16 &&"
                                    " item.switches.length === 1"))  # a switch of the block
        self.check_drawn_counts(path)
        node = self.item("item.kind === 'node'")
        self.browser.click_at(node["x"], node["y"])
        number = self.browser.run("return fabemu.model.nodeNumber(arguments[0])",
                                  node["nodes"][0])
        self.assertEqual(self.browser.text("#selection h2"), f"node {number}")
        self.browser.run(browser.PAINTED)
        self.browser.shot("node-opened")
        self.browser.keys(" ")  # time continues, and so does the picture
        self.browser.until("return fabemu.drawn().edges.filter((e) => e.up.sum > 0).length > 20")
        self.browser.shot("block-at-work")
        self.check_no_complaints()
        run.terminate()

    def goes_to(self, key, what):
        """Press a key until the selected item is of this kind."""
        for _ in range(30):
            self.browser.keys(key)
            if self.browser.run("const item = fabemu.drawn().items.find((item) => item.id =="
                                f" fabemu.selected); return Boolean(item && {what})"):
                return
        self.fail(f"there is no way to {what}")

    def test_by_keyboard_and_limit_is_reported(self):
        run, path = self.starts("kary:16,4")
        self.holds()
        self.goes_to("ARROW_DOWN", "item.kind === 'box' && item.nodes.length === 16")
        self.browser.keys("ENTER")  # the page no longer folds it
        self.goes_to("ARROW_DOWN", "item.kind === 'box' && item.nodes.length === 1")
        self.browser.keys("ENTER")
        self.browser.until("return fabemu.model.open.size === 1 && fabemu.model.sample > 0")
        first, = self.open_blocks()
        self.check_drawn_counts(path)
        self.assertTrue(self.browser.run("return fabemu.selected !== null"))
        self.assertRegex(self.browser.text("#announcement"), r"^(switch|node) \d+$")  # no rates yet
        self.browser.keys("ENTER")  # and closed again
        self.becomes([])
        self.check_drawn_counts(path)
        self.browser.keys("ENTER")
        self.becomes([first])
        root = self.item("item.kind === 'switch' && item.level === 3")  # 4096 of them
        self.clicks_twice(root)
        self.browser.until("return /these open blocks/.test(document.getElementById('feed')"
                           ".textContent)")
        self.browser.until("return fabemu.model.sample > 0")
        self.assertEqual(self.open_blocks(), [first])  # the open blocks stay open
        self.browser.keys("0")
        self.becomes([])
        self.check_no_complaints()
        run.terminate()

    def test_a_fault_in_an_open_block(self):
        """By a click on a link of an aggregated network; the picture names the link."""
        done = self.fabemu("up", "--topo", "kary:18,3", "--set", "link_retry=go_back_n", "--web",
                           "u")
        self.ready(page_of(done.stdout).address)
        self.clicks_twice(self.item("item.kind === 'box'"))
        self.clicks_twice(self.item("item.kind === 'switch' && item.level === 1"))  # 18 of them
        self.browser.until("return fabemu.model.open.size === 1 && fabemu.model.sample > 0")
        self.browser.run(browser.PAINTED)
        self.browser.shot("switches-opened")
        edge = self.browser.run("""
            const { model } = fabemu;
            return fabemu.drawn().edges.find(({ cables, x0, x1 }) => cables.length === 1 &&
              model.cables[cables[0]].toSwitch && model.cables[cables[0]].count === 1 &&
              Math.abs(x0 - x1) < 60);""")
        self.browser.click_at(edge["x0"] * 0.8 + edge["x1"] * 0.2,
                              edge["y0"] * 0.8 + edge["y1"] * 0.2)
        chosen = self.browser.run("return fabemu.drawn().edges.find((e) => e.id =="
                                  " fabemu.selected).cables[0]")
        text = self.browser.run("return fabemu.model.cableText(arguments[0])", chosen)
        self.browser.run("document.getElementById('duration').value = ''")
        self.browser.run("document.getElementById('duration').dispatchEvent(new Event('change'))")
        self.browser.until("return document.getElementById('text').value === arguments[0]",
                           f"link-down link={text}")
        self.browser.click("#fault button")
        self.browser.until("return document.getElementById('faultsaid').textContent")
        self.assertIn("injected", self.browser.text("#faultsaid"))
        self.browser.until("return fabemu.model.state[arguments[0]] > 0", chosen)
        self.browser.until("return document.getElementById('out').textContent === '1'")
        self.assertEqual(self.browser.run("return [...fabemu.model.wrong].filter(Boolean).length"),
                         1)
        shape, states = self.states("u")
        at, = [i for i, row in enumerate(shape["cables"]) if "%d:%d" % tuple(row[:2]) == text]
        self.assertEqual([row[0] for row in states], [at])
        self.check_no_complaints()

    def states(self, name):
        client = Client(self.socket_path(name))
        client.socket.settimeout(60)
        client.ask("subscribe", telemetry=100)
        shape, line = client.next(), {}
        while line.get("event") != "telemetry":
            line = client.next()
        client.close()
        return shape, line["states"]


class Recorded(InBrowser):
    def test_a_thousand_nodes_are_legible(self):
        record = os.path.join(self.dir, "record")
        done = self.fabemu("traffic", "--topo", "kary:10,3", "--load", "0.5", "--warmup", "1000ns",
                           "--measure", "3000ns", "--telemetry", record, "--every", "500ns")
        self.assertEqual(done.returncode, 0, done.stderr)
        done = self.fabemu("up", "--topo", "kary:2,2", "--web", "u")
        self.ready(page_of(done.stdout).address)
        self.browser.find("#file").send_keys(record)
        self.browser.until("return fabemu.model.nodeCount === 1000 && fabemu.model.totals.hops > 0")
        self.browser.keys(" ")
        drawn = self.browser.run("return fabemu.drawn()")
        self.assertLess(len(drawn["items"]), 200)
        nodes = [node for item in drawn["items"] for node in item["nodes"]]
        self.assertEqual(sorted(nodes), list(range(1000)))  # each once, in folded items
        self.assertGreater(min(item["w"] for item in drawn["items"]), 9)
        self.browser.shot("thousand-nodes")
        box = next(item for item in drawn["items"] if item["kind"] == "box")
        self.browser.click_at(box["x"], box["y"])
        self.assertEqual(self.browser.run("return fabemu.selected"), box["id"])
        self.browser.keys("ENTER")
        opened = self.browser.run("return fabemu.drawn()")
        self.assertGreater(len(opened["items"]), len(drawn["items"]))
        nodes = [node for item in opened["items"] for node in item["nodes"]]
        self.assertEqual(sorted(nodes), list(range(1000)))
        self.browser.run(browser.PAINTED)
        self.browser.shot("thousand-nodes-opened")
        self.folds_and_unfolds(drawn["items"])
        self.browser.keys("0")
        self.assertEqual(len(self.browser.run("return fabemu.drawn()")["items"]),
                         len(drawn["items"]))
        self.check_no_complaints()

    def folds_and_unfolds(self, folded):
        """With the mouse: a subtree is folded at one of its switches; a bundle opens and closes."""
        self.edges_are_whole()
        self.clicks_twice("switch", 1)
        self.assertEqual([item["id"] for item in self.edges_are_whole()],
                         [item["id"] for item in folded])
        self.clicks_twice("bundle", 2)
        tops = [item for item in self.edges_are_whole() if item["level"] == 2]
        self.assertEqual([item["kind"] for item in tops], 100 * ["switch"])
        self.clicks_twice("switch", 2)
        self.assertEqual([item["id"] for item in self.edges_are_whole()],
                         [item["id"] for item in folded])

    def clicks_twice(self, kind, level):
        item = self.browser.run(
            "const [kind, level] = arguments; return fabemu.drawn().items.find((item) =>"
            " item.kind === kind && item.level === level)", kind, level)
        for _ in range(2):
            self.browser.click_at(item["x"], item["y"])

    def edges_are_whole(self):
        """Each cable is drawn at most once, between two drawn items; returns the cables."""
        drawn = self.browser.run("return fabemu.drawn()")
        cables = [cable for edge in drawn["edges"] for cable in edge["cables"]]
        self.assertEqual(len(cables), len(set(cables)))
        inside = self.browser.run(
            "const { items } = fabemu.drawn(), of = new Map();"
            "items.forEach((item, i) => { item.switches.forEach((s) => of.set(`s${s}`, i));"
            "item.nodes.forEach((n) => of.set(`n${n}`, i)); });"
            "return fabemu.model.cables.filter((c) => of.get(`s${c.sw}`) ==="
            "of.get(`${c.toSwitch ? 's' : 'n'}${c.peer}`)).length")
        self.assertEqual(len(cables) + inside, 3000)
        return drawn["items"]

    def test_a_recording_without_a_fabric(self):
        """`fabemu web FILE`: the page replays it, and sends no request to a fabric."""
        record = os.path.join(self.dir, "record")
        done = self.fabemu("traffic", "--topo", "kary:2,2", "--load", "0.5", "--warmup", "2000ns",
                           "--measure", "40000ns", "--telemetry", record)
        self.assertEqual(done.returncode, 0, done.stderr)
        web = self.start("web", record)
        line = web.stdout.readline().split()
        self.assertTrue(line[1].endswith("#recording"), line)
        self.browser.open(line[1])
        self.browser.until("return !fabemu.feed.live && fabemu.model?.taken > 2")
        self.assertEqual(self.browser.run("return document.getElementById('live').hidden"), True)
        self.faults_are_not_offered("This is a recording, so no faults can be injected.")
        facts = self.browser.run("return document.querySelector('.facts').textContent")
        self.assertRegex(facts, r"fabemu \d.*, host .*, started \d{4}-.*, seed 1")
        self.assertIn("traffic --topo kary:2,2 --load 0.5", facts)
        # The replay may have ended meanwhile, so go back.
        self.browser.run("const s = document.getElementById('seek'); s.value = 100;"
                         "s.dispatchEvent(new Event('input'))")
        self.browser.until("return /^4 nodes send/.test("
                           "document.getElementById('caption').textContent)")
        self.browser.shot("recording")
        self.assertIn("Synthetic traffic has no matrix", self.browser.run(
            "const { disabled, title } = document.getElementById('who'); return disabled && title"))
        self.browser.run("const s = document.getElementById('seek'); s.value = 1000;"
                         "s.dispatchEvent(new Event('input'))")
        self.assertRegex(self.browser.text("#caption"), "^The recording has ended, ")
        self.assertRegex(self.browser.text("#summary"),
                         "Summary of the recording.* of simulated time")
        self.check_no_complaints()
        with open(record, "w") as f:
            f.write("{}\n")
        self.browser.driver.refresh()
        self.browser.until("return /not begin/.test(document.getElementById('feed').textContent)")

    def test_a_program_in_simulated_time__is_replayed_snapshot_by_snapshot(self):
        """Its snapshots are 100 ms of the host's time apart, here 1 us of simulated time."""
        record = os.path.join(self.dir, "record")
        with open(record, "w") as f:
            for line in ({**SHAPE, "clock": "virtual"}, *(
                    {"event": "telemetry", "sample": i, "since": i - 1, "at_ps": i * 10**6,
                     "totals": {"hops": i}} for i in range(1, 41))):
                f.write(json.dumps(line, separators=(",", ":")) + "\n")
        self.browser.open(self.start("web", record).stdout.readline().split()[1])
        self.browser.until("return fabemu.model?.taken > 2")
        self.assertNotIn("(1.00 s)", self.browser.text("#selection"))
        self.browser.until("return fabemu.model.sample === 40")
        self.assertAlmostEqual(self.browser.run("return fabemu.feed.at"), 3.9)  # ten per second
        self.assertEqual(self.browser.run("return document.getElementById('seek')"
                                          ".getAttribute('aria-valuetext')"), "40.0 µs")
        self.check_no_complaints()

    def test_narrow_blocks_show_their_first_node(self):
        """Where the range does not fit into one line, nor its first number with a dash."""
        record = os.path.join(self.dir, "record")
        done = self.fabemu("traffic", "--topo", "kary:32,2", "--load", "0.1", "--warmup", "1us",
                           "--measure", "2us", "--telemetry", record)
        self.assertEqual(done.returncode, 0, done.stderr)
        address = self.start("web", record).stdout.readline().split()[1]
        for width in (1440, 1920):
            self.browser.size(width, 1080)
            self.browser.open(address)
            self.browser.until("return fabemu.model?.taken > 0 && fabemu.drawn().items.length")
            texts = self.browser.run("const s = document.getElementById('seek'); s.value = 0;"
                                     "setTimeout(() => s.dispatchEvent(new Event('input')));" +
                                     CANVAS_TEXTS)
            self.assertLessEqual({f"{first}" for first in range(0, 1024, 32)}, set(texts))
            self.assertFalse({"0–", "31", "0–31"} & set(texts), texts)  # all blocks alike
        self.cells_are_within_their_blocks()

    def cells_are_within_their_blocks(self):
        """On a phone, too, no square of a switch or node is wider than its block, and the page is
        not wider than the screen."""
        self.browser.size(390, 844)
        self.browser.until("return innerWidth === 390 && fabemu.drawn().items.length")
        squares, outside = self.browser.run("""
            const { fillRect } = CanvasRenderingContext2D.prototype, squares = [];
            CanvasRenderingContext2D.prototype.fillRect = function (x, y, w, h) {
              if (w === h) squares.push([x, x + w]);
              return fillRect.call(this, x, y, w, h);
            };
            setTimeout(() => document.getElementById("seek").dispatchEvent(new Event("input")));
            return new Promise((done) => setTimeout(done, 300)).then(() => {
              CanvasRenderingContext2D.prototype.fillRect = fillRect;
              const { items } = fabemu.drawn();
              return [squares.length, squares.filter(([from, to]) => !items.some(({ x, w }) =>
                x - w / 2 <= from + 0.01 && to - 0.01 <= x + w / 2))];
            });""")
        self.assertGreaterEqual(squares, 1024 + 64)
        self.assertEqual(outside, [])

    def test_several_runs_in_a_recording(self):
        record = os.path.join(self.dir, "record")
        done = self.fabemu("traffic", "--topo", "kary:2,2", "--load", "0.2,0.6", "--warmup", "2us",
                           "--measure", "4000ns", "--telemetry", record)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(record) as f:
            lines = [json.loads(line) for line in f]
        begins = [i for i, line in enumerate(lines) if line["event"] == "telemetry_shape"]
        self.assertEqual(len(begins), 2)
        done = self.fabemu("up", "--topo", "kary:2,2", "--web", "u")
        self.ready(page_of(done.stdout).address)
        self.browser.find("#file").send_keys(record)
        self.browser.until("return !fabemu.feed.live && fabemu.model.sample > 0")
        self.browser.keys(" ")
        looks = self.browser.run("""
            const s = document.getElementById("seek"), ret = [];
            for (const at of [...Array(201).keys()].map((i) => 5 * i).concat(0)) {
              s.value = at;
              s.dispatchEvent(new Event("input"));
              const m = fabemu.model;
              ret.push([m.sample, Math.round(m.at * 1e12), m.totals.hops]);
            }
            return ret;""")
        point = lambda line: [line["sample"], line["at_ps"], line["totals"]["hops"]]  # noqa: E731
        self.assertEqual(looks[-2], point(lines[-1]))
        self.assertEqual(looks[-1], point(lines[1]))  # and back to the first
        self.assertIn(point(lines[begins[1] - 1]), looks)  # the first run, to its end,
        self.assertIn(point(lines[begins[1] + 1]), looks)  # and the second, from its start
        self.check_no_complaints()

    def test_events_of_many_are_one_line(self):
        done = self.fabemu("up", "--topo", "kary:2,2", "--web", "u")
        self.ready(page_of(done.stdout).address)
        shown = self.browser.run("""
            const trap = (sw, at, packets) => ({ event: "trap", switch: sw, at, packets, to: 1 });
            const hit = (fault, at) => ({ event: "hit", fault, what: "lost", at });
            const events = [trap(3, 0, 1), trap(4, 0, 2), hit(1, 0.1), trap(3, 0.2, 4), hit(2, 0.2),
              hit(1, 0.3), { event: "node_no_link", node: 7, at: 0.4 }, trap(5, 0.5, 1)];
            for (let i = 0; i < 100; i++) events.push(trap(5, 1 + i, 1));
            return import("./panel.js").then(({ renderEvents }) => {
              const place = document.createElement("ul");
              renderEvents(place, { events });
              return [...place.children].map((line) => line.textContent.replace(/^.* s /, ""));
            });""")
        self.assertEqual(shown, ["switch 5 had no route for 101 packets",
                                "node 7 has no link that is up",
                                "fault 2: packet lost", "fault 1: packet lost (2 times)",
                                "2 switches had no route for 7 packets"])

    def test_waits_are_shown_as_text(self):
        """A recording of a fabric at a standstill; its names are untrusted."""
        record, evil = os.path.join(self.dir, "record"), "<img src=x onerror=alert(1)>"
        done = self.fabemu("up", "--topo", "kary:2,2", "--web", "--record", record, "u")
        self.ready(page_of(done.stdout).address)
        self.assertTrue(until(lambda: len(self.recorded(record)) > 2))
        with open(record) as f:
            shape, first = (json.loads(f.readline()) for _ in range(2))
        shape["names"] = [evil] * (len(shape["switches"]) + shape["nodes"])
        first["processes"] = [{"node": n, "pid": 1, "rank": n, "command": evil} for n in range(4)]
        op = {"kind": "receive", "state": "unmatched", "node": 0, "bytes": 4, "for_ns": 6 * 10**9}
        action = {"state": "unmatched", "for_ns": 7 * 10**9}
        stands = {"event": "standstill", "s": 1, "attached": [
            {"node": 0, "rank": 0, "receive": {**action, "kind": "unlock", "node": 3, "target": 2}},
            {"node": 1, "rank": 1, "finalizes": True},
            {"node": 2, "rank": 2, "receive": {**action, "kind": "complete"}},
            {"node": 3, "rank": 3, "receive": {**op, "tag": (2 << 34) + 8, "ignore": 3 << 60},
             "unexpected": 1, "first_unexpected": {
                 "kind": "receive", "state": "unmatched", "node": 2, "tag": 7, "bytes": 4}}],
                  "standstill": {"for_ns": 6 * 10**9, "collectives": [
                      {"group": 65537, "number": 2, "kind": "barrier", "members": 4,
                       "arrived": [0, 1, 2], "missing": [{"node": 3, "begun": 1}]},
                      {"group": 65538, "number": 1, "kind": "all-reduce", "members": 3,
                       "name": evil, "arrived": [1], "missing": []}]}}
        with open(record + ".still", "w") as f:
            f.writelines(json.dumps(line) + "\n" for line in (shape, first, stands))
        self.browser.find("#file").send_keys(record + ".still")
        self.browser.until("return !document.getElementById('standstill').hidden")
        shown = self.browser.text("#standstill")
        self.assertIn("Nothing has moved for 6 s", shown)
        self.assertIn(f"3 of 4 members have begun; it waits for {evil} (rank 3)", shown)
        self.assertIn(f"all-reduce number 1 of {evil}: 1 of 3 members have begun; it waits for the "
                      "other members", shown)
        self.assertIn(f"{evil} (rank 1) is in MPI_Finalize", shown)
        self.assertEqual(self.browser.run(
            "return [...document.querySelectorAll('#standstill li')].map((li) => li.textContent)"
            ".filter((text) => text.includes(' has waited '))"), [
                f"{evil} (rank 0) has waited for 7.00 s for {evil} (rank 3) to release the lock of "
                f"{evil} (rank 2) in an MPI window",
                f"{evil} (rank 2) has waited for 7.00 s in MPI_Win_wait for MPI_Win_complete of "
                "others",
                f"{evil} (rank 3) has waited for 6.00 s in a receive from {evil} (rank 0) (tag 8 "
                "of communicator 2, at most 4 bytes): no matching message has arrived; 1 message "
                f"has arrived that matches no receive, the first from {evil} (rank 2), tag 7, "
                "4 bytes"])
        self.assertEqual(self.browser.run("return document.querySelectorAll('img').length"), 0)
        self.browser.click("#live")
        self.browser.until("return fabemu.feed.live && fabemu.model.sample > 0 &&"
                           " document.getElementById('standstill').hidden")
        self.check_no_complaints()

    def test_simulated_time_is_paused_and_slowed_down(self):
        run = self.start("traffic", "--topo", "kary:4,2", "--load", "0.5", "--warmup", "2000ns",
                         "--measure", "20000ns", "--every", "500ns", "--web", "--json")
        page = page_of(run.stderr.readline())
        self.ready(page.address)
        self.faults_are_not_offered("In synthetic traffic, faults are part of the run, so that "
                                    "it can be repeated exactly: start fabemu traffic with "
                                    "--faults FILE.")
        self.browser.run(PACES)
        self.browser.keys("-", "-")  # a tenth of the speed
        self.assertEqual(self.browser.run("return document.getElementById('speed').value"), "0.1")
        self.wants(every_ms=1000, hold=False)  # server_test.py checks the effect
        self.browser.keys("+", "+")
        self.wants(every_ms=100, hold=False)
        self.browser.keys(" ")
        self.browser.until("return fabemu.feed.paused")
        self.wants(every_ms=100, hold=True)
        name, = [s for s in self.sockets() if s.endswith(".sock")]
        reader = Client(self.socket_path(name[:-5]))
        self.clients.append(reader)
        reader.ask("subscribe", telemetry=100)
        view = View(reader.next())
        view.take(reader.next())
        reader.socket.settimeout(0.5)
        with self.assertRaises(TimeoutError):  # data in flight, and then nothing
            while True:
                view.take(reader.next())
        self.browser.shot("simulated-time-held")
        self.browser.keys(" ")
        self.browser.run("const s = document.getElementById('speed'); s.value = '1000';"
                         "s.dispatchEvent(new Event('change'))")
        out, _ = run.communicate(timeout=PATIENCE_S)
        self.assertEqual(run.returncode, 0)
        self.browser.until("return fabemu.feed.state === 'ended'")
        self.assertEqual(self.browser.run("return Math.round(fabemu.model.at * 1e12)"),
                         round(json.loads(out)["virtual_ns"] * 1000))

    def wants(self, **fields):
        """The page requests this pace, and it is granted."""
        self.browser.until("const wish = paces.at(-1), wanted = Object.entries(arguments[0]);"
                           "return wish && wanted.every(([name, value]) => wish[name] === value)",
                           dict(fields, ok=True), what=fields)

    def test_stream_disconnects_and_reconnects(self):
        fabric = FakeFabric(self.socket_path("u"))
        self.addCleanup(lambda: fabric.listener.close())
        fault = {"fault": 1, "text": "link-down link=0:1", "state": "active"}
        fabric.replies["faults"] = {"ok": True, "faults": [fault]}
        fabric.replies["fault_kinds"] = NO_KINDS
        web = self.start("web", "u")
        page = page_of(web.stdout.readline())
        others = [page.stream() for _ in range(8)]
        conns = [fabric.next() for _ in others]
        self.browser.open(page.address)
        self.says("connecting: Too many pages or requests are open.")
        for other in others:
            other.close()
        # the server detects that they are gone when it writes to them
        while fabric.streams.empty():
            for conn in conns:
                with contextlib.suppress(OSError):
                    fabric.say(conn, {"ok": True})
            time.sleep(0.05)

        stream = fabric.next()
        self.plays(fabric, stream, 1, 100)
        self.browser.until("return fabemu.model?.sample === 1")
        self.says("live")
        self.plays(fabric, stream, 2, 200)
        self.browser.until("return fabemu.feed.moves")
        self.check_links_of_other_hosts()
        listed = "return document.querySelectorAll('#active li').length === 1"
        self.browser.until(listed)
        del fabric.replies["faults"]  # such requests fail from now on
        fabric.say(stream, {"event": "fault", "s": 1, "fault": 1, "text": "x", "state": "begins"})
        self.browser.until("return fabemu.model.events.length === 1")

        fabric.hang_up(stream)  # the fabric has not ended: the page reconnects
        self.says("connecting")
        self.assertTrue(self.browser.run(RESTS))
        stream = fabric.next()
        fabric.say(stream, {"ok": False, "errno": 24, "error": "no room for <b>you</b>"})
        self.says("connecting: no room for <b>you</b>")
        stream = fabric.next()
        self.plays(fabric, stream, 30, 300)
        self.says("live")
        self.assertEqual(self.browser.until("return fabemu.model.sample === 30 &&"
                                            " fabemu.model.events.length"), 1)  # events are kept
        self.assertTrue(self.browser.run(listed))
        self.assertEqual(self.browser.run(
            "return fabemu.model.seriesOfDirections('segments', [3])"),
                         [[0.1, 0], [0.2, 1000], [3, 0]])  # and so is earlier history
        self.check_hidden_page_disconnects(fabric, stream)
        self.browser.complaints()  # about the refused request

        stream = fabric.next()
        self.plays(fabric, stream, 40, 400)
        self.browser.until("return fabemu.model.sample === 40")
        stream.sendall(b'{"event":"telem')
        fabric.end()
        self.browser.until("return fabemu.feed.state === 'ended'")
        self.assertTrue(self.browser.run(RESTS))
        self.assertEqual(web.wait(PATIENCE_S), 0)

    def says(self, text):
        self.browser.until("return document.getElementById('feed').textContent === arguments[0]",
                           text)

    def plays(self, fabric, stream, look, hops):
        """A snapshot; the first of a stream follows the shape."""
        if look != 2:
            fabric.say(stream, {"ok": True}, SHAPE)
        fabric.say(stream, {"event": "telemetry", "sample": look, "since": look - 1 if look == 2
                            else 0, "at_ns": look * 10**8, "totals": {"hops": hops},
                            "links": [[way, hops, 0, 0, 0] for way in (0, 3, 7)]})

    def check_links_of_other_hosts(self):
        sums = self.browser.run("return Object.fromEntries(fabemu.drawn().edges.map((e) =>"
                                " [e.cables[0], [e.up, e.down].map((way) => way.sum > 0)]))")
        self.assertEqual(sums, {"0": [True, False], "1": [False, True], "2": [False, False],
                                "3": [True, False]})

    def check_hidden_page_disconnects(self, fabric, stream):
        driver = self.browser.driver
        mine = driver.current_window_handle
        driver.switch_to.new_window("tab")
        gone = False
        while not gone:
            try:
                fabric.say(stream, {"event": "host_back"})
                time.sleep(0.05)
            except OSError:
                gone = True
        driver.switch_to.window(mine)

    def test_other_files_are_refused(self):
        done = self.fabemu("up", "--topo", "kary:2,2", "--web", "u")
        self.ready(page_of(done.stdout).address)
        for number, text in enumerate(("", "no JSON\n", '{"event":"telemetry"}\n',
                                       '{"event":"telemetry_shape"}\n')):
            path = os.path.join(self.dir, f"file.{number}")
            with open(path, "w") as f:
                f.write(text)
            self.browser.find("#file").send_keys(path)
            self.browser.until("const feed = document.getElementById('feed');"
                               "return feed.dataset.state === 'wrong' &&"
                               " feed.textContent.startsWith(arguments[0])", f"file.{number}: ")
            self.assertTrue(self.browser.run("return fabemu.feed.live"))

    def test_recording_that_begins_with_a_fault_is_replayed(self):
        record = os.path.join(self.dir, "record")
        text = json.dumps({"event": "fault", "s": 0, "fault": 1, "text": "x", "state": "begins"})
        self.up_with_recording(record)
        with open(record) as f:
            lines = f.read()
        with open(record, "w") as f:
            f.write(text + "\n" + lines)
        self.browser.find("#file").send_keys(record)
        self.browser.until("return !fabemu.feed.live && fabemu.model.sample > 0")
        self.assertIn("fault 1 begins", self.browser.text("#events"))
        self.check_no_complaints()

    def up_with_recording(self, record):
        """A page, and a recording of another fabric with faults and running processes."""
        demo = os.path.join(os.path.dirname(self.command), "apps", "demo")
        done = self.fabemu("run", "--topo", "kary:2,2", "--set", "link_retry=go_back_n", "--faults",
                           "flap", "--record", record, "--", demo, "4", "0.5", "0.2")
        self.assertEqual(done.returncode, 0, done.stderr)
        done = self.fabemu("up", "--topo", "kary:2,2", "--web", "u")
        self.ready(page_of(done.stdout).address)

    def test_mutated_recordings_do_not_break_the_page(self):
        """Invalid lines are skipped, or the file is refused. FABEMU_MUTANTS=2000 is a long run."""
        draw, record = random.Random(seed()), os.path.join(self.dir, "record")
        self.up_with_recording(record)
        with open(record) as f:
            lines = [json.loads(line) for line in f]
        shape = next(line for line in lines if line["event"] == "telemetry_shape")
        lines = [shape] + [line for line in lines if line is not shape][:6] + LINES
        counts = collections.Counter()
        for _ in range(int(os.environ.get("FABEMU_MUTANTS", "30"))):
            text = mutant(draw, lines)
            said = self.browser.run(REPLAY, text)
            self.assertEqual(said["wrong"], [], text)
            counts[said["live"]] += 1
        self.assertEqual(set(counts), {False, True})  # some were refused, and some replayed
        self.check_no_complaints()


# Every kind of line in a recording, from docs/telemetry.md and docs/control.md.
LINES = [
    {"event": "telemetry", "skipped": 2, "sample": 90, "at_ns": 9 * 10**9, "totals": {"hops": 5},
     "collectives": [[1, 0], [0, 0], [0, 0], [2, 1]], "links": [[0, 51, 2, 3, 1]],
     "switches": [[0, 5, 6, 7, 8]], "nodes": [[1, 2, 3, 4, 5, 6]], "states": [[1, 3, 2]],
     "processes": [{"node": 0, "pid": 7, "rank": 0, "command": "demo"}],
     "waits": [[1, 2, 0, -1, 64, 10**9]], "finished": [[65537, 4, 9, 8, 4, 10**9, 2 * 10**9]]},
    {"event": "standstill", "s": 9.5, "attached": [{"node": 3, "receive": {
        "kind": "receive", "state": "unmatched", "node": 0, "bytes": 4, "for_ns": 6 * 10**9}},
        {"node": 2, "receive": {
            "kind": "unlock", "state": "unmatched", "node": 1, "target": 3, "for_ns": 6 * 10**9}}],
     "standstill": {"for_ns": 6 * 10**9, "links": [{"switch": 1, "port": 2, "for_ns": 5,
                                                    "waits_for": "credit"}],
                    "collectives": [{"group": 65537, "number": 2, "kind": "barrier", "members": 4,
                                     "name": "MPI_COMM_WORLD", "bytes": 8, "arrived": [0, 1, 2],
                                     "missing": [{"node": 3, "begun": 1}],
                                     "differ": [{"node": 2, "kind": "reduce", "bytes": 4}]}]}},
    {"event": "report", "report": {"nodes": 4, "communication": {"messages": {
        "messages": 5, "bytes": 100, "pairs": 2, "matrix": [[0, 1, 3, 60], [1, 0, 2, 40]],
        "not_listed": {"pairs": 1}}}}},
    {"event": "disagreement", "s": 1, "disagreement": {"group": 1, "mine": {"node": 0},
                                                       "other": {"node": 1}}},
    {"event": "trap", "s": 2, "switch": 1, "packets": 3, "to": 2},
    {"event": "hit", "s": 2, "fault": 1, "what": "lost", "cable": "0:2"},
    {"event": "tables", "s": 3, "took_ns": 5, "links_out": 1},
    {"event": "node_died", "s": 4, "node": 2, "command": "demo", "how": "signal 9"},
    {"event": "telemetry", "sample": 91, "at_ns": 9.1 * 10**9, "links": [[1, 60, 2, 3, 1]]}]
# Lines that are invalid for a fabric of SHAPE.
WRONG = [None, 7, "x", [], {}, {"event": None}, {"event": 5}, {"event": "telemetry"}, *(
    {"event": "telemetry", "sample": 2, "at_ns": 2 * 10**8, **rows} for rows in (
        {"at_ns": None}, {"links": 7}, {"links": [None]}, {"links": [[8, 1, 1, 1, 1]]},
        {"states": [[0, 4, 0]]}, {"waits": [[0, 2, 0, 0, 0, 0]]}, {"finished": [None]},
        {"processes": [None]}, {"totals": {"hops": "x"}})),
    {"event": "standstill", "standstill": {"collectives": [None]}},
    {"event": "report", "report": None}, {"event": "hit", "s": "x"},
    {"event": "fault", "text": {"toString": 1}}, {"event": "link", "cable": [[]]},
    {"event": "report", "report": {"command": [{"toString": 1}]}},
    {"event": "report", "report": {"communication": {"collectives": [{"kind": {}}]}}},
    {"event": "report", "report": {"communication": {"messages": {"matrix": [None]}}}}]
ODD = (None, True, False, -1, 0, 1, 0.5, 3, 10**6, 2**40, 1e300, "", "x", "__proto__", [], {},
       [[]], [None], [[0]], {"node": None}, [{}], {"toString": 1})
# A user's actions on a file: choose it, step to its end and back, select items.
REPLAY = """
const [text] = arguments, wrong = [];
const hear = (event) => wrong.push(String(event.message || event.reason));
window.addEventListener("error", hear);
window.addEventListener("unhandledrejection", hear);
const file = document.getElementById("file"), chosen = new DataTransfer();
const frames = (count) => new Promise((done) => {
  const next = () => (count-- ? requestAnimationFrame(next) : done());
  next();
});
const press = (key) => document.dispatchEvent(new KeyboardEvent("keydown", { key,
  bubbles: true }));
chosen.items.add(new File([text], "mutant"));
return (async () => {
  file.files = chosen.files;
  file.dispatchEvent(new Event("change"));
  await frames(3);
  const { live } = fabemu.feed, seek = document.getElementById("seek");
  for (const at of live ? [] : [500, 1000, 0, 1000]) {
    seek.value = at;
    seek.dispatchEvent(new Event("input"));
    await frames(1);
  }
  ["Enter", "l", "ArrowDown", "Escape"].forEach(press);
  await frames(2);
  document.getElementById("who").click();
  await frames(1);
  document.getElementById("matrix").close();
  if (!live) document.getElementById("live").click();
  await frames(1);
  window.removeEventListener("error", hear);
  window.removeEventListener("unhandledrejection", hear);
  return { wrong, live };
})();
"""


def places(value, path=()):
    """The paths to all values in a JSON value."""
    yield path
    for key, inner in (value.items() if isinstance(value, dict) else
                       enumerate(value) if isinstance(value, list) else ()):
        yield from places(inner, (*path, key))


def mutate(draw, value):
    """One value is changed, removed, or duplicated."""
    path = draw.choice(list(places(value)))
    if not path:
        return draw.choice(ODD)
    ret = json.loads(json.dumps(value))
    at = ret
    for key in path[:-1]:
        at = at[key]
    how = draw.randrange(4)
    if how == 0:
        del at[path[-1]]
    elif how == 1 and isinstance(at, list):
        at.append(at[path[-1]])
    else:
        at[path[-1]] = draw.choice(ODD)
    return ret


def mutant(draw, lines):
    """A recording as text, with some lines mutated, missing or moved."""
    lines = [mutate(draw, line) if draw.random() < (0.05, 0.4)[i > 0] else line
             for i, line in enumerate(lines) if draw.random() < 0.95]
    if draw.random() < 0.2:
        draw.shuffle(lines)
    text = "".join(json.dumps(line) + "\n" for line in lines)
    if draw.random() < 0.3:
        at = draw.randrange(len(text) + 1)
        text = text[:at] + draw.choice(("", "\0", "}", "\n", "\u2028", text[:9])) + text[
            at + draw.randrange(9):]
    return text


if __name__ == "__main__":
    if browser.missing():
        print(f"page_test: SKIPPED: no page in a browser, for {browser.missing()} is not installed")
        sys.exit(77)
    main(jobs=2)  # a browser takes a second to start
