"""`deploy/demo`: settles transfers, kills a worker in the middle, audits the result.

Exit code 0 means: every transfer came to the end that its input calls for, and the audit found
nothing. Whatever the outcome, also when interrupted, no process is left (but see --keep).
"""

import argparse
import os
import time
from contextlib import contextmanager

from .. import LOCAL, build, interrupt, processes
from ..console import Timings, say
from ..demo import data, verdict
from ..demo.kill import Kill
from ..demo.programs import Programs
from ..directory import Directory, locked
from ..servers import Servers, down

EXAMPLES = """\
examples:
  deploy/demo                              20,000 transfers, 3 workers, one of them killed
  deploy/demo --transfers 200000           more of them
  deploy/demo --keep                       leave servers and data for a look around

Everything it writes is in .local/demo: logs/, accounts.csv, transfers.csv.
A server named by TANDEM_MONGODB_URI or TANDEM_AMQP_URL is used instead of an own one; the
demo's database and queues (demo_...) then stay there.
"""

HOME = LOCAL / "demo"
SUBMIT_LIMIT_MIN_S = 600
TRANSFERS_PER_S_MIN = 100


def main(arguments=None):
    """Parses the options, runs the demo."""
    options = _parse(arguments)
    timings = Timings()
    with locked(HOME / "demo.lock", wait=False), _nothing_left(options.keep):
        try:
            found = _run(options, timings)
        finally:
            say("\n".join(["time", *timings.lines()]))
    for problem in found:
        say(f"FAILED: {problem}")
    print("demo: FAILED" if found else "demo: every transfer came to its end, the books balance")
    return 1 if found else 0


def _parse(arguments):
    parser = argparse.ArgumentParser(
        prog="deploy/demo",
        description="Settles transfers on real servers while a worker is killed.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--transfers", type=int, default=20_000, metavar="N")
    parser.add_argument("--accounts", type=int, default=1_000, metavar="N")
    parser.add_argument("--workers", type=int, default=3, metavar="N")
    parser.add_argument("--keep", action="store_true", help="leave the servers running")
    options = parser.parse_args(arguments)
    if options.transfers < data.TRANSFERS_MIN:
        parser.error(f"--transfers must be at least {data.TRANSFERS_MIN}")
    if options.accounts < data.ACCOUNTS_MIN:
        parser.error(f"--accounts must be at least {data.ACCOUNTS_MIN}")
    if options.transfers > options.accounts * data.BALANCE // 10:
        parser.error("--transfers is too high: so few --accounts would run out of money")
    if options.workers < 1:
        parser.error("--workers must be at least 1")
    return options


@contextmanager
def _nothing_left(keep):
    """Ends the demo's processes with the block, and before it those of a run that was killed."""
    processes.sweep(HOME)
    if not Directory(HOME).load():
        Directory(HOME).wipe()  # No servers run that write to the last run's logs.
    try:
        yield
    except BaseException:
        keep = False
        raise
    finally:
        with interrupt.deferred():
            processes.sweep(HOME)
            if keep:
                say(f"servers are left running; stop them with: deploy/down --dir {HOME} --wipe")
            else:
                down(HOME, wipe=True, keep_logs=True, limit_s=0)


def _run(options, timings):
    """The demo from the servers to the audit; returns what is wrong with the result."""
    name = f"demo_{time.time_ns() // 1_000_000}"
    env = {**os.environ, processes.OWNER: str(HOME)}
    servers = Servers(HOME)
    with timings.part("servers and build"), servers.starting():
        binaries = build.build_binaries(env, ["worker", "producer"], release=True)
    env.update(servers.uris(), TANDEM_DATABASE=name, TANDEM_QUEUE_PREFIX=name)
    say(f"database and queue prefix: {name}")
    programs = Programs(binaries, env, HOME / "logs")
    with timings.part("generate"):
        expected = data.generate(HOME, options.transfers, options.accounts)
    with timings.part("import accounts"):
        programs.producer("init")
        programs.producer("accounts", "import", str(HOME / "accounts.csv"))
    with timings.part("start workers"):
        programs.start_workers(options.workers)
    code, kill, submit_s = _submit(programs, options.transfers, timings)
    with timings.part("audit"):
        stats = programs.stats()
        recovery_s = kill.recovery_s()
        print(verdict.table(expected, stats, kill, recovery_s, options.transfers, submit_s))
        audit_code = programs.show_producer("audit")
    with timings.part("stop workers"):
        programs.require_workers()
        programs.stop_workers()
    return verdict.problems(expected, stats, code, audit_code)


def _submit(programs, transfers, timings):
    """Submits and waits for the last transfer, while a worker is killed beside it."""
    limit_s = max(SUBMIT_LIMIT_MIN_S, transfers // TRANSFERS_PER_S_MIN)
    kill = Kill(programs, transfers)
    say(f"submitting {transfers:,} transfers")
    begun = time.monotonic()
    kill.start()
    try:
        with timings.part("submit and settle"):
            code = programs.show_producer(
                "submit", str(HOME / "transfers.csv"), "--wait", limit_s=limit_s
            )
        submit_s = time.monotonic() - begun
    finally:
        kill.over.set()
    kill.join_and_check()
    return code, kill, submit_s
