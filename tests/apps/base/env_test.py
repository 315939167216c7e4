#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""env_test.py - the environment that `fabemu run` and `fabemu env` set, together with a user's own
settings for mpirun: variables, command line, files, and locale. The user's settings take
precedence; if one of them keeps messages off the fabric, fabemu prints a warning.

   tests/apps/base/env_test.py --fabemu build/fabemu [unittest options]
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), *[os.pardir] * 2,
                                "cli"))
from cli_helpers import FabemuCase, main  # noqa: E402

PROGRAM = r"""
#include <locale.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv)
{
    int rank, sum, other;
    const char *locale = setlocale(LC_ALL, ""), *word = getenv("WORD");
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Sendrecv(&rank, 1, MPI_INT, !rank, 0, &other, 1, MPI_INT, !rank, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    if (rank == 0)
        printf("sum %d, locale %s, word %s\n", sum, locale ? locale : "none", word ? word : "none");
    MPI_Finalize();
    return 0;
}
"""
# Prints the environment of a command that does not use MPI.
SHOW = ("env", "-0")
TURKISH = "/usr/share/i18n/locales/tr_TR"
# locale name: source and character set; in each, toupper('i') is not I
DOTTED = {"tr_TR.UTF-8": ("tr_TR", "UTF-8"), "tr_TR": ("tr_TR", "ISO-8859-9"),
          "az_AZ.UTF-8": ("az_AZ", "UTF-8")}


def variables(text):
    return dict(line.split("=", 1) for line in text.split("\0") if line)


