"""Owns the two servers of one directory as one deployment.

`start` and `wait` bring up what does not run and leave alone what does; when they fail or are
interrupted, what this call has started is stopped again. A server that the environment names
(TANDEM_MONGODB_URI, TANDEM_AMQP_URL) is used as it is: never started, never stopped.
"""

import os
import time
from contextlib import contextmanager

from . import interrupt, mongodb, processes, provision, rabbitmq
from .console import Failure, say
from .directory import Directory

MONGODB, RABBITMQ = "mongodb", "rabbitmq"
VARIABLES = {MONGODB: "TANDEM_MONGODB_URI", RABBITMQ: "TANDEM_AMQP_URL"}
STOP_LIMIT_S = 20


class Servers:
    """The servers of one directory, or those that the environment names."""

    def __init__(self, path, only=None, members=None, private=False, frugal=True):
        self.directory = Directory(path)
        self.wanted = [only] if only else [MONGODB, RABBITMQ]
        self.members = members
        self.frugal = frugal
        self.external = {} if private else self._named_by_environment()
        self.state = {}
        self.started = []
        self.reports = None

    def _named_by_environment(self):
        named = {server: os.environ.get(VARIABLES[server]) for server in self.wanted}
        return {server: uri for server, uri in named.items() if uri}

    @property
    def own(self):
        """The servers that are wanted and not named by the environment."""
        return [server for server in self.wanted if server not in self.external]

    @contextmanager
    def starting(self):
        """Starts the servers, runs the block while they boot, and waits until they serve."""
        if not self.own:
            yield
            return
        with self.directory.lock():
            begun = time.monotonic()
            try:
                self._start()
                yield
                self._wait()
            except BaseException:
                with interrupt.deferred():
                    processes.stop(self.started, 0)
                raise
            if self.started:
                say(f"the servers serve after {time.monotonic() - begun:.1f} s")

    def up(self):
        """Starts the servers and waits until they serve."""
        with self.starting():
            pass

    def _start(self):
        self.directory.create()
        self.state = self.directory.load()
        mongod = provision.mongod() if MONGODB in self.own else None
        broker = (provision.rabbitmq(), provision.epmd()) if RABBITMQ in self.own else None
        if mongod:
            state = self._planned(MONGODB, lambda: mongodb.plan(self.members or 1, self.frugal))
            self._require_members(len(state["members"]))
            mongodb.start(self.directory, state, mongod, self._record)
        if broker:
            state = self._planned(RABBITMQ, rabbitmq.plan)
            self.reports = rabbitmq.start(self.directory, state, *broker, self._record)

    def _planned(self, server, plan):
        if server not in self.state:
            self.state[server] = plan()
            self.directory.save(self.state)
        return self.state[server]

    def _require_members(self, present):
        if self.members and self.members != present:
            raise Failure(
                f"{self.directory.path} holds a replica set with {present} member(s), "
                f"not {self.members}: choose another --dir, or `deploy/down --wipe` it first"
            )

    def _record(self, entry, key, command, log, env=None):
        """Starts a daemon and records it, as one step."""
        with interrupt.deferred():
            process = processes.start(command, log, env=env)
            self.started.append(process)
            entry[key] = process.to_json()
            self.directory.save(self.state)

    def _wait(self):
        if MONGODB in self.own:
            mongodb.wait(self.directory, self.state[MONGODB])
        if RABBITMQ in self.own:
            rabbitmq.wait(self.directory, self.state[RABBITMQ], self.reports)
            self.directory.save(self.state)

    def uris(self):
        """The environment variables that name the servers."""
        return {VARIABLES[server]: self.describe()[server]["uri"] for server in self.wanted}

    def describe(self):
        """Everything a program may want to know about the servers."""
        told = {"dir": str(self.directory.path)}
        modules = {MONGODB: mongodb, RABBITMQ: rabbitmq}
        for server in self.wanted:
            if server in self.external:
                told[server] = {"uri": self.external[server], "external": True}
            else:
                told[server] = modules[server].describe(self.directory, self.state[server])
        return told


def down(path, wipe=False, keep_logs=False, limit_s=STOP_LIMIT_S):
    """Stops what was started in a directory; returns the names of what ran."""
    directory = Directory(path)
    if not directory.path.is_dir():
        return []
    with directory.lock():
        state = directory.load()
        stopped = []
        if RABBITMQ in state:
            node, *others = rabbitmq.running(state[RABBITMQ])
            stopped += _stop("rabbitmq", [node], limit_s)
            # The node's helpers end with it by themselves; its epmd has no reason to stay.
            stopped += _stop("rabbitmq", others, limit_s and 2)
        if MONGODB in state:
            stopped += _stop("mongodb", mongodb.running(state[MONGODB]), limit_s)
        if wipe:
            directory.wipe(keep_logs)
            directory.remove_if_empty()
    return stopped


def _stop(server, recorded, limit_s):
    recorded = [process for process in recorded if process]
    names = {process: processes.name(process) for process in recorded}
    return [
        f"{server}: {names[process]} ({process.pid})"
        for process in processes.stop(recorded, limit_s)
    ]
