#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""install_test.py - the files of `meson install` work from their prefix, without the build folder.

   tests/cli/install_test.py --fabemu build/fabemu [unittest options]
"""
import glob
import os
import re
import shutil
import subprocess
import unittest

from cli_helpers import FabemuCase, main

NOBODY = 65534
PROGRAM = r'''
#include <mpi.h>
#include <stdio.h>
#include <string.h>
int main(int argc, char **argv)
{
    char line[4096];
    int one = 1, sum = 0, rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    FILE *maps = fopen("/proc/self/maps", "r");
    while (rank == 0 && fgets(line, sizeof line, maps))
        if (strstr(line, "fabemu") && strchr(line, '/') && strstr(line, ".so"))
            fputs(strchr(line, '/'), stdout);
    fclose(maps);
    MPI_Finalize();
    return sum != 2;
}
'''


@unittest.skipUnless(shutil.which("meson") and shutil.which("mpicc"), "needs meson and mpicc")
class InstallTest(FabemuCase):
    def setUp(self):
        super().setUp()
        self.env.pop("LD_LIBRARY_PATH", None)
        self.build = os.path.dirname(self.command)
        done = subprocess.run(["meson", "install", "-C", self.build, "--no-rebuild", "--destdir",
                               os.path.join(self.dir, "root")], text=True, capture_output=True,
                               timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        (self.installed,) = glob.glob(os.path.join(self.dir, "root/**/bin/fabemu"), recursive=True)
        self.prefix = os.path.dirname(os.path.dirname(self.installed))

    def without_the_build(self, *command):
        """Run with an empty folder mounted over the build, and as an ordinary user, as far as
        permitted."""
        space = ["unshare", "--mount"] + (["--map-root-user", "--user"] if os.geteuid() else [])
        nobody = [] if os.geteuid() else ["setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY),
                                          "--clear-groups"]
        hidden = [*space, "sh", "-c", 'mount -t tmpfs none "$0" && exec "$@"', self.build, *nobody]
        if subprocess.run([*hidden, "true"], capture_output=True, timeout=30).returncode:
            hidden = nobody
        if nobody: # the ordinary user must own these files
            for folder, _, _ in os.walk(self.dir):
                os.chown(folder, NOBODY, NOBODY)
        return subprocess.run([*hidden, *command], env={**self.env, "HOME": self.dir}, text=True,
                              stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=60, cwd=self.dir)

    def test_installed__runs_mpi_programs_with_its_own_libraries(self):
        source, program = (os.path.join(self.dir, name) for name in ("p.c", "p"))
        with open(source, "w") as f:
            f.write(PROGRAM)
        subprocess.run(["mpicc", source, "-o", program], check=True, timeout=60)
        done = self.without_the_build(self.installed, "run", "--topo", "kary:2,2", "--", "mpirun",
                                      "-np", "2",
                                      program)
        self.assertEqual(done.returncode, 0, done.stderr)
        # in the switches: the component is installed, too
        self.assertRegex(done.stderr, r"allreduce +1 +0 +0")
        parts = set(done.stdout.split())
        self.assertEqual({os.path.basename(part).split(".so")[0] for part in parts},
                         {"libfabemu", "libfabemu-fi", "mca_coll_fabemu", "mca_osc_fabemu"})
        for part in parts:
            self.assertTrue(os.path.realpath(part).startswith(os.path.realpath(self.prefix) + "/"),
                            part)

    def test_installed__a_process_has_one_libfabemu(self):
        """A package may have a copy beside the one that Open MPI loads, and a program may be
        linked with either."""
        (library,) = glob.glob(os.path.join(self.prefix, "lib*/**/libfabemu.so.0"), recursive=True)
        folder = os.path.dirname(library)
        beside = shutil.copy(library, os.path.join(folder, "fabemu"))
        source = os.path.join(self.dir, "p.c")
        with open(source, "w") as f:
            f.write(PROGRAM)
        linked = ["-Wl,--no-as-needed", f"-L{folder}", "-lfabemu", f"-Wl,-rpath,{folder}"]
        for name, flags, wanted in ("alone", [], beside), ("linked", linked, library):
            program = os.path.join(self.dir, name)
            subprocess.run(["mpicc", source, "-o", program, *flags], check=True, timeout=60)
            done = self.without_the_build(self.installed, "run", "--topo", "kary:2,2", "--",
                                          "mpirun", "-np", "2", program)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stderr, r"allreduce +1 +0 +0")
            mapped = {os.path.realpath(part) for part in done.stdout.split()
                      if os.path.basename(part).startswith("libfabemu.so")}
            self.assertEqual(mapped, {os.path.realpath(wanted)}, name)

    @unittest.skipUnless(shutil.which("pkg-config"), "needs pkg-config")
    def test_installed__programs_find_libfabemu(self):
        source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../apps/example.c")
        (folder,) = glob.glob(os.path.join(self.prefix, "lib/**/pkgconfig"), recursive=True)
        flags = subprocess.run(["pkg-config", "--define-variable=prefix=" + self.prefix, "--cflags",
                                "--libs", "libfabemu"],
                               env={**self.env, "PKG_CONFIG_PATH": folder}, text=True, check=True,
                               capture_output=True, timeout=30).stdout.split()
        program = os.path.join(self.dir, "example")
        subprocess.run(["cc", source, "-o", program, *flags], check=True, timeout=60)
        libraries = self.without_the_build("ldd", program).stdout
        self.assertRegex(libraries, rf"libfabemu\.so\.\d+ => {re.escape(self.prefix)}/")
        done = self.without_the_build(self.installed, "run", "--", "sh", "-c",
                                      f"for i in 0 1; do FABEMU_NODE=$i {program} 2 & done; wait")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, r"allreduce +1 +0 +0")

    def test_installed__ports_to_other_hosts(self):
        """DPDK's library is found from the prefix: a port that loops its frames back."""
        program = os.path.join(self.prefix, "bin", "exchange")
        shutil.copy(os.path.join(self.build, "tests", "hostlink_exchange"), program)
        done = self.without_the_build(program, "net_ring0", "10")
        if "built without DPDK" in done.stderr:
            self.skipTest(done.stderr.strip())
        self.assertEqual(done.returncode, 0, done.stderr)
        (library,) = glob.glob(os.path.join(self.prefix, "lib*/**/libfabemu-dpdk.so"),
                               recursive=True)
        os.remove(library)
        done = self.without_the_build(program, "net_ring0", "10")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("libfabemu-dpdk.so is neither beside this program nor where", done.stderr)

    def test_installed__has_its_pages_its_completion_and_its_figures(self):
        for path in ("man/man1/fabemu.1", "man/man1/fabemu-run.1", "man/man3/fabemu_attach.3",
                     "man/man7/fabemu.7", "bash-completion/completions/fabemu",
                     "zsh/site-functions/_fabemu", "doc/fabemu/manual.md",
                     "doc/fabemu/page.png", "doc/fabemu/CITATION.cff",
                     "doc/fabemu/examples/example.c", "fabemu/fabemu.lua"):
            self.assertTrue(os.path.getsize(os.path.join(self.prefix, "share", path)), path)
        done = self.without_the_build(self.installed, "figures", "--help")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_installed__has_every_page_that_the_source_has(self):
        """--help refers to these pages as docs/NAME.md."""
        docs = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs")
        self.assertEqual(set(glob.glob("*.md", root_dir=docs)),
                         set(glob.glob("*.md", root_dir=os.path.join(self.prefix,
                                                                     "share/doc/fabemu"))))

    def test_installed__has_programs_to_try_it(self):
        (folder,) = glob.glob(os.path.join(self.prefix, "lib*/**/fabemu"), recursive=True)
        for words in (("mpirun", "-np", "2", os.path.join(folder, "mpi_check"), "--quick"),
                      (os.path.join(folder, "demo"), "4", "1", "1")):
            done = self.without_the_build(self.installed, "run", "--topo", "kary:2,2", "--", *words)
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_installed__finds_the_mpi_programs_that_it_measures(self):
        mpirun, asked = (os.path.join(self.dir, name) for name in ("mpirun", "asked"))
        with open(mpirun, "w") as f:
            f.write(f'#!/bin/sh\nprintf "%s\\n" "$@" >>{asked}\n')
        os.chmod(mpirun, 0o755)
        self.env["PATH"] = self.dir + ":" + self.env["PATH"]
        done = self.without_the_build(self.installed, "bench", "--quick", "--repeat", "1",
                                      "--only", "mpi.latency8")
        self.assertEqual(done.stderr, "")
        with open(asked) as f:
            (program,) = {line for line in f.read().split("\n") if line.endswith("_bench")}
        self.assertTrue(os.path.realpath(program).startswith(self.prefix + "/"), program)
        done = self.without_the_build(program, "--help")
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    main()
