"""What `deploy/up` and `deploy/down` promise, on real servers."""

import json
import os
import signal
import socket
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from tandem_deploy import ROOT, amqp_wire, mongo_wire, processes
from tandem_deploy.servers import VARIABLES

UP, DOWN = ROOT / "deploy" / "up", ROOT / "deploy" / "down"
LIMIT_S = 180


class RealServers(unittest.TestCase):
    """Runs the scripts as a user does, each test in directories of its own."""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="tandem deploy ")  # A space, on purpose.
        self.addCleanup(scratch.cleanup)
        self.scratch = Path(scratch.name)
        self.env = {**os.environ, processes.OWNER: scratch.name}
        for variable in VARIABLES.values():
            self.env.pop(variable, None)
        self.addCleanup(processes.sweep, scratch.name)

    def run_script(self, script, *arguments, **env):
        command = [script, *arguments]
        return subprocess.run(
            command, env={**self.env, **env}, capture_output=True, text=True, timeout=LIMIT_S
        )

    def up(self, directory, *arguments, **env):
        done = self.run_script(UP, "--dir", self.scratch / directory, *arguments, "--json", **env)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def down(self, directory, *arguments):
        done = self.run_script(DOWN, "--dir", self.scratch / directory, *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def kill(self, pid):
        process = processes.identify(pid)
        os.kill(pid, signal.SIGKILL)
        self.assertEqual(processes.wait_gone([process], 10), [])

    def insert(self, port):
        body = {"insert": "kept", "documents": [{"_id": 1}], "writeConcern": {"w": "majority"}}
        mongo_wire.command(port, body)

    def count(self, port):
        return mongo_wire.command(port, {"count": "kept"})["n"]


class Up(RealServers):
    """Starting, restarting, failing."""

    def test_a_second_up_starts_nothing_and_a_killed_server_returns_on_its_port(self):
        first = self.up("a")
        mongodb, rabbitmq = first["mongodb"], first["rabbitmq"]
        amqp_wire.check(rabbitmq["port"])
        self.insert(mongodb["port"])
        self.assertEqual(self.up("a"), first)

        self.kill(rabbitmq["pid"])
        again = self.up("a", "--only", "rabbitmq")["rabbitmq"]
        self.assertNotEqual(again["pid"], rabbitmq["pid"])
        self.assertEqual({**again, "pid": 0}, {**rabbitmq, "pid": 0})
        amqp_wire.check(again["port"])
        self.assertIsNotNone(processes.identify(mongodb["pid"]))

        self.kill(mongodb["pid"])
        after = self.up("a")
        self.assertEqual(after["mongodb"]["uri"], mongodb["uri"])
        self.assertEqual(after["rabbitmq"], again)
        self.assertEqual(self.count(mongodb["port"]), 1)

        started = processes.owned(str(self.scratch))
        self.assertIn("stopped rabbitmq: beam.smp", self.down("a"))
        self.assertEqual(processes.wait_gone(started, 5), [])
        self.assertIn("nothing was running", self.down("a"))
        self.assertEqual(self.up("a", "--only", "mongodb")["mongodb"]["uri"], mongodb["uri"])
        self.assertEqual(self.count(mongodb["port"]), 1)
        self.down("a", "--wipe")
        self.assertFalse((self.scratch / "a").exists())

    def test_directories_are_independent_and_the_same_one_is_started_once(self):
        names = ["a", "b", "a"]
        command = [UP, "--json", "--dir"]
        runs = [
            subprocess.Popen(
                [*command, self.scratch / name],
                env=self.env,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
            for name in names
        ]
        a, b, a_again = [json.loads(run.communicate(timeout=LIMIT_S)[0]) for run in runs]
        self.assertEqual(a, a_again)
        for server in ("mongodb", "rabbitmq"):
            self.assertNotEqual(a[server]["port"], b[server]["port"])
        self.down("a")
        amqp_wire.check(b["rabbitmq"]["port"])
        self.assertTrue(mongo_wire.command(b["mongodb"]["port"], {"ping": 1}))
        self.down("b")

    def test_three_members_elect_a_new_primary(self):
        members = self.up("a", "--only", "mongodb", "--members", "3")["mongodb"]["members"]
        ports = {member["port"]: member["pid"] for member in members}
        primary = self.primary(ports)
        self.kill(ports.pop(primary))
        self.assertNotEqual(self.primary(ports), primary)
        again = self.up("a", "--only", "mongodb")["mongodb"]["members"]
        self.assertEqual([m["port"] for m in again], [m["port"] for m in members])
        refused = self.run_script(UP, "--dir", self.scratch / "a", "--members", "1")
        self.assertEqual(refused.returncode, 1)
        self.assertIn("3 member(s)", refused.stderr)
        self.down("a")

    def primary(self, ports):
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            for port in ports:
                if mongo_wire.command(port, {"hello": 1}).get("isWritablePrimary"):
                    return port
            time.sleep(0.1)
        self.fail("no primary within 60 s")

    def test_an_interrupted_start_leaves_nothing_and_the_next_completes_it(self):
        for signum, after_s in ((signal.SIGINT, 0.4), (signal.SIGTERM, 1.5)):
            run = subprocess.Popen(
                [UP, "--dir", self.scratch / "a"], env=self.env, stderr=subprocess.DEVNULL
            )
            time.sleep(after_s)
            started = processes.owned(str(self.scratch))
            run.send_signal(signum)
            self.assertEqual(run.wait(30), 128 + signum)
            self.assertEqual(processes.wait_gone(started, 5), [])
            self.assertEqual(processes.owned(str(self.scratch)), [])
        self.up("a", "--only", "mongodb")
        self.down("a")

    def test_a_recorded_port_that_was_taken_is_explained(self):
        port = self.up("a", "--only", "mongodb")["mongodb"]["port"]
        self.down("a")
        with socket.create_server(("127.0.0.1", port)):
            refused = self.run_script(UP, "--dir", self.scratch / "a", "--only", "mongodb")
        self.assertEqual(refused.returncode, 1)
        self.assertIn(f"port {port}", refused.stderr)

    def test_servers_named_by_the_environment_are_used_as_they_are(self):
        named = {"TANDEM_MONGODB_URI": "mongodb://db/x", "TANDEM_AMQP_URL": "amqp://mq/x"}
        done = self.run_script(UP, "--dir", self.scratch / "a", **named)
        lines = [f"{name}={uri}" for name, uri in named.items()]
        self.assertEqual(done.stdout.splitlines(), lines)
        self.assertFalse((self.scratch / "a").exists())
        own = self.up("a", "--only", "mongodb", "--private", **named)["mongodb"]
        self.assertFalse(own["external"])
        self.down("a")

    def test_stdout_can_be_exported_by_a_shell(self):
        script = (
            f"export $('{UP}' --dir '{self.scratch}/a' --only mongodb); echo $TANDEM_MONGODB_URI"
        )
        done = self.run_script("sh", "-c", script)
        self.assertRegex(done.stdout, r"^mongodb://127\.0\.0\.1:\d+/tandem\?replicaSet=tandem\n$")
        self.down("a")
