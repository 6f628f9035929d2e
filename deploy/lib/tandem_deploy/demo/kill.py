"""Owns the crash in the demo: kills a worker that holds transactions, and times the recovery.

It runs in a thread beside the submission. Once enough transfers have reached a final state it
sends SIGKILL to a worker and asks which transactions that worker held; when it held none, the
next worker follows, twice at most, and one worker is always left. An error ends the thread and
is raised by `join_and_check`.
"""

import signal
import threading
import time
from datetime import datetime

from .. import processes
from ..console import Failure, say

KILL_AT = 0.4
KILLS_MAX = 3
POLL_S = 0.05
JOIN_LIMIT_S = 130
FINAL = ("done", "canceled")


class Kill(threading.Thread):
    """The thread, and afterwards what it has seen."""

    def __init__(self, programs, transfers):
        super().__init__(name="kill", daemon=True)
        self.programs = programs
        self.transfers = transfers
        self.begun = None
        self.over = threading.Event()
        self.failure = None
        self.killed = []
        self.held = []
        self.killed_at = None
        self.rate_before = None

    def run(self):
        """Waits for the moment, kills."""
        self.begun = time.time()
        try:
            if self._wait_for_moment():
                self._kill()
        except Failure as failure:
            self.failure = failure

    def join_and_check(self):
        """Ends the thread; raises what went wrong in it."""
        self.over.set()
        self.join(JOIN_LIMIT_S)
        if self.failure:
            raise self.failure

    def _wait_for_moment(self):
        """Whether there was one before the submission was over."""
        while not self.over.wait(POLL_S):
            states = self.programs.stats()["states"]
            final = sum(states.get(state, 0) for state in FINAL)
            if final >= KILL_AT * self.transfers:
                self.rate_before = final / (time.time() - self.begun)
                return True
            self.programs.require_workers()
        return False

    def _kill(self):
        first = 1 % len(self.programs.workers)
        order = self.programs.workers[first:] + self.programs.workers[:first]
        for worker in order[: min(KILLS_MAX, len(order) - 1)]:
            # Said before the signal: the watcher in the foreground must not take it for a fault.
            worker.killed = True
            self.killed_at = time.time()
            processes.send(worker.process, signal.SIGKILL)
            self.killed.append(worker.name)
            self.held = self.programs.in_flight(worker)
            say(f"killed {worker.name} (SIGKILL): it held {len(self.held)} transactions")
            if self.held or self.over.is_set():
                return

    def recovery_s(self):
        """Seconds from the kill until the last of the held transactions was final, or None."""
        if not self.held:
            return None
        found = self.programs.status(self.held)
        open_ids = [one["_id"] for one in found if one["state"] not in FINAL]
        if len(found) != len(self.held) or open_ids:
            raise Failure(
                f"of {len(self.held)} transactions that {self.killed[-1]} held, "
                f"{len(found)} were found and {len(open_ids)} are not final"
            )
        last = max(_timestamp(one["lastModified"]) for one in found)
        return last - self.killed_at


def _timestamp(text):
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
