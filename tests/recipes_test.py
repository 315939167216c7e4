#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""recipes_test.py - the commands in README and docs/ work as printed.

   tests/recipes_test.py --fabemu build/fabemu [unittest options]

The mark of a block of text determines the check:
```sh                  is run, in the order of its page, and must exit with status 0
```console             the same for the commands after "$ "; their output must follow; … matches
anything
```sh not run: WHY     only its scripts and options must exist (console, too)
```text, ```json       is not checked

A page runs in a folder with the files of a checkout and a user's program.
"""
import functools
import os
import re
import shutil
import signal
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(TOP, "tests", "cli"))
from cli_helpers import FabemuCase, main  # noqa: E402

FENCE = re.compile(r"^```(.*)\n((?:.*\n)*?)^```$", re.M)
MARK = re.compile(r"(sh|console)( not run: \w.*)?|text|json")
CALL = re.compile(r"^(?:\$ )?(?:build/)?(fabemu \w+|scripts/[\w-]+)\b(.*)", re.M)
REST = re.compile(r" -- |#| --(?:fabric|traffic) ")  # options after this belong to another command
PAGES = ["README.md", *sorted("docs/" + name for name in os.listdir(os.path.join(TOP, "docs"))
                              if name.endswith(".md"))]
BLOCK_S = 120  # a block may have several runs, about 10 s each on an idle machine


def blocks(page):
    """The blocks of a page: (mark, text, line number)."""
    with open(os.path.join(TOP, page), encoding="utf-8") as f:
        text = f.read()
    return [(m[1], m[2], text.count("\n", 0, m.start()) + 1) for m in FENCE.finditer(text)]


def dialogue(text):
    """Of a console block: the commands, and a pattern of their output."""
    for part in re.split(r"^\$ ", text, flags=re.M)[1:]:
        typed, _, output = part.partition("\n")
        lines = [r"(?:.*\n)*?" if line == "…" else
                 ".*".join(map(re.escape, line.split("…"))) + r"\n" for line in output.splitlines()]
        yield typed, "".join(lines)

SLOW_START = re.compile(r"^fabemu: (?:waiting: |(?:all \d+ processes have|the process has) "
                        r"attached).*\n", re.MULTILINE)


class RecipesTest(FabemuCase):
    """A test for each page with commands: test_README and so on, defined below."""

    def setUp(self):
        super().setUp()
        self.home = os.path.join(self.dir, "checkout")
        os.mkdir(self.home)
        build = os.path.dirname(self.command)
        for name in os.listdir(TOP):
            if not name.startswith((".", "build")):
                os.symlink(os.path.join(TOP, name), os.path.join(self.home, name))
        os.symlink(build, os.path.join(self.home, "build"))
        self.env.update(PATH=f"{build}:{self.env['PATH']}", OMPI_ALLOW_RUN_AS_ROOT="1",
                        OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")

    def shell(self, text):
        """Its status and its whole output."""
        done = subprocess.run(["timeout", "-k", "5", str(BLOCK_S), "bash", "-ec", text],
                              cwd=self.home, env=self.env, text=True, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return done.returncode, done.stdout

    def make_program(self, page):
        """The program of README, under the name that pages use for a user's program."""
        if "./program" not in "".join(text for mark, text, _ in blocks(page) if mark == "sh"):
            return
        source, = [text for _, text, _ in blocks("README.md") if text.startswith("cat > hello.c")]
        status, out = self.shell(source.split("mpicc")[0] + "mpicc -o program hello.c")
        self.assertEqual(status, 0, out)

    def walk(self, page):
        self.make_program(page)
        for mark, text, line in blocks(page):
            if mark == "sh":
                status, out = self.shell(text)
                self.assertEqual(status, 0, f"{page}:{line}: {text}\n{out}")
            elif mark == "console":
                self.check_console(f"{page}:{line}", text)

    def check_console(self, where, text):
        for typed, pattern in dialogue(text):
            status, out = self.shell(typed)
            self.assertEqual(status, 0, f"{where}: {typed}\n{out}")
            out = SLOW_START.sub("", out)  # printed only on a busy machine
            self.assertRegex(out, rf"\A{pattern}\Z", f"{where}: {typed}")

    def test_running_command_ends_with_ctrl_c(self):
        """After its first output: at once, with the matching status, and a message."""
        for typed in ("scripts/demo --headless", "fabemu traffic --topo kary:4,2 --load 0.6 --web",
                      "scripts/chaos --brief --fabemu build/fabemu"):
            with self.subTest(typed), subprocess.Popen(
                    ["bash", "-ec", f"exec {typed}"], cwd=self.home, env=self.env, text=True,
                    stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                    start_new_session=True) as process:
                self.started.append(process)
                first = process.stdout.readline()
                os.killpg(process.pid, signal.SIGINT)
                out, _ = process.communicate(timeout=BLOCK_S)
                self.assertEqual(process.returncode, 130, first + out)
                self.assertNotIn("Traceback", out)

    def test_marks__are_valid_and_unrun_commands_exist(self):
        for page in PAGES:
            for mark, text, line in blocks(page):
                self.assertRegex(mark, rf"\A(?:{MARK.pattern})\Z", f"{page}:{line}")
                if "not run" in mark:
                    self.exists(f"{page}:{line}", text)

    def exists(self, where, text):
        for call, rest in CALL.findall(text):
            options = re.findall(r"\s(--[a-z][\w-]*)", REST.split(rest)[0])
            self.assertEqual([o for o in options if o not in self.help_of(call)], [],
                             f"{where}: {call}")

    @functools.cache
    def help_of(self, call):
        command = [os.path.join(TOP, call)] if call.startswith("scripts/") else \
            [self.command, call.split()[1]]
        done = subprocess.run([*command, "--help"], env=self.env, text=True, timeout=BLOCK_S,
                              stdin=subprocess.DEVNULL, capture_output=True)
        self.assertEqual(done.returncode, 0, call)
        return done.stdout


def run_page(page):
    return lambda self: self.walk(page)


for PAGE in PAGES:
    if any(mark in ("sh", "console") for mark, _, _ in blocks(PAGE)):
        NAME = os.path.basename(PAGE).removesuffix(".md").replace("-", "_")
        setattr(RecipesTest, f"test_{NAME}", run_page(PAGE))


if __name__ == "__main__":
    if not shutil.which("mpicc"):
        sys.exit("recipes_test: mpicc is needed")
    main(jobs=2)
