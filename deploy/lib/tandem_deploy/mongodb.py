"""Owns a MongoDB replica set of one or three members on 127.0.0.1.

`start` starts the members that do not run, on the ports recorded for them, with their data.
`wait` returns when there is a writable primary and every other member is a secondary; it
initiates the set when no member knows one, so an interrupted start is completed by the next.
Both fail with the end of the member's log.
"""

import time

from . import mongo_wire, ports, processes
from .console import Failure, say, tail

REPLICA_SET = "tandem"
DATABASE = "tandem"
ALREADY_INITIALIZED = 23
READY_LIMIT_S = 90
POLL_S = 0.1

# Half the server's defaults, or less: failover takes seconds, as does a start of three members.
ELECTIONS = {"electionTimeoutMillis": 5_000, "heartbeatIntervalMillis": 1_000}
# Of three members, the primary otherwise waits 15 s for its clients before it ends.
QUIESCE_MS = 1_000


def plan(members, frugal=True):
    """The state of a replica set that has never run.

    Frugal: with little memory, beside whatever else a development machine runs; otherwise with the
    server's own settings.
    """
    chosen = ports.choose(members)
    return {
        "members": [{"port": port, "process": None} for port in chosen],
        "frugal": frugal,
    }


def uri(state):
    """Where applications connect."""
    hosts = ",".join(f"127.0.0.1:{member['port']}" for member in state["members"])
    return f"mongodb://{hosts}/{DATABASE}?replicaSet={REPLICA_SET}"


def running(state):
    """The recorded processes."""
    return [processes.from_json(member["process"]) for member in state["members"]]


def describe(directory, state):
    """What `deploy/up --json` says about the set."""
    members = [
        {
            "port": member["port"],
            "pid": member["process"]["pid"],
            "data_dir": str(_data(directory, index)),
            "log": str(_log(directory, index)),
        }
        for index, member in enumerate(state["members"])
    ]
    first = members[0]
    return {
        "uri": uri(state),
        "external": False,
        "port": first["port"],
        "pid": first["pid"],
        "replica_set": REPLICA_SET,
        "members": members,
    }


def start(directory, state, binary, record):
    """Starts the members that do not run, each by way of `record`."""
    for index, member in enumerate(state["members"]):
        if processes.alive(processes.from_json(member["process"])):
            continue
        what = f"mongodb-{index}"
        ports.require_free(member["port"], what)
        say(f"{what}: starting on 127.0.0.1:{member['port']}")
        _data(directory, index).mkdir(parents=True, exist_ok=True)
        command = _command(directory, index, member["port"], binary)
        if state["frugal"]:
            command += _savings(len(state["members"]))
        record(member, "process", command, directory.logs / f"{what}.out")


def wait(directory, state):
    """Returns when the set serves."""
    begun = time.monotonic()
    members = state["members"]
    problem = "it was not asked yet"
    while time.monotonic() < begun + READY_LIMIT_S:
        _require_alive(directory, members)
        try:
            replies = [mongo_wire.command(member["port"], {"hello": 1}) for member in members]
            if not any("setName" in reply for reply in replies):
                _initiate(members)
            elif _serves(replies):
                return
            problem = "no writable primary with all members in step"
        except (OSError, mongo_wire.CommandFailed) as error:
            problem = str(error)
        time.sleep(POLL_S)
    raise Failure(
        f"the replica set does not serve after {READY_LIMIT_S} s: {problem}\n"
        f"{tail(_log(directory, 0))}"
    )


def _serves(replies):
    primaries = sum(reply.get("isWritablePrimary", False) for reply in replies)
    secondaries = sum(reply.get("secondary", False) for reply in replies)
    return primaries == 1 and primaries + secondaries == len(replies)


def _initiate(members):
    hosts = [
        {"_id": index, "host": f"127.0.0.1:{member['port']}"}
        for index, member in enumerate(members)
    ]
    config = {"_id": REPLICA_SET, "members": hosts, "settings": ELECTIONS}
    try:
        mongo_wire.command(members[0]["port"], {"replSetInitiate": config}, limit_s=30)
    except mongo_wire.CommandFailed as refused:
        if refused.code != ALREADY_INITIALIZED:
            raise


def _require_alive(directory, members):
    for index, member in enumerate(members):
        if not processes.alive(processes.from_json(member["process"])):
            logs = _log(directory, index), directory.logs / f"mongodb-{index}.out"
            ends = "\n".join(tail(log) for log in logs)
            raise Failure(f"mongodb-{index} has ended by itself:\n{ends}")


def _data(directory, index):
    return directory.data / f"mongodb-{index}"


def _log(directory, index):
    return directory.logs / f"mongodb-{index}.log"


def _savings(members):
    return [
        *("--wiredTigerCacheSizeGB", "1" if members == 1 else "0.25"),
        *("--setParameter", "diagnosticDataCollectionEnabled=false"),
    ]


def _command(directory, index, port, binary):
    return [
        binary,
        *("--replSet", REPLICA_SET),
        *("--bind_ip", "127.0.0.1"),
        *("--port", port),
        *("--dbpath", _data(directory, index)),
        *("--logpath", _log(directory, index)),
        "--logappend",
        "--quiet",
        *("--pidfilepath", directory.run / f"mongodb-{index}.pid"),
        "--nounixsocket",
        *("--setParameter", f"shutdownTimeoutMillisForSignaledShutdown={QUIESCE_MS}"),
    ]
