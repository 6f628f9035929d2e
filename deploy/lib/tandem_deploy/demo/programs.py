"""Owns calling the programs of this project: `producer`, and `worker`s as daemons.

Both take the servers, the database and the queue prefix from the environment. A producer
command that fails is a `Failure` with what it said; a worker that ends unasked is one, too.
"""

import json
import signal
import subprocess
import time

from .. import ports, processes
from ..console import Failure, say, tail
from ..wire import connect

COMMAND_LIMIT_S = 120
READY_LIMIT_S = 30
STOP_LIMIT_S = 25
"""More than the workers' own limit for draining, which is 20 s."""
IDS_PER_CALL = 500


class Worker:
    """A running worker."""

    def __init__(self, name, process, port, log):
        self.name = name
        self.process = process
        self.port = port
        self.log = log
        self.killed = False


class Programs:
    """The project's programs, on one database and one set of queues."""

    def __init__(self, binaries, env, logs):
        self.binaries = binaries
        self.env = env
        self.logs = logs
        self.workers = []

    def producer(self, *arguments):
        """Runs a producer command; its output."""
        command = [self.binaries / "producer", *arguments]
        try:
            done = subprocess.run(
                command,
                env=self.env,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=COMMAND_LIMIT_S,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Failure(f"producer {arguments[0]}: {error}") from error
        if done.returncode != 0:
            raise Failure(
                f"producer {' '.join(arguments[:3])} exited with {done.returncode}:\n{done.stderr}"
            )
        return done.stdout

    def show_producer(self, *arguments, limit_s=COMMAND_LIMIT_S):
        """Runs a producer command that speaks to the user itself; its exit code."""
        return processes.run([self.binaries / "producer", *arguments], self.env, limit_s=limit_s)

    def stats(self):
        """Transactions per state, and canceled ones per reason."""
        return json.loads(self.producer("stats", "--json"))

    def in_flight(self, worker):
        """The ids of the transactions that a worker has claimed and not finished."""
        found = self.producer(
            *("list", "--state", "pending,applied,canceling", "--application", worker.name),
            *("--limit", "100000", "--json"),
        )
        return [json.loads(line)["_id"] for line in found.splitlines() if line.strip()]

    def status(self, ids):
        """The transactions with these ids."""
        found = []
        for first in range(0, len(ids), IDS_PER_CALL):
            lines = self.producer("status", *ids[first : first + IDS_PER_CALL], "--json")
            found += [json.loads(line) for line in lines.splitlines() if line.strip()]
        return found

    def start_workers(self, count):
        """Starts workers and waits until each listens for HTTP."""
        for number, port in enumerate(ports.choose(count), 1):
            name = f"demo-worker-{number}"
            log = self.logs / f"{name}.log"
            log.unlink(missing_ok=True)
            command = [self.binaries / "worker", "--name", name, "--http", f"127.0.0.1:{port}"]
            process = processes.start(command, log, env=self.env)
            self.workers.append(Worker(name, process, port, log))
        for worker in self.workers:
            self._wait_for(worker)

    def _wait_for(self, worker):
        deadline = time.monotonic() + READY_LIMIT_S
        while time.monotonic() < deadline:
            self.require_workers()
            try:
                connect(worker.port, 1).close()
                return
            except OSError:
                time.sleep(processes.POLL_S)
        raise Failure(f"{worker.name} does not listen on port {worker.port}:\n{tail(worker.log)}")

    def require_workers(self):
        """Fails when a worker has ended that nobody killed."""
        for worker in self.workers:
            if not worker.killed and not processes.alive(worker.process):
                raise Failure(f"{worker.name} has ended by itself:\n{tail(worker.log)}")

    def stop_workers(self):
        """Asks the workers to drain and end; kills those that do not, and says so."""
        for worker in self.workers:
            processes.send(worker.process, signal.SIGTERM)
        left = processes.wait_gone([worker.process for worker in self.workers], STOP_LIMIT_S)
        for worker in self.workers:
            if worker.process in left:
                say(f"{worker.name} did not end within {STOP_LIMIT_S} s of SIGTERM: killed")
        processes.stop(left, 0)