class SettingsTest(FabemuCase):
    def shown(self, *command, **env):
        done = self.fabemu("run", "--name", "e", "--", *(command or SHOW), env={**self.env, **env})
        self.assertEqual(done.returncode, 0, done.stderr)
        return variables(done.stdout), done.stderr.split("fabemu: report")[0]

    def test_nothing_set(self):
        got, said = self.shown()
        self.assertEqual(said, "")
        self.assertEqual([got["FI_PROVIDER"], got["OMPI_MCA_pml"], got["OMPI_MCA_mtl"]],
                         ["fabemu", "cm", "ofi"])
        self.assertTrue(got["OMPI_MCA_mca_base_component_path"].endswith(
            ":SYSTEM_DEFAULT:USER_DEFAULT"))
        # mpirun refuses -x together with the first; the second configures remote hosts
        self.assertNotIn("OMPI_MCA_mca_base_env_list", got)
        self.assertNotIn("OMPI_MCA_orte_launch_agent", got)
        self.assertNotIn("pt2pt", got["OMPI_MCA_osc"])  # Open MPI 5 has no pt2pt, and would abort

    def test_empty__counts_as_not_set(self):
        plain, _ = self.shown()
        names = [name for name in plain if name.startswith(("FI_", "OMPI_MCA_"))]
        self.assertGreater(len(names), 10)
        got, said = self.shown(**dict.fromkeys(names, ""))
        self.assertEqual(said, "")
        for name in names:
            if "tmpdir" not in name:  # the run's own folder
                self.assertEqual(got[name], plain[name], name)
        self.assertTrue(got["OMPI_MCA_orte_tmpdir_base"])

    def test_value_that_allows_the_fabric__gives_no_warning(self):
        for name, value in (("FI_PROVIDER", "tcp,fabemu"), ("FI_PROVIDER", "^tcp,udp"),
                            ("OMPI_MCA_pml", "^ob1,ucx"), ("OMPI_MCA_mtl", "psm2,ofi"),
                            ("OMPI_MCA_btl", "tcp,self"), ("OMPI_MCA_osc", "sm"),
                            ("OMPI_MCA_coll", "^fabemu")):
            with self.subTest(name=name, value=value):
                got, said = self.shown(**{name: value})
                self.assertEqual((got[name], said), (value, ""))

    def test_value_that_excludes_the_fabric__gives_a_warning(self):
        for name, value in (("FI_PROVIDER", "tcp"), ("FI_PROVIDER", "^fabemu"),
                            ("FI_PROVIDER", "fabemu2"), ("OMPI_MCA_pml", "ob1"),
                            ("OMPI_MCA_pml", "^cm"), ("OMPI_MCA_mtl", "psm2"),
                            ("OMPI_MCA_mtl_ofi_provider_include", "psm3"),
                            ("OMPI_MCA_opal_common_ofi_provider_include", "psm3")):
            with self.subTest(name=name, value=value):
                got, said = self.shown(**{name: value})
                self.assertEqual(got[name], value)
                self.assertRegex(said, f"^fabemu: {name}=.*keeps programs off the fabric: .*\n$")

    def test_parameters_that_open_mpi_refuses_together(self):
        ours = "OMPI_MCA_mtl_ofi_provider_include"
        for theirs in ("OMPI_MCA_mtl_ofi_provider_exclude",
                       "OMPI_MCA_opal_common_ofi_provider_exclude"):
            for value in ("tcp", ""):
                self.assertNotIn(ours, self.shown(**{theirs: value})[0])
        self.assertNotIn("OMPI_MCA_rmaps_base_oversubscribe",
                         self.shown(OMPI_MCA_rmaps_base_no_oversubscribe="1")[0])
        folder = os.path.join(self.dir, "home/.openmpi")
        os.makedirs(folder)
        for name, refused in (("mtl_ofi_provider_exclude", ours),
                              ("rmaps_base_no_oversubscribe", "OMPI_MCA_rmaps_base_oversubscribe")):
            for line, is_set in ((f"\t{name} = tcp\n", False), (f"# {name} = tcp\n", True),
                                 (f"x = 1\n{name}=1", False), (f"{name}s = 1\n", True)):
                with open(os.path.join(folder, "mca-params.conf"), "w") as f:
                    f.write(line)
                got, _ = self.shown(HOME=os.path.join(self.dir, "home"))
                self.assertEqual(refused in got, is_set, line)
        got, _ = self.shown("sh", "-c", "env -0", "--map-by", "core:NOOVERSUBSCRIBE")
        self.assertEqual(got["OMPI_MCA_rmaps_base_oversubscribe"], "0")

    def test_option_that_excludes_providers__unsets_only_our_variable(self):
        ours, option = "OMPI_MCA_mtl_ofi_provider_include", "mtl_ofi_provider_exclude"
        for words, is_set in ((("--mca", option, "tcp"), False),
                              (("--gmca", f"opal_common_{option[4:]}", "tcp"), False),
                              ((f"OMPI_MCA_{option}=tcp",), False),
                              ((f"mpirun --mca {option} tcp ./program",), False),
                              ((option,), True), (("--input", f"my_{option}.txt"), True)):
            with self.subTest(words=words):
                command = ("sh", "-c", "env -0", *words)
                self.assertEqual(ours in self.shown(*command)[0], is_set)
                self.assertEqual(self.shown(*command, **{ours: "fabemu"})[0][ours], "fabemu")

    def test_open_mpi_5__gets_its_own_settings(self):
        names = ("OMPI_MCA_pml", "OMPI_MCA_btl", "OMPI_MCA_osc")
        folder = pathlib.Path(self.dir, "five")
        folder.mkdir()
        for name in ("mpirun", "prterun"):
            (folder / name).write_text('#!/bin/sh\nexec env -0\n')
            (folder / name).chmod(0o755)
        for command, path in (((str(folder / "mpirun"),), ""), (SHOW, f"{folder}:")):
            with self.subTest(command=command):
                got, said = self.shown(*command, PATH=path + self.env["PATH"])
                self.assertEqual([got[name] for name in names], [
                    "^monitoring,ucx,v", "self,ofi", "^monitoring,portals4,ucx"])
                self.assertEqual(got["PRTE_MCA_rmaps_default_mapping_policy"], ":oversubscribe")
                self.assertTrue(got["PRTE_MCA_prte_tmpdir_base"])
                self.check_component(got, said, 5)
        (folder / "prterun").unlink()
        got, said = self.shown(PATH=f"{folder}:" + self.env["PATH"])
        self.assertEqual(got["OMPI_MCA_pml"], "cm")
        self.check_component(got, said, 4)

    def check_component(self, got, said, major):
        """A release of Open MPI loads only a component that is built for it."""
        name = f"OMPI_MCA_{'opal_' if major == 5 else ''}mca_base_component_path"
        if said:
            self.assertRegex(said, f"^fabemu: collectives of Open MPI {major} will not run in the "
                                   "switches, .* is built for Open MPI [45]\n$")
            self.assertNotIn(name, got)
        else:
            self.assertIn(name, got)

    def test_mpich__keeps_messages_within_a_host_on_the_fabric(self):
        ours = "MPIR_CVAR_NOLOCAL"
        self.assertEqual(self.shown()[0][ours], "1")
        self.assertEqual(self.shown(**{ours: "0"})[0][ours], "0")
        for theirs in ("MPIR_CVAR_NO_LOCAL", "MPIR_CVAR_NUM_CLIQUES", "MPIR_CVAR_ODD_EVEN_CLIQUES"):
            self.assertNotIn(ours, self.shown(**{theirs: "2"})[0])

    def test_own_components__are_found(self):
        got, _ = self.shown(OMPI_MCA_mca_base_component_path="/mine:SYSTEM_DEFAULT")
        self.assertTrue(got["OMPI_MCA_mca_base_component_path"].endswith(":/mine:SYSTEM_DEFAULT"))

    def test_dotted_i__names_stay_ascii(self):
        got, _ = self.shown(FI_PROVIDER="fabemu,tcp")
        self.assertEqual(got["FI_PROViDER"], "fabemu,tcp")
        self.assertEqual(got["FI_PROViDER_PATH"], got["FI_PROVIDER_PATH"])
        self.assertTrue("".join(got).isascii()) # some programs abort on other characters in a name

    def test_env__can_be_evaluated_by_a_shell(self):
        self.up("e")
        text = self.fabemu("env", "e").stdout
        self.assertTrue(text.isascii(), text)
        self.assertIn("export FI_PROViDER_PATH=", text)
        done = subprocess.run(["sh", "-ec", f'eval "$({self.command} env e)"; env -0'],
                              env={**self.env, "FI_PROVIDER": "tcp"}, text=True,
                              capture_output=True, check=True)
        self.assertIn("FI_PROVIDER=tcp", done.stderr)
        self.assertEqual(variables(done.stdout)["OMPI_MCA_pml"], "cm")


