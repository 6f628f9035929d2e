"""`deploy/down`: stops what `deploy/up` has started in a directory.

Only processes that are still those recorded are signalled. Exit code 0 means that none of them
runs any more; data is kept unless --wipe.
"""

import argparse

from .. import LOCAL
from ..servers import STOP_LIMIT_S, down

EXAMPLES = """\
examples:
  deploy/down                          stop, keep the data
  deploy/down --wipe                   stop, remove data and logs (fetched programs stay)
  deploy/down --dir /tmp/rs --wipe     the servers of another directory
"""


def main(arguments=None):
    """Parses the options, stops the servers, prints what was stopped."""
    parser = argparse.ArgumentParser(
        prog="deploy/down",
        description="Stops the servers that deploy/up has started.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--dir", default=LOCAL, help="as given to deploy/up (default: .local)")
    parser.add_argument("--wipe", action="store_true", help="remove data, logs and state as well")
    parser.add_argument(
        "--limit-s",
        type=int,
        default=STOP_LIMIT_S,
        help="seconds between SIGTERM and SIGKILL; 0: SIGKILL at once (default: %(default)s)",
    )
    options = parser.parse_args(arguments)

    stopped = down(options.dir, options.wipe, limit_s=options.limit_s)
    for line in stopped:
        print(f"stopped {line}")
    if not stopped:
        print("nothing was running")
    return 0
