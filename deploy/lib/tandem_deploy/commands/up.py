"""`deploy/up`: starts a MongoDB replica set and a RabbitMQ node, and says where they are.

Stdout carries the result only: two shell assignments, or JSON. Exit code 0 means that both
serve; otherwise nothing that this run has started is left.
"""

import argparse
import json

from .. import LOCAL
from ..servers import MONGODB, RABBITMQ, Servers

EXAMPLES = """\
examples:
  deploy/up                             start both, print where they are
  export $(deploy/up)                   and let this shell's programs know
  deploy/up --members 3 --dir /tmp/rs   a replica set with failover
  deploy/up --only rabbitmq --json      one server, as JSON with pids and directories

Run it again at any time: what runs stays, what was killed comes back on its port with its data.
A server named by TANDEM_MONGODB_URI or TANDEM_AMQP_URL is used as it is, unless --private.
What is missing on the machine is fetched (mongod) or installed (rabbitmq-server, as root).
"""


def main(arguments=None):
    """Parses the options, brings the servers up, prints where they are."""
    parser = argparse.ArgumentParser(
        prog="deploy/up",
        description="Starts MongoDB and RabbitMQ for development, on free ports of 127.0.0.1.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--dir", default=LOCAL, help="data, logs and state (default: .local)")
    parser.add_argument("--only", choices=[MONGODB, RABBITMQ], help="just one of the servers")
    parser.add_argument(
        "--members", type=int, choices=[1, 3], help="size of the replica set (default: 1)"
    )
    parser.add_argument(
        "--private",
        action="store_true",
        help="start own servers, even where the environment names others",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)

    servers = Servers(options.dir, options.only, options.members, options.private)
    servers.up()
    if options.json:
        print(json.dumps(servers.describe(), indent=2))
    else:
        for variable, uri in servers.uris().items():
            print(f"{variable}={uri}")
    return 0
