"""`deploy/broker-returns`: how soon do workers consume again after their broker's return?

Starts MongoDB; the broker that is killed and started again is the measuring program's own
(`tests/src/bin/returns.rs`), and its exit code is the command's. Everything lives in a fresh
directory under `.local/` that is removed at the end, with every process that is left.
"""

import argparse
import os
from pathlib import Path

from .. import build, processes
from ..servers import MONGODB, Servers
from . import test

EXAMPLES = """\
examples:
  deploy/broker-returns                               50 times, about 15 minutes
  deploy/broker-returns --times 3 --json out.json

Exit code 0 means: each time all workers consumed again, and a transfer submitted since was done,
within 10 s of the first login that the broker accepted; and at rest the audit found nothing.
"""


def main(arguments=None):
    """Parses the options, measures; the program's exit code."""
    parser = argparse.ArgumentParser(
        prog="deploy/broker-returns",
        description="Kills and restarts a broker under load, and measures the recovery.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--times", type=int, default=50, metavar="N")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to a file")
    options = parser.parse_args(arguments)
    if options.times < 1:
        parser.error("--times must be at least 1")
    told = ["--times", str(options.times)]
    if options.json:
        told += ["--json", str(options.json.absolute())]
    with test.fresh_directory() as directory:
        env = test.environment(directory)
        servers = Servers(directory, only=MONGODB)
        with servers.starting():
            binaries = build.build_binaries(env)
        env.update(servers.uris())
        code = processes.run([binaries / "returns", *told], env=env)
        if code != 0:
            test.keep_logs(directory)
    return code
