"""Runs Tandem's servers, tests and demo on one machine, with Python's standard library alone.

From the bottom up:

- `console`: progress on stderr, expected failures, timings.
- `interrupt`: turns signals into one exception, at moments where nothing is half recorded.
- `processes`: starts daemons, recognises them again later, stops them.
- `ports`: chooses TCP ports that nobody uses.
- `directory`: what one deployment keeps on disk: data, logs, state.
- `wire`, `bson`, `mongo_wire`, `amqp_wire`: just enough of each protocol to ask a server whether it serves.
- `apt`, `provision`: brings the programs of the servers onto a bare machine.
- `mongodb`, `rabbitmq`: start each server, and wait until it serves.
- `servers`: both of them as one deployment in one directory.
- `rabbitmq_cluster`: several nodes, each a deployment, as one broker.
- `build`: cargo.
- `demo`: the parts of the demonstration.
- `commands`: one module for each executable in `deploy/`.
"""

import sys
from pathlib import Path

if sys.version_info < (3, 9):
    sys.exit("deploy: Python 3.9 or newer is needed")
if not sys.platform.startswith("linux"):
    sys.exit("deploy: these scripts run on Linux only")

ROOT = Path(__file__).resolve().parents[3]
"""The project's root."""

LOCAL = ROOT / ".local"
"""Everything these scripts write; ignored by git."""
