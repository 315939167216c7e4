#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""hosts_standstill_test.py - an MPI job on two hosts stands still: the missing rank is named with
its host, whichever host is queried; and status and check cover both hosts. Hosts are network
namespaces (scripts/two-hosts): skipped where they are not available.

   tests/cli/hosts_standstill_test.py --fabemu build/fabemu [unittest options]
"""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from cli_helpers import Client, FabemuCase, build_bugs, main, until

HERE = os.path.dirname(os.path.abspath(__file__))
TWO_HOSTS = os.path.join(HERE, "..", "..", "scripts", "two-hosts")
HOSTS = 2
REPORT_AFTER_S = 2  # --standstill
HANDLE_END_S = 0.3  # time for a process to handle the end of its fabric
# The report waits for processes on the remote host; no case depends on how long they take to end.
REMOTE_ENDS = ("--bound", "term=30s", "--bound", "stop=60s")
RUNS = f"/tmp/fabemu-{os.geteuid()}"  # sockets of runs on several hosts
HOGS = 4  # processes that leave hardly any core to a rank
STARVED_S = 3  # time without a core
PATIENCE_S = 90


class Wire:
    """Namespaces made by scripts/two-hosts, which removes them when it ends."""

    def __init__(self):
        self.made = subprocess.Popen(
            [sys.executable, TWO_HOSTS, "--hosts", str(HOSTS), "--timeout", "1000", "--",
             "sh", "-c", "echo ready; exec sleep 1000"],
            text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        lines = [self.made.stdout.readline() for _ in range(HOSTS)]
        if not all("ready" in line for line in lines):
            self.end()
            raise unittest.SkipTest("no network namespaces: " + "".join(lines))

    def name(self, host):
        return f"fabemu-hosts-{self.made.pid}-h{host}"

    def end(self):
        self.made.terminate()
        self.made.wait()
        self.made.stdout.close()


@unittest.skipUnless(os.geteuid() == 0 and shutil.which("ip") and shutil.which("mpicc") and
                     shutil.which("mpirun"), "needs root, iproute2 and Open MPI")
class HostsStandstillTest(FabemuCase):
    @classmethod
    def setUpClass(cls):
        cls.build = tempfile.mkdtemp(prefix="fabemu-standstill.")
        cls.program = build_bugs(cls.build)
        cls.wire = Wire()
        cls.cluster = os.path.join(cls.build, "cluster")
        with open(cls.cluster, "w", encoding="ascii") as f:
            f.write("fabric standstill\nkey none\nsilent 5s\n")
            for host in range(HOSTS):
                f.write(f"host {cls.wire.name(host)}\n  port net_af_packet0,iface=eth1\n")
        cls.agent = os.path.join(cls.build, "agent")
        with open(cls.agent, "w", encoding="ascii") as f:
            f.write('#!/bin/sh\nhost=$1; shift\n'
                    'exec ip netns exec $host unshare --uts sh -c "hostname $host; $*"\n')
        os.chmod(cls.agent, 0o755)

    @classmethod
    def tearDownClass(cls):
        cls.wire.end()
        shutil.rmtree(cls.build, ignore_errors=True)

    def on_host(self, host, *command):
        name = self.wire.name(host)
        return ["ip", "netns", "exec", name, "unshare", "--uts", "sh", "-c",
                f'hostname {name}; exec "$@"', "sh", *command]

    def job_env(self):
        keep = {k: v for k, v in os.environ.items()
                if not k.startswith(("OMPI_", "FI_", "FABEMU_"))}
        return keep | {"XDG_RUNTIME_DIR": self.build, "OMPI_ALLOW_RUN_AS_ROOT": "1",
                       "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                       "OMPI_MCA_plm_rsh_agent": self.agent,
                       "OMPI_MCA_oob_tcp_if_include": "eth0",
                       "OMPI_MCA_rmaps_base_oversubscribe": "1",
                       "OMPI_MCA_coll_fabemu_step_aside": "0",  # collectives in the network
                       "OMPI_MCA_mpi_yield_when_idle": "1"}

    def start_job(self, *options):
        """The last rank, on the remote host, skips a barrier."""
        ranks = ",".join(f"{self.wire.name(h)}:2" for h in range(HOSTS))
        return self.start_run("mpirun", "-np", "4", "--host", ranks, self.program, "skip-barrier",
                              options=options)

    def start_run(self, *command, options=()):
        run = subprocess.Popen(
            self.on_host(0, self.command, "run", "--cluster", self.cluster, "--launch", self.agent,
                         "--topo", "kary:2,2", "--standstill", f"{REPORT_AFTER_S}s",
                         *REMOTE_ENDS, *options, "--",
                         *command),
            env=self.job_env(), text=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, start_new_session=True)
        run.lines = []
        run.reader = threading.Thread(target=lambda: run.lines.extend(iter(run.stderr.readline,
                                                                           "")))
        run.reader.start()
        self.addCleanup(self.end, run)
        return run

    def end(self, run):
        if run.poll() is None:
            run.send_signal(signal.SIGINT)
        try:
            run.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            os.killpg(run.pid, signal.SIGKILL)
            run.wait()
        run.reader.join()
        run.stderr.close()

    def ask(self, host, *words):
        """Run fabemu WORDS on that host."""
        env = self.job_env()
        del env["XDG_RUNTIME_DIR"]  # the folder of sockets is the same on all hosts
        return subprocess.run(self.on_host(host, self.command, *words), env=env, text=True,
                              capture_output=True, timeout=PATIENCE_S)

    def stands(self, *options):
        """A run that has reported a standstill, and its text."""
        run = self.start_job(*options)
        said = until(lambda: any("nothing has moved" in line for line in run.lines) and
                     any("waits in a receive" in line for line in run.lines) or
                     run.poll() is not None, PATIENCE_S)
        text = "".join(run.lines)
        self.assertTrue(said, text)
        self.assertIsNone(run.poll(), text)
        return run, text

    def test_rank_on_the_remote_host_is_named(self):
        for options, place in (((), r"switch \d+ waits for it at port \d+"),
                               (("--profile", "qsnet3"), "its adapter waits for it")):
            with self.subTest(options=options):
                run, text = self.stands(*options)
                remote = self.wire.name(1)
                self.assertRegex(text, r"3 of 4 have arrived, ranks 0-2\n")
                self.assertRegex(text, rf"rank 3 \(node \d, host {remote}, pid \d+, bugs\) has not "
                                       rf"entered it: {place}\n")
                self.assertRegex(text, rf"rank 3 \(node \d, host {remote}, pid \d+, bugs\) waits "
                                       r"in a receive from rank 0, tag 7")
                self.end(run)
                # the other host may not have noticed yet that its processes have ended
                self.assertRegex("".join(run.lines),
                                 rf"host {remote} +up, (2|\d of 2) nodes( attached)?\n")

    def test_a_process_on_the_remote_host_has_no_core(self):
        """That time does not count as silence, and is told."""
        run, _ = self.stands()

        def status():
            said = self.ask(0, "status", "--json", f"run-{run.pid}.{self.wire.name(0)}")
            self.assertEqual(said.returncode, 0, said.stderr)
            return json.loads(said.stdout)[0]

        def starved_s():
            return status()["standstill"].get("starved_ns", 0) / 1e9
        before_s = starved_s()
        core = min(os.sched_getaffinity(0))
        pid = status()["attached"][-1]["pid"]
        os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0))  # its first thread
        os.sched_setaffinity(pid, {core})
        for _ in range(HOGS):
            hog = subprocess.Popen(["taskset", "-c", str(core), "sh", "-c", "while :; do :; done"])
            self.addCleanup(hog.wait)
            self.addCleanup(hog.kill)
        self.assertTrue(until(lambda: starved_s() > before_s + STARVED_S, PATIENCE_S))

    def test_end_on_standstill(self):
        """The ranks on both hosts end, and so does the run, with its report and its own exit
        status."""
        run = self.start_job("--standstill", f"{REPORT_AFTER_S}s:end")
        run.wait(PATIENCE_S)
        run.reader.join()
        text = "".join(run.lines)
        self.assertEqual(run.returncode, 124, text)
        self.assertIn("3 of 4 have arrived, ranks 0-2", text)
        self.assertRegex(text, rf"host {self.wire.name(1)} +up, 2 nodes\n")

    def test_mpirun_x__beside_the_environment_for_other_hosts(self):
        """The user's own launch agent is kept, too."""
        ranks = ",".join(f"{self.wire.name(h)}:2" for h in range(HOSTS))
        run = self.start_run("env", "OMPI_MCA_orte_launch_agent=env AGENT=1 orted", "sh", "-c",
                             f'eval "$({self.command} env run-$PPID.{self.wire.name(0)})"; '
                             f'exec mpirun -x WORD=x -np 4 --host {ranks} {self.program} none')
        run.wait(PATIENCE_S)
        run.reader.join()
        text = "".join(run.lines)
        self.assertEqual(run.returncode, 0, text)
        self.assertIn("4 attached", text)

    def test_report_waits_for_processes_on_the_remote_host(self):
        """The command has ended, and the supervisor is not the processes' parent: they are
        notified of the end, and have a moment to handle it."""
        run = self.start_run("sleep", str(PATIENCE_S))
        path = f"{RUNS}/run-{run.pid}.{self.wire.name(1)}.sock"
        self.assertTrue(until(lambda: os.path.exists(path), PATIENCE_S))
        remote = Client(path)
        self.clients.append(remote)
        self.assertEqual(remote.attach()["node"], 2)
        run.send_signal(signal.SIGINT)
        while remote.next().get("event") != "shutdown":
            pass
        time.sleep(HANDLE_END_S)
        remote.close()
        run.wait(PATIENCE_S)
        run.reader.join()
        self.assertRegex("".join(run.lines), rf"host {self.wire.name(1)} +up, 2 nodes\n")

    def test_first_error_on_the_remote_host_names_it(self):
        run = self.start_run("sleep", str(PATIENCE_S))
        path = f"{RUNS}/run-{run.pid}.{self.wire.name(1)}.sock"
        self.assertTrue(until(lambda: os.path.exists(path), PATIENCE_S))
        remote, refused = (Client(path) for _ in range(2))
        self.clients += [remote, refused]
        remote.attach()
        self.assertTrue(remote.ask("outside", why="by tests")["ok"])
        self.assertFalse(refused.ask("attach", version=0)["ok"])
        run.send_signal(signal.SIGINT)
        for client in (remote, refused):
            client.close()
        run.wait(PATIENCE_S)
        run.reader.join()
        text = "".join(run.lines)
        remote_host = f"fabemu: host {self.wire.name(1)}: "
        self.assertIn(f"{remote_host}MPI messages do not pass through the fabric: by tests", text)
        self.assertIn(f"{remote_host}this process's library has protocol version 0", text)

    def test_up_stays_on_all_hosts_and_down_ends_it_on_all(self):
        fabric = f"up{os.getpid()}"
        names = [f"{fabric}.{self.wire.name(host)}" for host in range(HOSTS)]
        up = self.ask(0, "up", fabric, "--cluster", self.cluster, "--launch", self.agent, "--topo",
                      "kary:2,2")
        self.assertEqual(up.returncode, 0, up.stderr)
        for host, name in enumerate(names):
            self.assertIn("kary:2,2", self.ask(host, "status", name).stdout)
        ranks = ",".join(f"{self.wire.name(h)}:1" for h in range(HOSTS))
        run = subprocess.run(
            self.on_host(0, "sh", "-c", f'eval "$({self.command} env {names[0]})"; exec mpirun -np '
                         f'2 --host {ranks} {self.program} none'),
            env=self.job_env(), text=True, stdin=subprocess.DEVNULL, capture_output=True,
            timeout=PATIENCE_S)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        down = self.ask(0, "down", names[0])
        self.assertEqual((down.returncode, down.stderr), (0, ""))
        self.assertTrue(until(lambda: not any(os.path.exists(f"{RUNS}/{name}.sock")
                                              for name in names), PATIENCE_S))

    def test_status_and_check_cover_all_hosts_on_either(self):
        run, _ = self.stands()
        for host in range(HOSTS):
            name = f"run-{run.pid}.{self.wire.name(host)}"
            with self.subTest(host=host):
                said = self.ask(host, "status", "--json", name)
                self.assertEqual(said.returncode, 0, said.stderr)
                status = json.loads(said.stdout)[0]
                self.assertEqual([one["host"] for one in status["attached"]],
                                 [self.wire.name(h) for h in (0, 0, 1, 1)])
                self.assertEqual([len(one["missing"]) for one in
                                  status["standstill"]["collectives"]], [1])
                hosts = status["report"]["hosts"]
                self.assertEqual([(one["state"], one["attached"]) for one in hosts],
                                 [("coordinator", 2), ("up", 2)])
                for h, one in enumerate(hosts):
                    self.assertEqual([link["host"] for link in one["links"]],
                                     [self.wire.name(1 - h)])
                    self.assertGreater(one["links"][0]["frames_sent"], 0)
                text = self.ask(host, "status", name).stdout
                self.assertRegex(text, rf"host {self.wire.name(1)} +up, 2 of 2 nodes attached\n")
                said = self.ask(host, "check", name)
                self.assertEqual(said.returncode, 0, said.stdout + said.stderr)
                self.assertRegex(said.stdout, r": right\n")
                self.assertRegex(said.stdout, r"hosts +[1-9]\d* cables are between hosts")


if __name__ == "__main__":
    main(alone=False)  # other hosts clean up sockets, so they must see them
