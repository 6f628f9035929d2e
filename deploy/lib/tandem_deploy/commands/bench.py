"""`deploy/bench`: the benchmark on servers of its own.

The servers live in .local/bench, start empty and are gone afterwards, whatever the outcome. The
exit code is the benchmark's: 0 when every run's books balance.
"""

import os
import shutil
import sys
from contextlib import contextmanager

from .. import LOCAL, build, interrupt, processes
from ..console import Timings, say
from ..directory import Directory, locked
from ..servers import MONGODB, RABBITMQ, Servers, down

HELP = """\
usage: deploy/bench [--json FILE] [--quick] [OPTION ...]

Compares the articles' two-phase commit, native MongoDB transactions and Tandem on servers of its
own: a MongoDB replica set of one member and a RabbitMQ node. Builds the programs first.
Prints tables in Markdown, as the README shows them.

  --json FILE            write everything that was measured
  --picture DIR          write the comparison as bench.svg and bench.png
  --quick                less of everything (a few minutes): for a look, not for a figure
  --only NAME,...        articles, native, native-lean, native-batch, tandem, tandem-full,
                         transaction
  --workload NAME,...    uniform, half-hot, zipf, multi-leg, refused
  --part NAME,...        throughput, latency, idle, book, backlog, growth
  --growth               all parts, with growth (which takes long)
  --transfers N          transfers of a run of Tandem
  --repeat N             repetitions
  --workers N            workers of Tandem
  --worker-args FLAGS    flags of the workers

examples:
  deploy/bench --json bench.json --picture .
  deploy/bench --quick
  deploy/bench --only tandem,native --workload uniform,half-hot --part throughput --repeat 5
  deploy/bench --only tandem --part throughput --worker-args '--lanes 4'

`target/release/bench --help` says more. Servers that run elsewhere are never used: what else they
do would be in the figures.
"""

HOME = LOCAL / "bench"
WORK = HOME / "work"


def main(arguments=None):
    """Starts servers, builds, runs the benchmark; its exit code."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    if any(argument in ("-h", "--help") for argument in arguments):
        print(HELP, end="")
        return 0
    timings = Timings()
    with locked(HOME / "bench.lock", wait=False), _nothing_left():
        try:
            return _run(arguments, timings)
        finally:
            say("\n".join(["time", *timings.lines()]))


@contextmanager
def _nothing_left():
    """Ends the benchmark's processes with the block, and before it those of a killed run."""
    _end_all()
    try:
        yield
    finally:
        with interrupt.deferred():
            _end_all()


def _end_all():
    processes.sweep(HOME)
    down(HOME, limit_s=0)
    Directory(HOME).wipe()
    shutil.rmtree(WORK, ignore_errors=True)


def _run(arguments, timings):
    # Settings of the shell would be in the figures, too.
    own = {name: value for name, value in os.environ.items() if not name.startswith("TANDEM_")}
    env = {**own, processes.OWNER: str(HOME)}
    servers = Servers(HOME, private=True, frugal=False)
    with timings.part("servers and build"), servers.starting():
        binaries = build.build_binaries(env, ["worker", "producer", "bench"], release=True)
    told = servers.describe()
    env.update(servers.uris(), TANDEM_TEST_DIR=str(WORK))
    pids = [
        *("--mongodb-pid", str(told[MONGODB]["pid"])),
        *("--rabbitmq-pid", str(told[RABBITMQ]["pid"])),
    ]
    with timings.part("benchmark"):
        return processes.run([binaries / "bench", *pids, *arguments], env)
