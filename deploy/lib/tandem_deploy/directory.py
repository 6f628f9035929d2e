"""Owns what one deployment keeps on disk.

A directory holds `data/`, `logs/`, `run/` (pid files and generated configuration) and
`state.json`, which names ports and processes and is replaced atomically. Whoever changes any
of it holds the lock; a second script waits for it. A state file that cannot be read is a
failure, never taken for an empty one, because servers could be running.
"""

import fcntl
import json
import os
import shutil
from contextlib import contextmanager
from pathlib import Path

from .console import Failure, say


class Directory:
    """One deployment's directory."""

    def __init__(self, path):
        self.path = Path(path).absolute()
        self.data = self.path / "data"
        self.logs = self.path / "logs"
        self.run = self.path / "run"
        self.state_file = self.path / "state.json"

    def create(self):
        """Makes the directories."""
        try:
            for path in (self.data, self.logs, self.run):
                path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Failure(f"cannot write to {self.path}: {error}; choose another --dir") from error

    def load(self):
        """The state; empty when nothing was ever started here."""
        try:
            return json.loads(self.state_file.read_text())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise Failure(f"cannot read {self.state_file}: {error}") from error

    def save(self, state):
        """Replaces the state."""
        new = self.state_file.with_suffix(".new")
        new.write_text(json.dumps(state, indent=2) + "\n")
        os.replace(new, self.state_file)

    def wipe(self, keep_logs=False):
        """Removes everything that servers have written here, and nothing else."""
        for path in (self.data, self.run) if keep_logs else (self.data, self.run, self.logs):
            shutil.rmtree(path, ignore_errors=True)
        self.state_file.unlink(missing_ok=True)

    def remove_if_empty(self):
        """Removes the directory when only the lock is left in it."""
        if self.path.is_dir() and {entry.name for entry in self.path.iterdir()} <= {"lock"}:
            shutil.rmtree(self.path, ignore_errors=True)

    def lock(self):
        """Keeps other scripts out of this directory for a while."""
        return locked(self.path / "lock")


@contextmanager
def locked(path, wait=True):
    """Holds an exclusive lock on a file; without `wait`, fails when another process holds it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = _open_locked(path, wait)
    except BlockingIOError:
        raise Failure(f"another run holds {path}: wait for it, or stop it") from None
    except OSError as error:
        raise Failure(f"cannot lock {path}: {error}") from error
    try:
        yield
    finally:
        os.close(handle)


def _open_locked(path, wait):
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if not wait:
                    raise
                say(f"waiting for another run that holds {path}")
                fcntl.flock(handle, fcntl.LOCK_EX)
            # The holder before us may have removed the file: then this lock protects nothing.
            if path.exists() and os.path.samestat(os.fstat(handle), os.stat(path)):
                return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)
