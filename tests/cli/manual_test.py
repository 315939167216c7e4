#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""manual_test.py - manual pages and shell completion cover everything in the command and the
header.

   tests/cli/manual_test.py --fabemu build/fabemu [unittest options]
"""
import glob
import os
import re
import shutil
import subprocess
import unittest

from cli_helpers import FabemuCase, main

TOP = os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))
COMPLETIONS = os.path.join(TOP, "scripts/completion")
# zsh's own completion functions exist only during interactive use: these replace them.
ZSH = r'''
compadd() { while [[ $1 == -?* && $1 != -- ]]; do [[ $1 == -S ]] && shift; shift; done; shift
            for word; do [[ $word == $PREFIX* ]] && print -r -- $word; done; true }
compset() { PREFIX=${PREFIX#*=} }
_files() { local file; for file in $PREFIX*(N); do print -r -- $file; done }
_normal() { [[ $CURRENT == ${#words} ]] && print -rl -- ${^path}/$words[CURRENT]*(N:t) }
fpath=($1 $fpath); shift; autoload -Uz _fabemu
words=("$@") CURRENT=$# PREFIX=${@[-1]}
_fabemu
'''
BASH = r'''
. "$1/fabemu.bash"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
_fabemu "$1" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
printf '%s\n' "${COMPREPLY[@]}"
'''


def read(path):
    """A manual page with plain hyphens."""
    with open(path, encoding="utf-8") as f:
        return f.read().replace("\\-", "-")


class HelpCase(FabemuCase):
    @property
    def build(self):
        return os.path.dirname(self.command)

    def help_of(self, *command):
        done = self.fabemu(*command, "--help")
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def commands(self):
        found = re.findall(r"^  ([a-z]+) ", self.help_of().split("For example")[0], re.M)
        return [name for name in found if name != "fabemu"]

    def options(self, command):
        found = re.findall(r"^ +(?:-\w, )?(--[\w-]+)", self.help_of(command), re.M)
        self.assertIn("--help", found)
        return found


class ManualTest(HelpCase):
    def page(self, name, section):
        return os.path.join(self.build, f"docs/man{section}/{name}.{section}")

    def test_commands__have_a_page_with_each_option(self):
        overview = read(self.page("fabemu", 1))
        self.assertIn("run", self.commands())
        for command in self.commands():
            page = read(self.page("fabemu-" + command, 1))
            for option in self.options(command):
                self.assertIn(f"\\fB{option}\\fR", page, command)
            self.assertIn(f"fabemu-{command} (1)", overview)
        self.assertIn("\n.TP\n\\fBcut-off\\fR (5s)\n", read(self.page("fabemu-run", 1)))
        pages = glob.glob(self.page("fabemu-*", 1))
        self.assertEqual(len(pages), len(self.commands()) + 1)
        self.assertEqual(read(self.page("fabemu-wide", 1)), ".so man1/fabemu.1\n")

    def test_functions__have_a_page_with_content(self):
        with open(os.path.join(TOP, "nic/fabemu.h"), encoding="utf-8") as f:
            functions = set(re.findall(r"\b(fabemu_\w+)\([^()]*(?:\([^()]*\)[^()]*)*\)(?:;|\n\{)",
                                       re.sub(r"/\*.*?\*/", "", f.read(), flags=re.S)))
        self.assertIn("fabemu_attach", functions)
        overview = read(self.page("libfabemu", 3))
        for function in functions:
            page = read(self.page(function, 3))
            moved = re.fullmatch(r"\.so man3/(\w+)\.3\n", page)
            page = read(self.page(moved[1], 3)) if moved else page
            self.assertRegex(page, rf"(?s)\.SH NAME\n[^\n]*\b{function}\b[^\n]* - \w")
            self.assertRegex(page, rf"(?s)\.SH SYNOPSIS\n.*\b{function}\(.*\.SH DESCRIPTION\n"
                                   r"\.PP\n[\\\w]")
            self.assertIn(rf"\fB{function}\fR(3)", overview)
        exported = subprocess.run(["nm", "-D", "--defined-only",
                                   os.path.join(self.build, "nic/libfabemu.so")], text=True,
                                  capture_output=True, check=True, timeout=30).stdout
        exported = {line.split()[-1].split("@")[0] for line in exported.splitlines()}
        inline = {"fabemu_atomic_ok", "fabemu_event_count", "fabemu_event_failures",
                  "fabemu_req_status"}
        self.assertEqual(exported, functions - inline)

    def test_help__names_existing_pages(self):
        named = set()
        for command in ((), *((command,) for command in self.commands())):
            text = self.help_of(*command)
            docs = re.findall(r"docs/([a-z]\S*\.md)", text)
            pages = re.findall(r"\b(fabemu[\w-]*)\((\d)\)", text.replace("COMMAND", "run"))
            files = re.findall(r"man -l build/(\S+)", text)
            for path in (*(os.path.join(TOP, "docs", name) for name in docs),
                         *(self.page(*page) for page in pages),
                         *(os.path.join(self.build, name) for name in files)):
                self.assertTrue(os.path.exists(path), (command, path))
            named |= {*docs, *pages, *files}
        self.assertLessEqual({"capture.md", ("fabemu", "1"), ("fabemu-run", "1"),
                              "docs/man1/fabemu-run.1"}, named)

    @unittest.skipUnless(shutil.which("groff"), "needs groff")
    def test_pages__are_accepted_by_man(self):
        pages = glob.glob(self.page("*", "[137]"))
        self.assertGreater(len(pages), 60)
        done = subprocess.run(["groff", "-Kutf8", "-Tutf8", "-man", "-ww", "-rF0", "-z", *pages],
                              text=True, capture_output=True, timeout=60,
                              cwd=os.path.join(self.build, "docs"))
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    @unittest.skipUnless(shutil.which("groff"), "needs groff")
    def test_pages_of_commands__fit_into_80_columns(self):
        for page in glob.glob(self.page("*", "[17]")):
            with self.subTest(page=page):
                text = subprocess.run(["groff", "-Kutf8", "-Tutf8", "-P-cbou", "-man", "-rLL=80n",
                                       page], text=True, capture_output=True, timeout=60,
                                      cwd=os.path.join(self.build, "docs"), check=True).stdout
                for line in text.split("\n"):
                    self.assertLessEqual(len(line), 80, line)

class ScriptsTest(unittest.TestCase):
    def test_help__of_each_script_from_any_folder(self):
        scripts = [path for path in glob.glob(os.path.join(TOP, "scripts/*"))
                   if os.path.isfile(path) and os.access(path, os.X_OK)]
        self.assertGreater(len(scripts), 10)
        for script in scripts:
            for name, folder in ((script, "/"),
                                 (f"../scripts/{os.path.basename(script)}", f"{TOP}/docs")):
                done = subprocess.run([name, "--help"], stdin=subprocess.DEVNULL, text=True,
                                      capture_output=True, timeout=60, cwd=folder)
                with self.subTest(script=name):
                    self.assertEqual((done.returncode, done.stderr), (0, ""))
                    self.assertIn(os.path.basename(script), done.stdout)


class BashTest(HelpCase):
    shell = ["bash", "-c", BASH, "bash"]

    def with_value(self, option, value):
        return option, "=", value

    def complete(self, *words):
        """The shell's completions of the last of @words."""
        done = subprocess.run([*self.shell, COMPLETIONS, self.command, *words],
                              env=self.env, text=True, stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=60, cwd=self.dir)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.split("\n")[:-1] if done.stdout != "\n" else []

    def test_completion__offers_each_command_and_each_option(self):
        self.assertEqual(set(self.complete("")), {*self.commands(), "--help", "--version"})
        self.assertEqual(self.complete("tra"), ["traffic"])
        for command in self.commands():
            self.assertEqual(set(self.complete(command, "-")), set(self.options(command)), command)

    def test_completion__offers_values(self):
        open(os.path.join(self.dir, "lab.json"), "w").close()
        for words, offered in (
                (("run", "--clock", ""), {"raw", "real", "virtual"}),
                (("run", *self.with_value("--clock", "re")), {"real"}),
                (("run", "--threads", ""), {"device", "auto"}),
                (("run", "--faults", "flapping-l"), {"flapping-link"}),
                (("run", "--report", "la"), {"lab.json"}),
                (("capture", "-w", "la"), {"lab.json"}),
                (("run", "--seed", ""), set()),
                (("run", "--clock", "raw", ""), {"--"}),
                (("run", "--bound", "sil"), {"silence="}),
                (("run", "--profile", "os"), set()),
                (("run", "--profile", "o"), {"oq2004"}),
                (("run", "--topo", "k"), {"kary:"}),
                (("topo", "q"), {"qsnet:"}),
                (("run", "--profile", "sh"), {"sharp"}),
                (("run", "--set", "link_r"), {"link_retry="}),
                (("run", "--set", *self.with_value("link_retry", "")), {"none", "go_back_n"}),
                (("run", "--set", *self.with_value("buffers", "xp")), {"xpoint"}),
                (("run", "--set", *self.with_value("switch_ps", "")), set()),
                (("traffic", "--clock", ""), {"virtual"}),
                (("traffic", "--pattern", "t"), {"transpose", "tornado"}),
                (("traffic", "--pattern", "hot"), {"hotspot:"}),
                (("traffic", "--fanout-law", ""), {"uniform", "binomial", "fixed"}),
                (("traffic", "--tclass", ""), {"default", "bulk", "latency"}),
                (("status", "--names", "n"), {"node_exporter"}),
                (("traffic", "--multicast", ""), {"hardware", "messages", "tree"}),
                (("run", *self.with_value("--web", "w")), {"wait"}),
                (("run", "--web", ""), {"--"}),  # a value would follow '='
                (("top", "--page", "s"), {"switches"}),
                (("bench", "--only", "hos"), {"hostlink"}),
                (("bench", "--only", "mpi.coll"), {f"mpi.collectives.np{n}" for n in (4, 8, 16)}),
                (("help", "tra"), {"traffic"}),
                (("fault", "link-d"), {"link-down"}),
                (("run", "--", "tru"), {"true", "truncate"}),
                (("nothing", "-"), set()),
        ):
            with self.subTest(words=words):
                self.assertEqual(set(self.complete(*words)), offered)

    def test_completion__offers_no_option_as_a_value(self):
        for option, name in ("--set", "combine_states"), ("--bound", "silence"):
            self.assertLessEqual(set(self.complete("run", option, *self.with_value(name, ""))),
                                 {name + "="})

    def test_completion__offers_running_fabrics(self):
        self.assertEqual(self.complete("status", ""), [])
        self.up("lab-1")
        self.up("lab-2")
        named = [command for command in self.commands()
                 if "[NAME" in self.fabemu(command, "--help").stdout.split("\n")[0]]
        self.assertLessEqual({"down", "status", "check", "env", "top", "web", "capture", "up"},
                             set(named))
        self.assertEqual(self.complete("up", "l"), [])  # the name of a new one
        for command in set(named) - {"up"}:
            self.assertEqual(set(self.complete(command, "lab")), {"lab-1", "lab-2"})
        self.assertEqual(self.complete("fault", "--name", "lab-1"), ["lab-1"])

    def test_completion__offers_keys_of_faults_and_names_of_nodes(self):
        topo = os.path.join(self.dir, "two.topo")
        with open(topo, "w", encoding="ascii") as f:
            f.write('Switch 4 "leaf"\n[1] "gpu-01"[1]\n[2] "gpu-02"[1]\n[3] "login"[1]\n'
                    'Ca 1 "gpu-01"\nCa 1 "gpu-02"\nCa 1 "login"\n')
        self.up("lab", "--topo", topo)
        self.assertEqual(set(self.complete("fault", "lab", "loss", "fro")), {"from="})
        self.assertEqual(set(self.complete("fault", "lab", "los")), {"loss"})
        for command in ("fault", "lab", "loss"), ("capture", "lab"):
            for key in "node", "nodes", "from", "to":
                self.assertEqual(set(self.complete(*command, *self.with_value(key, "gpu"))),
                                 {"gpu-01", "gpu-02"})


@unittest.skipUnless(shutil.which("zsh"), "SKIPPED: zsh is not installed (scripts/deps zsh)")
class ZshTest(BashTest):
    shell = ["zsh", "-f", "-c", ZSH, "zsh"]

    def with_value(self, option, value):
        return [f"{option}={value}"]


if __name__ == "__main__":
    main()
