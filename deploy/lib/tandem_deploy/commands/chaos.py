"""`deploy/chaos`: submits for minutes while everything fails by a schedule; then judges.

Starts a replica set of three members and a broker (or a cluster of three), each in a directory of
its own, so that one can be brought up again while the other is; builds; runs the program `chaos` on
them. Exit code 0 means no violation. Whatever the outcome, also when interrupted, no process is left; after a violation the
servers' data and all logs stay for a look.
"""

import argparse
import json
import os

from .. import LOCAL, ROOT, build, interrupt, processes, rabbitmq_cluster
from ..console import Timings, say
from ..directory import Directory, locked
from ..servers import MONGODB, RABBITMQ, Servers, down

EXAMPLES = """\
examples:
  deploy/chaos                             2 minutes
  deploy/chaos --minutes 32 --json c.json  half an hour with more than 300 faults
  deploy/chaos --seed 7                    other faults, other transactions
  deploy/chaos --cluster                   three brokers instead of one
  deploy/chaos --neighbour                 somebody writes odd documents and messages all the time

A tenth of the time (15 s to 120 s) is calm, for comparison. Then a worker, a producer or the
primary is killed or stands still, the primary steps down, the broker is killed, its connections
are closed, the work queue is deleted, or a link is cut, refused, slow or half-open: one fault every
five seconds. Then rest; then every row is compared with what its producer was told, all balances are
counted again, and the ledger is audited.

Everything it writes is in .local/chaos: logs/, and the timeline chaos.svg and chaos.png.
"""

HOME = LOCAL / "chaos"
DATABASE = HOME / "mongodb"
BROKERS = [HOME / f"rabbitmq-{number}" for number in (1, 2, 3)]
MEMBERS = 3
"""The least that has a majority when one is away."""


def main(arguments=None):
    """Parses the options, runs chaos; the exit code."""
    options = _parse(arguments)
    timings = Timings()
    with locked(HOME.with_suffix(".lock"), wait=False), _Cleaned() as cleaned:
        try:
            code = _run(options, timings)
            cleaned.well = code == 0
        finally:
            say("\n".join(["time", *timings.lines()]))
    return code


def _parse(arguments):
    parser = argparse.ArgumentParser(
        prog="deploy/chaos",
        description="Runs Tandem on real servers while everything fails, and judges the result.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--minutes", type=float, default=2, metavar="M")
    parser.add_argument("--seed", type=int, default=1, metavar="S")
    parser.add_argument("--rate", type=int, default=400, metavar="N", help="rows a second (400)")
    parser.add_argument("--cluster", action="store_true", help="three brokers, one fails at a time")
    parser.add_argument(
        "--neighbour", action="store_true", help="with odd documents and messages all the time"
    )
    parser.add_argument("--json", metavar="FILE", help="write the report as JSON")
    parser.add_argument(
        "--figure", metavar="PATH", help="where to draw the timeline, without the ending"
    )
    options = parser.parse_args(arguments)
    if not 0.5 <= options.minutes <= 600:
        parser.error("--minutes must be between 0.5 and 600")
    return options


class _Cleaned:
    """Ends all processes with the block, and before it those of a run that was killed."""

    def __init__(self):
        self.well = False

    def __enter__(self):
        processes.sweep(HOME)
        for path in (DATABASE, *BROKERS):
            down(path, wipe=True, limit_s=0)
        Directory(HOME).wipe()
        return self

    def __exit__(self, *_exception):
        with interrupt.deferred():
            processes.sweep(HOME)
            for path in (DATABASE, *BROKERS):
                down(path, wipe=self.well, keep_logs=True, limit_s=0)
            if not self.well:
                say(f"data and logs are kept until the next run: {HOME}")


def _run(options, timings):
    os.environ[processes.OWNER] = str(HOME)
    database = Servers(DATABASE, MONGODB, MEMBERS, private=True)
    starting = rabbitmq_cluster.starting(BROKERS if options.cluster else BROKERS[:1])
    with timings.part("servers and build"), database.starting(), starting as brokers:
        binaries = build.build_binaries(os.environ, ["worker", "producer", "chaos"], release=True)
    described = HOME / "servers.json"
    described.write_text(json.dumps(_describe(database, brokers), indent=2) + "\n")
    command = [binaries / "chaos", "--servers", described, "--home", HOME]
    command += ["--minutes", options.minutes, "--seed", options.seed, "--rate", options.rate]
    for name in ("json", "figure"):
        if value := getattr(options, name):
            command += [f"--{name}", value]
    if options.neighbour:
        command.append("--neighbour")
    with timings.part("chaos"):
        return processes.run(command, env=os.environ)


def _describe(database, brokers):
    """The servers, for the program."""
    described = [
        {
            **broker.describe()[RABBITMQ],
            "directory": str(broker.directory.path),
            "control": rabbitmq_cluster.control(broker),
        }
        for broker in brokers
    ]
    return {
        "up": str(ROOT / "deploy" / "up"),
        "mongodb": {
            **database.describe()[MONGODB],
            "directory": str(database.directory.path),
        },
        "brokers": described,
    }
