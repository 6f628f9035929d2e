"""`deploy/test`: runs the workspace's tests against servers of their own.

The servers live in a fresh directory under `.local/` that is removed at the end, with every
process that the tests have left behind, whatever the outcome. Logs are kept when tests fail.
A run that was itself killed is cleaned up after by the next one. The exit code is cargo's.
"""

import argparse
import os
import shutil
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

from .. import LOCAL, ROOT, build, interrupt, processes
from ..console import Failure, Timings, say
from ..directory import locked
from ..servers import Servers, down

EXAMPLES = """\
examples:
  deploy/test                       all tests of the workspace
  deploy/test killed_worker         those whose names contain this
  deploy/test --test-threads 1      what comes after `cargo test --workspace --no-fail-fast --`

A server named by TANDEM_MONGODB_URI or TANDEM_AMQP_URL is used instead of an own one.
Tests see these variables, and
  TANDEM_DEPLOY_UP   the path of deploy/up, for servers of a test's own (`--private --dir ...`)
  TANDEM_TEST_DIR    a directory for them; servers left in it are stopped at the end
"""

PREFIX = "test-"
LOGS = LOCAL / "test-logs"


def main(arguments=None):
    """Parses the options, runs the tests; cargo's exit code."""
    parser = argparse.ArgumentParser(
        prog="deploy/test",
        description="Runs all tests on real servers, which it starts and stops.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    test_arguments = sys.argv[1:] if arguments is None else list(arguments)
    # Everything but a request for help is for the tests.
    if test_arguments[:1] in (["-h"], ["--help"]):
        parser.parse_args(test_arguments)
    if test_arguments[:1] == ["--"]:
        del test_arguments[0]

    timings = Timings()
    try:
        with fresh_directory() as directory:
            code = _run(directory, test_arguments, timings)
            if code != 0:
                keep_logs(directory)
    finally:
        say("\n".join(["time", *timings.lines()]))
    return code


def _run(directory, test_arguments, timings):
    """Builds while the servers boot, then tests."""
    env = environment(directory)
    servers = Servers(directory)
    try:
        with timings.part("servers and build"), servers.starting():
            build.build_binaries(env)
    except Failure:
        keep_logs(directory)
        raise
    env.update(servers.uris())
    # The tests mostly wait for leases and deadlines, so more of them run than there are cores.
    env.setdefault("RUST_TEST_THREADS", "8")
    command = [build.cargo(), "test", "--workspace", "--no-fail-fast", "--", *test_arguments]
    with timings.part("tests"):
        return processes.run(command, env=env, cwd=ROOT)


def environment(directory):
    """What a run's programs are told, but for the servers; marks all that is started from now on."""
    # Also for the servers: those that a test starts are found by it.
    os.environ[processes.OWNER] = str(directory)
    told = {"TANDEM_DEPLOY_UP": str(ROOT / "deploy" / "up"), "TANDEM_TEST_DIR": str(directory)}
    return {**os.environ, **told}


@contextmanager
def fresh_directory():
    """A fresh directory; what runs in it, or was started from it, ends with the block."""
    LOCAL.mkdir(exist_ok=True)
    for left in LOCAL.glob(f"{PREFIX}*-dir"):
        _clean_up_after_killed_run(left)
    directory = Path(tempfile.mkdtemp(dir=LOCAL, prefix=PREFIX, suffix="-dir"))
    with locked(directory / "run.lock"):
        try:
            yield directory
        finally:
            with interrupt.deferred():
                _remove(directory)


def _clean_up_after_killed_run(directory):
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(directory / "run.lock", wait=False))
        except Failure:
            return  # It runs at this moment.
        say(f"cleaning up after a run that was killed: {directory}")
        _remove(directory)


def _remove(directory):
    for state in sorted(directory.rglob("state.json"), reverse=True):
        if state.parent != directory:
            say(f"stopping servers that a test has left in {state.parent}")
        down(state.parent, limit_s=0)
    for process in processes.sweep(directory):
        say(f"killed a process that the tests have left: {process}")
    shutil.rmtree(directory, ignore_errors=True)


def keep_logs(directory):
    """Copies the logs of all servers away before the directory goes."""
    kept = LOGS / time.strftime("%Y%m%d-%H%M%S")
    for logs in directory.rglob("logs"):
        shutil.copytree(logs, kept / logs.parent.relative_to(directory), dirs_exist_ok=True)
    say(f"logs of the servers: {kept}")
