"""Owns SIGINT, SIGTERM and SIGHUP.

The first signal raises `Interrupted` in the main thread, once; later ones are ignored, because
clean-up is then under way and every step of it has a time limit. Inside `deferred()` the
exception waits until the block has ended, so that no process is started without being recorded.
"""

import signal
from contextlib import contextmanager

_depth = 0
_signum = None
_raised = False


class Interrupted(BaseException):
    """A signal asked the script to end. Not an `Exception`: nothing but clean-up may catch it."""

    def __init__(self, signum):
        super().__init__(signum)
        self.signum = signum
        self.name = signal.Signals(signum).name


def install():
    """Takes the signals over. SIGHUP stays ignored where it was (nohup)."""
    signal.signal(signal.SIGINT, _received)
    signal.signal(signal.SIGTERM, _received)
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        signal.signal(signal.SIGHUP, _received)


def _received(signum, _frame):
    global _signum
    if _signum is None:
        _signum = signum
        _raise_if_due()


def _raise_if_due():
    global _raised
    if _signum is not None and _depth == 0 and not _raised:
        _raised = True
        raise Interrupted(_signum)


@contextmanager
def deferred():
    """A block that a signal does not cut in two. Main thread only; keep it short."""
    global _depth
    _depth += 1
    try:
        yield
    finally:
        _depth -= 1
    _raise_if_due()
