#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""mpi_lifecycle_test.py - starts and ends of real MPI programs: when one process is killed, all
others of its run end; processes spawned on nodes that others have left get their messages;
collectives for which the fabric has no resources use messages. Four ranks reduce without end
under mpirun; one of them, the fabric, the supervisor or mpirun is killed, or the run is
interrupted.

   tests/cli/mpi_lifecycle_test.py --fabemu build/fabemu [unittest options]
"""
import glob
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from cli_helpers import FabemuCase, alive, end_of_spawning, flat, main, until

RANKS = 4
SPAWN_S = 25  # for steps that take 3
PROGRAM = r"""
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    int one = 1, sum, rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("reduced %d\n", sum);
        fflush(stdout);
    }
    for (;;)
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
}
"""


QUITTER = r"""
#include <mpi.h>
#include <stdlib.h>
int main(int argc, char **argv)
{
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1)
        exit(0); /* without MPI_Finalize() */
    MPI_Barrier(MPI_COMM_WORLD);
}
"""
# A small message is complete as soon as it is sent. It is sent when the test has created argv[1].
CUT = r"""
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    int rank, word = 1, flag;
    double start;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (rank == 0)
        MPI_Send(&word, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
    if (rank == 1)
        MPI_Recv(&word, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        printf("connected\n");
        fflush(stdout);
    }
    while (rank > 0)
        pause(); /* until rank 0 ends the run */
    while (access(argv[1], F_OK))
        usleep(1000);
    MPI_Send(&word, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
    for (start = MPI_Wtime(); MPI_Wtime() - start < 8; usleep(1000))
        MPI_Iprobe(MPI_ANY_SOURCE, 9, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    printf("rank 0 survives\n");
    fflush(stdout);
    _exit(0);
}
"""
LARGE = r"""
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#define COUNT 20000
int main(int argc, char **argv)
{
    int *in = malloc(COUNT * sizeof(int)), *out = malloc(COUNT * sizeof(int));
    int rank, size, wrong = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < COUNT; i++)
        in[i] = rank + i;
    for (int round = 0; round < 3; round++) {
        MPI_Allreduce(in, out, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        MPI_Allreduce(in, out, COUNT, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        for (int i = 0; i < COUNT; i++)
            wrong += out[i] != size * i + size * (size - 1) / 2;
    }
    if (rank == 0)
        printf("%d wrong\n", wrong);
    MPI_Finalize();
    return 0;
}
"""
UNFINISHED = r"""
#include <mpi.h>
#include <mpi-ext.h>
int main(int argc, char **argv)
{
    static int in = 1, out[3];
    MPI_Request request;
    MPI_Comm copy;
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    if (rank != 0)
        MPI_Iallreduce(&in, &out[0], 1, MPI_INT, MPI_SUM, copy, &request);
    if (rank != 0)
        MPI_Iallreduce(&in, &out[1], 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
    MPIX_Allreduce_init(&in, &out[2], 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    if (rank != 0)
        MPI_Start(&request);
    MPI_Finalize();
    return 0;
}
"""
# The network executes these collectives by others.
COMPOSED = r"""
#include <mpi.h>
int main(int argc, char **argv)
{
    int in = 1, out[3];
    MPI_Init(&argc, &argv);
    MPI_Allgather(&in, 1, MPI_INT, out, 1, MPI_INT, MPI_COMM_WORLD);
    MPI_Gather(&in, 1, MPI_INT, out, 1, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
"""
# Persistent requests for more than 4 GB, which are never started.
HUGE = r"""
#include <mpi.h>
#include <mpi-ext.h>
#define WHOLE ((1 << 29) + 1) /* numbers: 8 bytes more than 4 GB */
#define PART ((1 << 27) + 1) /* in 4 ranks together: 32 bytes more than 4 GB */
#define ON MPI_COMM_WORLD, MPI_INFO_NULL
int main(int argc, char **argv)
{
    static long in[1], out[1];
    MPI_Request r[7];
    MPI_Init(&argc, &argv);
    MPIX_Bcast_init(out, WHOLE, MPI_LONG, 0, ON, &r[0]);
    MPIX_Reduce_init(in, out, WHOLE, MPI_LONG, MPI_SUM, 0, ON, &r[1]);
    MPIX_Allreduce_init(in, out, WHOLE, MPI_LONG, MPI_SUM, ON, &r[2]);
    MPIX_Allgather_init(in, PART, MPI_LONG, out, PART, MPI_LONG, ON, &r[3]);
    MPIX_Reduce_scatter_block_init(in, out, PART, MPI_LONG, MPI_SUM, ON, &r[4]);
    MPIX_Gather_init(in, PART, MPI_LONG, out, PART, MPI_LONG, 0, ON, &r[5]);
    MPIX_Scatter_init(in, PART, MPI_LONG, out, PART, MPI_LONG, 0, ON, &r[6]);
    for (int i = 0; i < 7; i++)
        MPI_Request_free(&r[i]);
    MPI_Finalize();
    return 0;
}
"""
# Rank 2 does not start the persistent all-reduce, because a reduce has failed.
PERSISTENT = r"""
#include <mpi.h>
#include <mpi-ext.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    int in = 1, out[2], rank, rc = MPI_SUCCESS;
    MPI_Request request;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPIX_Allreduce_init(&in, &out[0], 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    if (rank != 2)
        MPI_Start(&request);
    while (rc == MPI_SUCCESS)
        rc = MPI_Reduce(&in, &out[1], 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 2)
        MPI_Recv(&in, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else if (MPI_Wait(&request, MPI_STATUS_IGNORE) != MPI_SUCCESS)
        printf("no result\n");
    if (rank == 0)
        MPI_Send(&in, 1, MPI_INT, 2, 0, MPI_COMM_WORLD);
    MPI_Request_free(&request);
    MPI_Finalize();
    return 0;
}
"""
SPAWN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "mpi", "spawn.c")


def descendants(pid):
    """[(pid, name)] of the live processes below @pid."""
    found = []
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as f:
            children = [int(child) for child in f.read().split()]
        for child in children:
            with open(f"/proc/{child}/comm") as f:
                found.append((child, f.read().strip()))
            found += descendants(child)
    except OSError:
        pass
    return found


def shared_files():
    return set(glob.glob("/dev/shm/*")) | set(glob.glob("/tmp/ompi.*/*"))


@unittest.skipUnless(shutil.which("mpirun") and shutil.which("mpicc"), "needs Open MPI")
class MpiLifeTest(FabemuCase):
    @classmethod
    def setUpClass(cls):
        cls.build = tempfile.mkdtemp(prefix="fabemu-mpi-life.")
        with open(os.path.join(cls.build, "endless.c"), "w") as f:
            f.write(PROGRAM)
        with open(os.path.join(cls.build, "quitter.c"), "w") as f:
            f.write(QUITTER)
        with open(os.path.join(cls.build, "large.c"), "w") as f:
            f.write(LARGE)
        with open(os.path.join(cls.build, "cut.c"), "w") as f:
            f.write(CUT)
        with open(os.path.join(cls.build, "unfinished.c"), "w") as f:
            f.write(UNFINISHED)
        with open(os.path.join(cls.build, "persistent.c"), "w") as f:
            f.write(PERSISTENT)
        with open(os.path.join(cls.build, "composed.c"), "w") as f:
            f.write(COMPOSED)
        with open(os.path.join(cls.build, "huge.c"), "w") as f:
            f.write(HUGE)
        for source, program in (("endless.c", "endless"), ("quitter.c", "quitter"),
                                ("large.c", "large"), ("cut.c", "cut"),
                                ("unfinished.c", "unfinished"),
                                ("persistent.c", "persistent"), ("composed.c", "composed"),
                                ("huge.c", "huge"),
                                (SPAWN, "spawn")):
            subprocess.run(["mpicc", "-O1", source, "-o", program], cwd=cls.build, check=True)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.build)

    def start_endless(self):
        """A run whose ranks have reduced once; returns it and its processes by name."""
        run = self.start("run", "--topo", "kary:2,2", "--name", "r", "--", "mpirun", "-np",
                         str(RANKS), os.path.join(self.build, "endless"))
        self.assertEqual(run.stdout.readline(), f"reduced {RANKS}\n")
        by_name = {}
        for pid, name in descendants(run.pid):
            by_name.setdefault(name, []).append(pid)
        self.assertEqual(len(by_name["endless"]), RANKS, by_name)
        return run, by_name

    def killed(self, pick, sig, word):
        """Send @sig to the process that pick(run, processes by name) returns; returns the exit
        status."""
        before = shared_files()
        run, by_name = self.start_endless()
        pids = [pid for some in by_name.values() for pid in some]
        since = time.monotonic()
        os.kill(pick(run, by_name), sig)
        err = self.ends(run, pids, since)
        self.assertIn(word, err)
        self.assertFalse(any(alive(pid) for pid in pids))
        # Other runs on this machine start and end: only lasting files count.
        self.assertTrue(until(lambda: not {path for path in shared_files() - before
                                           if self.is_ours(path, pids)}, 1))
        return run.returncode

    @staticmethod
    def is_ours(path, pids):
        return any(str(pid) in os.path.basename(path) for pid in pids)

    def test_killed_rank(self):
        status = self.killed(lambda run, by_name: by_name["endless"][1], signal.SIGKILL,
                             "endless) died: ")
        self.assertNotEqual(status, 0)

    def test_killed_fabric(self):
        status = self.killed(lambda run, by_name: by_name["fabemu-fabric"][0], signal.SIGKILL,
                             "was killed by signal 9; ending the run")
        self.assertEqual(status, 1)

    def test_killed_supervisor(self):
        self.killed(lambda run, by_name: run.pid, signal.SIGKILL,
                    "the supervisor of fabric 'r' died")

    def test_killed_mpirun(self):
        status = self.killed(lambda run, by_name: by_name["mpirun"][0], signal.SIGKILL,
                             "mpirun) was killed by signal 9")
        self.assertEqual(status, 137)

    def test_interrupt(self):
        status = self.killed(lambda run, by_name: run.pid, signal.SIGINT,
                             "interrupted; ending the run")
        self.assertEqual(status, 130)

    def test_rank_exit__is_not_reported_as_killed(self):
        done = self.fabemu("run", "--topo", "kary:2,2", "--", "mpirun", "-np", "2",
                           os.path.join(self.build, "quitter"))
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r"quitter\) died: exited (with status 0 )?without detaching")
        self.assertNotIn("killed", done.stderr)

    def test_lost_message__does_not_crash_its_sender(self):
        go = os.path.join(self.dir, "go")
        run = self.start("run", "--topo", "kary:4,2", "--profile", "qsnet3", "--name", "cut",
                         "--bound", "no-link=1s", "--", "mpirun", "-np", "3",
                         os.path.join(self.build, "cut"), go)
        self.assertEqual(run.stdout.readline(), "connected\n")
        self.assertEqual(self.fabemu("fault", "cut", "link-down", "link=0:1").returncode, 0)
        with open(go, "w", encoding="ascii"):
            pass
        out, err = run.communicate()
        self.assertRegex(flat(err), r", [1-9][0-9]* segments given up")
        self.assertIn("rank 0 survives", out, err)

    def test_spawn__reaches_successors_on_a_node(self):
        for profile in ("oq2004", "qsnet3"):
            with self.subTest(profile=profile):
                out, err = self.spawn(profile, "6")
                self.assertIn("spawned 6 times", out, err)
                self.assertIn("7 attached, 2 at the same time", err)

    def spawn(self, profile, times):
        return end_of_spawning(
            lambda: self.start("run", "--topo", "kary:2,2", "--profile", profile, "--", "mpirun",
                               "-np", "1", os.path.join(self.build, "spawn"), times), SPAWN_S)[1:]

    def test_large_collectives__use_messages_without_a_wide_group(self):
        # The communicator's first group has 256 states, its wide one 2048; wide ones leave half of
        # the switch's states.
        for states, in_switch, why in (("4608", 6, {}), ("4607", 3, {"window": 3})):
            with self.subTest(states=states):
                report = os.path.join(self.dir, "report.json")
                done = self.fabemu("run", "--topo", "kary:4,1", "--set", f"combine_states={states}",
                                   "--report",
                                   report, "--", "mpirun", "-np", "3",
                                   os.path.join(self.build, "large"))
                self.assertEqual((done.returncode, done.stdout), (0, "0 wrong\n"), done.stderr)
                with open(report) as f:
                    count = json.load(f)["collectives"]["allreduce"]
                self.assertEqual((count["in_switch"], count["why"]), (in_switch, why))

    def test_sizes_of_more_than_32_bits__are_not_cut(self):
        """Without a wide group, all collectives of more than 4 GB use messages. The low 32 bits of
        their sizes would fit the first group, or be small enough for one in the network."""
        report = os.path.join(self.dir, "report.json")
        done = self.fabemu("run", "--topo", "kary:4,1", "--set", "combine_states=4607", "--report",
                           report, "--", "mpirun", "-np", "4", "--mca", "coll_fabemu_step_aside",
                           "0", os.path.join(self.build, "huge"))
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(report) as f:
            collectives = json.load(f)["collectives"]
        for name, why in (("broadcast", "window"), ("reduce", "window"), ("allreduce", "window"),
                          ("allgather", "window"), ("reduce_scatter", "window"),
                          ("gather", "slower"), ("scatter", "slower")):
            self.assertEqual(collectives[name]["why"], {why: 1}, name)

    def test_failed_collective__fails_persistent_ones(self):
        faults = os.path.join(self.dir, "flip.faults")
        with open(faults, "w") as f:
            f.write("combine-flip switch=any kind=reduce nth=40\n")
        done = self.fabemu("run", "--topo", "kary:2,2", "--profile", "oq2004", "--faults", faults,
                           "--", "mpirun", "-np", "3", "--mca", "coll_fabemu_step_aside", "0",
                           os.path.join(self.build, "persistent"))
        self.assertEqual((done.returncode, done.stdout), (0, "no result\n" * 2), done.stderr)

    def test_unfinished_collectives__end_in_mpi_finalize(self):
        done = self.fabemu("run", "--topo", "kary:2,2", "--", "mpirun", "-np", "3",
                           os.path.join(self.build, "unfinished"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("fabemu: MPI_Finalize: the program has not completed 2 collectives",
                      done.stderr)
        self.assertNotIn("died", done.stderr)

    def test_report__says_how_composed_collectives_count(self):
        """The tables do not seem to contradict each other."""
        done = self.fabemu("run", "--topo", "kary:2,2", "--clock", "virtual", "--", "mpirun", "-np",
                           "3", os.path.join(self.build, "composed"))
        self.assertRegex(done.stderr, r"\n    broadcast +0 +0 +0\n")
        self.assertIn("\n    calls below: allgather counts as broadcast, gather "
                      "counts as reduce\n"
                      "  calls of all ranks, in us  count      mean   longest      skew   "
                      "network skew%\n", done.stderr)
        self.assertRegex(done.stderr, r"\n    broadcast to 8 B +9 ")  # 3 in each of 3 ranks
        done = self.fabemu("run", "--topo", "kary:2,2", "--", "true")
        self.assertNotIn("calls below", done.stderr)

    def test_too_many_ranks(self):
        program = os.path.join(self.build, "endless")
        for options in ((), ("--oversubscribe", "--mca", "pml", "cm")):
            done = self.fabemu("run", "--topo", "kary:2,2", "--", "mpirun", *options, "-np", "5",
                               program)
            self.one_line(done, 2, "mpirun starts 5 processes, but kary:2,2 has 4 nodes, each for "
                          "one process; start fewer processes, or take a larger network, for "
                          "example --nodes 5")
        # a negative number is not a large one; mpirun refuses it
        done = self.fabemu("run", "--topo", "kary:2,2", "--", "mpirun", "-np", "-1", program)
        self.assertNotIn("processes, but", done.stderr)
        # these words belong to the program
        done = self.fabemu("run", "--topo", "kary:2,2", "--", "mpirun", "sh", "-c", "exit 7",
                           "-np", "5")
        self.assertEqual(done.returncode, 7, done.stderr)
        # fabemu does not see how many processes a script starts
        done = self.fabemu("run", "--topo", "kary:2,2", "--name", "r", "--", "sh", "-c",
                           f"mpirun -np 5 {program}")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("all 4 nodes of fabric 'r' (kary:2,2) are taken; start it with more, for "
                      "example --nodes 8", done.stderr.splitlines()[-1])


if __name__ == "__main__":
    main()
