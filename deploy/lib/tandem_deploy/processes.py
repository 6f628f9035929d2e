"""Owns processes: starts daemons, recognises them later, stops them.

A process is remembered as pid, start time and boot, so a pid that the kernel has given to
another program is never taken for ours, and never signalled: the signal goes through a pidfd
that was opened before the check. A zombie counts as dead. Stopping is bounded: SIGTERM, a
limit, SIGKILL; it fails only when even that leaves a process (stuck in the kernel).
"""

import os
import select
import signal
import subprocess
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

from .console import Failure, say

OWNER = "TANDEM_DEPLOY_OWNER"
"""Environment variable that marks whatever a run has started, directly or not."""

KILL_LIMIT_S = 10
POLL_S = 0.02
EXEC_LIMIT_S = 0.2

_children = []  # Kept so that ended children are reaped by later polls.


@dataclass(frozen=True)
class Process:
    """A process, told apart from any later one with its pid."""

    pid: int
    started: int
    boot: str

    def to_json(self):
        """For the state file."""
        return asdict(self)


def from_json(data):
    """The process in a state file, or None."""
    return Process(**data) if data else None


class _Stat(NamedTuple):
    state: str
    parent: int
    session: int
    started: int


def _boot():
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _stat(pid):
    """What /proc says about a process; None when there is none with this pid."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The name, in parentheses, may hold spaces and parentheses itself.
    fields = text[text.rindex(")") + 2 :].split()
    return _Stat(fields[0], int(fields[1]), int(fields[3]), int(fields[19]))


def identify(pid):
    """The living process with this pid, or None."""
    stat = _stat(pid)
    if stat is None or stat.state in "ZX":
        return None
    return Process(pid, stat.started, _boot())


def alive(process):
    """Whether exactly this process still runs."""
    _children[:] = [child for child in _children if child.poll() is None]
    return process is not None and identify(process.pid) == process


def name(process):
    """A short name for messages."""
    try:
        return Path(f"/proc/{process.pid}/comm").read_text().strip()
    except OSError:
        return "process"


def _pids():
    return [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]


def descendants(process):
    """All living descendants of a process."""
    children = {}
    for pid in _pids():
        stat = _stat(pid)
        if stat:
            children.setdefault(stat.parent, []).append(pid)
    found, queue = [], [process.pid]
    while queue:
        for pid in children.get(queue.pop(), []):
            queue.append(pid)
            found.append(identify(pid))
    return [child for child in found if child]


def _session(leader):
    """All living processes of a session."""
    stats = {pid: _stat(pid) for pid in _pids()}
    found = [identify(pid) for pid, stat in stats.items() if stat and stat.session == leader]
    return [process for process in found if process]


def start(command, log, env=None, cwd=None):
    """Starts a daemon: a session of its own, no terminal, output appended to `log`."""
    log.parent.mkdir(parents=True, exist_ok=True)
    try:
        with open(log, "ab") as output:
            child = subprocess.Popen(
                [str(part) for part in command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=env,
                cwd=cwd,
                start_new_session=True,
            )
    except OSError as error:
        raise Failure(f"cannot start {command[0]}: {error}") from error
    _children.append(child)
    # Not reaped before a poll of ours, so /proc has it, be it as a zombie.
    return Process(child.pid, _stat(child.pid).started, _boot())


def run(command, env=None, cwd=None, limit_s=None):
    """Runs a program in the foreground of the console, in a session of its own; its exit code.

    Whatever it has started and left running is killed, also on a signal or at the limit.
    """
    program = Path(command[0]).name
    try:
        child = subprocess.Popen(
            [str(part) for part in command],
            stdin=subprocess.DEVNULL,
            env=env,
            cwd=cwd,
            start_new_session=True,
        )
    except OSError as error:
        raise Failure(f"cannot start {command[0]}: {error}") from error
    ended = os.pidfd_open(child.pid)
    try:
        if not select.select([ended], [], [], limit_s)[0]:
            raise Failure(f"{program} did not end within {limit_s} s")
        for process in _session(child.pid):
            say(f"{program} left {name(process)} ({process.pid}) running: killed")
    finally:
        os.close(ended)
        # Before the child is reaped: until then nobody else can get its session's number.
        while left := _session(child.pid):
            stop(left, 0)
        code = child.wait()
    return code if code >= 0 else 128 - code


def send(process, signum):
    """Signals exactly this process; False when it is gone."""
    try:
        handle = os.pidfd_open(process.pid)
    except OSError:
        return False
    try:
        if not alive(process):
            return False
        signal.pidfd_send_signal(handle, signum)
        return True
    except ProcessLookupError:
        return False
    except PermissionError:
        raise Failure(
            f"process {process.pid} belongs to another user: run this as the user who started it"
        ) from None
    finally:
        os.close(handle)


def wait_gone(stopping, limit_s):
    """Waits for processes to end; returns those that have not within the limit."""
    deadline = time.monotonic() + limit_s
    while True:
        left = [process for process in stopping if alive(process)]
        if not left or time.monotonic() >= deadline:
            return left
        time.sleep(POLL_S)


def stop(stopping, limit_s):
    """Ends processes: SIGTERM, then SIGKILL after the limit (at once when it is 0).

    Returns those that ran. Fails when one survives SIGKILL.
    """
    running = [process for process in stopping if alive(process)]
    if limit_s:
        for process in running:
            send(process, signal.SIGTERM)
    left = wait_gone(running, limit_s)
    for process in left:
        send(process, signal.SIGKILL)
    stuck = wait_gone(left, KILL_LIMIT_S)
    if stuck:
        raise Failure(f"cannot end process {stuck[0].pid}, not even by SIGKILL")
    return running


def _environment(pid):
    """A process's environment; waits out an exec, during which it shows none for a moment."""
    deadline = time.monotonic() + EXEC_LIMIT_S
    while True:
        try:
            environment = Path(f"/proc/{pid}/environ").read_bytes()
            os.readlink(f"/proc/{pid}/exe")  # Fails for what never has one: kernel threads, zombies.
        except OSError:
            return b""
        if environment or time.monotonic() >= deadline:
            return environment
        time.sleep(POLL_S / 10)


def owned(owner):
    """All living processes that carry this owner's mark, except this script."""
    mark = f"{OWNER}={owner}".encode()
    found = [
        identify(pid)
        for pid in _pids()
        if pid != os.getpid() and mark in _environment(pid).split(b"\0")
    ]
    return [process for process in found if process]


def sweep(owner):
    """Kills whatever carries this owner's mark; returns the names of what was killed."""
    killed = []
    for _ in range(10):  # What is killed may just have started something.
        left = owned(owner)
        if not left:
            break
        killed += [f"{name(process)} ({process.pid})" for process in left]
        stop(left, 0)
    return killed
