"""Owns a RabbitMQ cluster: nodes of `rabbitmq`, each in a directory of its own, joined into one.

The first node is started as it is. The others get its cookie and its port mapper before they start,
and join it once they serve. From then on each is an ordinary node: it can be killed, and `up` on
its directory brings it back into the cluster.
"""

import os
import shutil
import subprocess
from contextlib import ExitStack, contextmanager

from . import provision, rabbitmq
from .console import Failure, say
from .servers import RABBITMQ, Servers

COOKIE = ".erlang.cookie"
JOIN_LIMIT_S = 120


@contextmanager
def starting(directories):
    """Starts a node in each directory; runs the block meanwhile; returns the nodes' `Servers`."""
    nodes = [Servers(directory, RABBITMQ, private=True) for directory in directories]
    first, *others = nodes
    with first.starting():
        yield nodes
    if not others:
        return
    with ExitStack() as stack:
        for node in others:
            _introduce(first, node)
            stack.enter_context(node.starting())
    for node in others:
        _join(first, node)


def control(node):
    """The administrator's program for a node, and its environment."""
    return rabbitmq.control(node.directory, node.state[RABBITMQ], provision.rabbitmq())


def _introduce(first, node):
    """Gives a node that has never run the first one's cookie and port mapper."""
    known = first.state[RABBITMQ]
    node.directory.create()
    shared = {key: known[key] for key in ("epmd_port", "epmd")}
    node.directory.save({RABBITMQ: {**rabbitmq.plan(), **shared}})
    home = rabbitmq.home(node.directory)
    home.mkdir(parents=True, exist_ok=True)
    shutil.copy2(rabbitmq.home(first.directory) / COOKIE, home / COOKIE)


def _join(first, node):
    say(f"rabbitmq: {node.state[RABBITMQ]['node']} joins {first.state[RABBITMQ]['node']}")
    for arguments in (["stop_app"], ["join_cluster", first.state[RABBITMQ]["node"]], ["start_app"]):
        _rabbitmqctl(node, arguments)


def _rabbitmqctl(node, arguments):
    own = control(node)
    try:
        done = subprocess.run(
            [own["program"], *arguments],
            env={**os.environ, **own["env"]},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=JOIN_LIMIT_S,
        )
    except subprocess.TimeoutExpired as late:
        raise Failure(f"rabbitmqctl {arguments[0]}: no end within {JOIN_LIMIT_S} s") from late
    if done.returncode != 0:
        raise Failure(f"rabbitmqctl {' '.join(arguments)} failed:\n{done.stdout}{done.stderr}")