@unittest.skipUnless(shutil.which("mpirun") and shutil.which("mpicc"), "needs Open MPI")
class MpirunTest(FabemuCase):
    @classmethod
    def setUpClass(cls):
        cls.build = tempfile.mkdtemp(prefix="fabemu-env.")
        cls.program = os.path.join(cls.build, "sum")
        with open(cls.program + ".c", "w", encoding="ascii") as f:
            f.write(PROGRAM)
        subprocess.run(["mpicc", cls.program + ".c", "-o", cls.program], check=True)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.build, ignore_errors=True)

    def file(self, name, text):
        path = os.path.join(self.dir, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="ascii") as f:
            f.write(text)
        return path

    def run_mpi(self, *mpirun, **env):
        """Run two ranks; returns the run and its report."""
        path = os.path.join(self.dir, "report.json")
        done = self.fabemu("run", "--topo", "kary:2,2", "--report", path, "--", "mpirun", *mpirun,
                           "-np", "2", self.program, env={**self.env, **env})
        with open(path, encoding="utf-8") as f:
            return done, json.load(f)

    def check_result(self, *mpirun, word="none", **env):
        """Check that the program's result is right and that all messages use the fabric."""
        done, report = self.run_mpi(*mpirun, **env)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, f"sum 1, locale .*, word {word}\n")
        self.assertIsNone(report["outside"], done.stderr)
        self.assertEqual(report["collectives"]["allreduce"]["in_switch"], 1, done.stderr)
        self.assertGreater(report["segments"]["sent"], 2)
        return done

    def test_x(self):
        """mpirun refuses -x together with mca_base_env_list."""
        self.check_result("-x", "WORD=x", word="x")
        self.check_result("-x", "WORD", WORD="there", word="there")
        self.check_result("--tune", self.file("tune", "-x WORD=tuned\n"), word="tuned")
        self.check_result("--mca", "mca_base_env_list", "WORD=list", word="list")
        self.check_result(OMPI_MCA_mca_base_env_list="WORD=env", word="env")

    def test_x__after_env(self):
        self.up("e")
        script = f'eval "$({self.command} env e)"; mpirun -x WORD=x -np 2 {self.program}'
        done = subprocess.run(["sh", "-ec", script], env=self.env, text=True, capture_output=True,
                              timeout=60)
        self.assertRegex(done.stdout, "sum 1, locale .*, word x\n")
        self.assertEqual(self.status("e")["report"]["collectives"]["allreduce"]["in_switch"], 1)

    def test_file_of_parameters__loses_to_the_environment(self):
        for text in ("pml = ob1\n", "mtl_ofi_provider_include = psm3\n", "osc = ^ucx\n"):
            with self.subTest(text=text):
                self.file("home/.openmpi/mca-params.conf", text)
                self.check_result(HOME=os.path.join(self.dir, "home"))
        self.check_result("-am", self.file("am", "pml = ob1\n"))
        self.check_result("--tune", self.file("tune", "-mca pml ob1 -x WORD=tuned\n"), word="tuned")

    def test_oversubscribing(self):
        self.check_result("--nooversubscribe", "--host", "localhost:2")
        self.check_result("--map-by", "slot:NOOVERSUBSCRIBE", "--host", "localhost:2")
        self.check_result("--host", "localhost:1")

    def test_provider_excluded(self):
        self.check_result(OMPI_MCA_mtl_ofi_provider_exclude="tcp")
        self.check_result(OMPI_MCA_mtl_ofi_provider_exclude="")
        self.check_result("--mca", "mtl_ofi_provider_exclude", "tcp")
        self.file("home/.openmpi/mca-params.conf", "mtl_ofi_provider_exclude = tcp\n")
        self.check_result(HOME=os.path.join(self.dir, "home"))

    def test_messages_by_another_transport__are_reported(self):
        """Collectives still use the switches."""
        for where in ("command line", "environment"):
            with self.subTest(where=where):
                way = ("--mca", "pml", "ob1", "--mca", "btl", "vader,self")
                env = {}
                if where == "environment":
                    way, env = (), {"OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "vader,self"}
                done, report = self.run_mpi(*way, **env)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(report["outside"]["processes"], 2)
                self.assertRegex(report["outside"]["why"], "with pml ob1 instead of cm")
                self.assertEqual(
                    done.stderr.count("MPI messages do not pass through the fabric: "), 1)
                self.assertIn("\n  outside      MPI messages of 2 processes ", done.stderr)
                self.assertEqual("OMPI_MCA_pml=ob1, which you" in done.stderr, bool(env))

    def test_messages_by_another_transport__that_reaches_no_peer(self):
        """Open MPI's error only says that processes cannot reach each other."""
        done, report = self.run_mpi("--mca", "pml", "ob1")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("with pml ob1 instead of cm", done.stderr.split("fabemu: report")[0])
        self.assertIn("with pml ob1 instead of cm", report["outside"]["why"])

    def test_another_provider(self):
        done, report = self.run_mpi("-x", "FI_PROVIDER=tcp", FI_PROVIDER="tcp")
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(report["segments"]["sent"], 0)
        self.assertRegex(done.stderr, "fabemu: FI_PROVIDER=tcp, which you have set, keeps")
        self.assertIn("select another network?", done.stderr)

    @unittest.skipUnless(shutil.which("localedef") and os.path.exists(TURKISH),
                         "needs the sources of locales")
    def test_locale_with_a_dotted_capital_i(self):
        for name, (source, charmap) in DOTTED.items():
            with self.subTest(locale=name):
                subprocess.run(["localedef", "-i", source, "-f", charmap,
                                os.path.join(self.dir, name)], check=True, capture_output=True)
                done = self.check_result(LOCPATH=self.dir, LC_ALL=name)
                self.assertIn(f"locale {name},", done.stdout)

    def test_session_folder__stays_while_several_mpiruns_share_it(self):
        """Otherwise the first mpirun to end would remove it while another creates a subfolder."""
        look = 'mpirun -np 1 true && ls -d "$OMPI_MCA_orte_tmpdir_base"/ompi.*.*'
        done = self.fabemu("run", "--", "sh", "-c", look)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f".{os.geteuid()}\n", done.stdout)


if __name__ == "__main__":
    main()
