"""Owns what the scripts tell people.

Progress goes to stderr, so that stdout carries results only and can be evaluated by a shell.
A `Failure` is an outcome to explain (a missing program, a server that does not start): `run`
prints its text without a traceback and exits with 1. Any other exception is a bug and keeps
its traceback.
"""

import sys
import time
from contextlib import contextmanager

from . import interrupt


class Failure(Exception):
    """Something went wrong that its text explains, with what to do about it."""


def say(text):
    """One line of progress."""
    print(f"tandem: {text}", file=sys.stderr, flush=True)


def tail(path, lines=8):
    """The end of a log, indented, for a failure's text."""
    try:
        text = path.read_text(errors="replace").splitlines()[-lines:]
    except OSError:
        return f"  ({path} cannot be read)"
    return "\n".join(f"  | {line[:300]}" for line in text) or f"  ({path} is empty)"


class Timings:
    """Seconds per part of a longer run, in the order in which the parts began."""

    def __init__(self):
        self.started = time.monotonic()
        self.parts = []

    @contextmanager
    def part(self, name):
        """Times one part, also one that fails."""
        begun = time.monotonic()
        try:
            yield
        finally:
            self.parts.append((name, time.monotonic() - begun))

    def total_s(self):
        """Seconds since the beginning."""
        return time.monotonic() - self.started

    def lines(self):
        """The parts and the total, as aligned text."""
        rows = [*self.parts, ("total", self.total_s())]
        width = max(len(name) for name, _ in rows)
        return [f"  {name:<{width}}  {seconds:7.1f} s" for name, seconds in rows]


def run(main):
    """Runs `main` as a program: its exit code, 1 for a failure, 128 + signal when interrupted."""
    interrupt.install()
    try:
        sys.exit(main())
    except Failure as failure:
        print(f"tandem: error: {failure}", file=sys.stderr)
        sys.exit(1)
    except interrupt.Interrupted as interrupted:
        say(f"interrupted by {interrupted.name}")
        sys.exit(128 + interrupted.signum)
