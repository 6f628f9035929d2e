"""What the small parts promise, without servers."""

import csv
import os
import signal
import socket
import subprocess
import sys
import tempfile
import unittest
from collections import Counter
from pathlib import Path

from tandem_deploy import bson, ports, processes
from tandem_deploy.console import Failure
from tandem_deploy.demo import data, verdict
from tandem_deploy.directory import Directory, locked


class Bson(unittest.TestCase):
    """The encoding that commands and replies use."""

    def test_what_is_encoded_decodes_to_itself(self):
        document = {
            "hello": 1,
            "big": 2**40,
            "ratio": 0.25,
            "name": "Grüße",
            "yes": True,
            "nothing": None,
            "members": [{"_id": 0, "host": "127.0.0.1:1"}, {"_id": 1, "host": "127.0.0.1:2"}],
        }
        self.assertEqual(bson.decode(bson.encode(document)), document)

    def test_an_unknown_type_is_an_error(self):
        with self.assertRaises(ValueError):
            bson.encode({"when": object()})
        with self.assertRaises(ValueError):
            bson.decode(b"\x0c\0\0\0\x42a\0\0\0\0\0\0")


class Ports(unittest.TestCase):
    """The choice of ports."""

    def test_chosen_ports_differ_and_are_free(self):
        chosen = ports.choose(20)
        self.assertEqual(len(set(chosen)), 20)
        self.assertTrue(all(ports.is_free(port) for port in chosen))

    def test_a_chosen_port_is_not_chosen_by_another_run(self):
        (port,) = ports.choose(1)
        reserve = f"from tandem_deploy import ports; print(ports._reserve({port}))"
        command = [sys.executable, "-B", "-c", reserve]
        env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
        done = subprocess.run(command, env=env, capture_output=True, text=True)
        self.assertEqual(done.stdout.strip(), "False", done.stderr)

    def test_a_port_in_use_is_not_free_on_any_address(self):
        for address in ("127.0.0.1", "0.0.0.0"):
            with socket.create_server((address, 0)) as server:
                self.assertFalse(ports.is_free(server.getsockname()[1]))


class Processes(unittest.TestCase):
    """Starting, recognising, stopping."""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.log = Path(scratch.name) / "log"

    def start(self, script, **env):
        process = processes.start(["sh", "-c", script], self.log, env={**os.environ, **env})
        self.addCleanup(processes.stop, [process], 0)
        return process

    def test_a_pid_of_another_process_is_never_signalled(self):
        process = self.start("sleep 60")
        predecessor = processes.Process(process.pid, process.started - 1, process.boot)
        self.assertFalse(processes.alive(predecessor))
        self.assertFalse(processes.send(predecessor, signal.SIGKILL))
        self.assertEqual(processes.stop([predecessor], 0), [])
        self.assertTrue(processes.alive(process))

    def test_a_process_that_ignores_sigterm_is_killed_after_the_limit(self):
        process = self.start("trap '' TERM; while :; do sleep 0.05; done")
        self.assertEqual(processes.stop([process], 0.3), [process])
        self.assertFalse(processes.alive(process))

    def test_a_sweep_ends_marked_processes_and_their_children_only(self):
        unmarked = self.start("sleep 60")
        marked = self.start("sleep 60 & sleep 60", **{processes.OWNER: "test-sweep"})
        self.assertGreaterEqual(len(processes.sweep("test-sweep")), 1)
        self.assertEqual(processes.owned("test-sweep"), [])
        self.assertFalse(processes.alive(marked))
        self.assertTrue(processes.alive(unmarked))

    def test_a_program_that_is_missing_is_explained(self):
        with self.assertRaisesRegex(Failure, "cannot start /no/such/program"):
            processes.start(["/no/such/program"], self.log)


class OnDisk(unittest.TestCase):
    """State and lock."""

    def test_a_broken_state_file_is_not_taken_for_an_empty_one(self):
        with tempfile.TemporaryDirectory() as scratch:
            directory = Directory(scratch)
            self.assertEqual(directory.load(), {})
            directory.save({"a": 1})
            self.assertEqual(directory.load(), {"a": 1})
            directory.state_file.write_text("{")
            with self.assertRaises(Failure):
                directory.load()

    def test_a_lock_keeps_others_out(self):
        with tempfile.TemporaryDirectory() as scratch:
            with locked(Path(scratch) / "lock"), self.assertRaisesRegex(Failure, "another run"):
                with locked(Path(scratch) / "lock", wait=False):
                    pass
            with locked(Path(scratch) / "lock", wait=False):
                pass


class Bench(unittest.TestCase):
    """The benchmark's front."""

    def test_help_is_given_without_building_or_starting_anything(self):
        script = Path(__file__).resolve().parents[2] / "bench"
        for arguments in (["--help"], ["--quick", "-h"]):
            done = subprocess.run(
                [sys.executable, script, *arguments], capture_output=True, text=True, timeout=20
            )
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn("deploy/bench --quick", done.stdout)


class DemoData(unittest.TestCase):
    """What the demo submits."""

    def generate(self, transfers, accounts):
        with tempfile.TemporaryDirectory() as scratch:
            expected = data.generate(Path(scratch), transfers, accounts)
            tables = []
            for name in ("accounts.csv", "transfers.csv"):
                with open(Path(scratch) / name, newline="") as file:
                    tables.append(list(csv.DictReader(file)))
        return expected, *tables

    def test_the_same_arguments_give_the_same_files(self):
        self.assertEqual(self.generate(500, 20), self.generate(500, 20))

    def test_what_is_expected_holds_in_any_order_of_settlement(self):
        for transfers, accounts in ((20_000, 1_000), (4_000, 1_000), (50_000, 5), (10, 3)):
            with self.subTest(transfers=transfers, accounts=accounts):
                expected, holders, rows = self.generate(transfers, accounts)
                open_names = {row["account"] for row in holders if row["status"] == "open"}
                all_money = sum(int(row["balance"]) for row in holders)
                self.assertEqual(len(rows), transfers)
                self.assertEqual(len({row["id"] for row in rows}), transfers)
                good = [
                    row
                    for row in rows
                    if {row["source"], row["destination"]} <= open_names
                    and int(row["value"]) <= all_money
                ]
                sent = Counter()
                for row in good:
                    self.assertNotEqual(row["source"], row["destination"])
                    self.assertGreater(int(row["value"]), 0)
                    sent[row["source"]] += int(row["value"])
                self.assertLessEqual(max(sent.values()), data.BALANCE)
                self.assertEqual(len(good), expected.done)
                self.assertEqual(sum(expected.canceled.values()), transfers - len(good))
                self.assertEqual(
                    set(expected.canceled), {data.INSUFFICIENT, data.FROZEN, data.NOT_FOUND}
                )


class Verdict(unittest.TestCase):
    """The judgement at the demo's end."""

    EXPECTED = data.Expected(done=7, canceled={data.FROZEN: 2, data.NOT_FOUND: 1})
    GOOD = {
        "states": {"done": 7, "canceled": 3, "pending": 0},
        "reasons": {data.FROZEN: 2, data.NOT_FOUND: 1},
    }

    def test_the_expected_result_has_no_problems(self):
        self.assertEqual(verdict.problems(self.EXPECTED, self.GOOD, 0, 0), [])

    def test_every_deviation_is_a_problem(self):
        unfinished = {**self.GOOD, "states": {"done": 6, "canceled": 3, "applied": 1}}
        other_reason = {**self.GOOD, "reasons": {data.FROZEN: 3}}
        for stats, submit_code, audit_code in (
            (unfinished, 0, 0),
            (other_reason, 0, 0),
            (self.GOOD, 1, 0),
            (self.GOOD, 0, 1),
        ):
            found = verdict.problems(self.EXPECTED, stats, submit_code, audit_code)
            self.assertEqual(len(found), 1, found)
