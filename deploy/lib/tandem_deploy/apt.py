"""Owns installing Debian packages, as root or with passwordless sudo.

A temporary policy-rc.d keeps an installation from starting the service that a package brings,
unless the machine has a policy of its own. A signal waits until apt-get has ended, because a
half-configured package is worse. Without the rights, or without apt-get, it fails with the
command to run.
"""

import os
import shutil
import subprocess
from contextlib import contextmanager

from . import interrupt
from .console import Failure, say, tail

POLICY = "/usr/sbin/policy-rc.d"
POLICY_TEXT = "#!/bin/sh\n# Temporary, by deploy/up: an installation starts no service.\nexit 101\n"
LIMIT_S = 900
OPTIONS = ["-o", "DPkg::Lock::Timeout=300", "-o", "Acquire::Retries=3"]


def install(packages, why, log):
    """Installs packages; `why` says what for. Fails with what to do by hand."""
    by_hand = f"apt-get install --no-install-recommends {' '.join(packages)}"
    if not shutil.which("apt-get"):
        raise Failure(f"{why}. Install it by hand (on Debian: {by_hand})")
    root = _become_root()
    if root is None:
        raise Failure(f"{why}. As root, run: apt-get update && {by_hand}")
    say(f"installing {' '.join(packages)} (log: {log})")
    log.parent.mkdir(parents=True, exist_ok=True)
    with interrupt.deferred(), _no_service_starts(root):
        apt_get = [*root, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", *OPTIONS]
        _logged([*apt_get, "update"], log)
        _logged([*apt_get, "install", "-y", "--no-install-recommends", *packages], log)


def disable_service(service, log):
    """Keeps a service that an installation of ours has brought from starting at the next boot."""
    _logged([*(_become_root() or []), "/usr/sbin/update-rc.d", service, "disable"], log)


def _become_root():
    """What to put before a command to run it as root; None when that is not possible."""
    if os.geteuid() == 0:
        return []
    if not shutil.which("sudo"):
        return None
    tried = subprocess.run(["sudo", "-n", "true"], capture_output=True, stdin=subprocess.DEVNULL)
    return ["sudo", "-n"] if tried.returncode == 0 else None


@contextmanager
def _no_service_starts(root):
    ours = not os.path.lexists(POLICY)
    if ours:
        write = f"cat > {POLICY} && chmod 755 {POLICY}"
        subprocess.run([*root, "sh", "-c", write], input=POLICY_TEXT, text=True, check=True)
    try:
        yield
    finally:
        if ours:
            subprocess.run([*root, "rm", "-f", POLICY], check=True)


def _logged(command, log):
    with open(log, "ab") as output:
        try:
            code = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                timeout=LIMIT_S,
            ).returncode
        except subprocess.TimeoutExpired:
            code = f"no end within {LIMIT_S} s"
    if code != 0:
        raise Failure(f"{' '.join(command)} failed ({code}):\n{tail(log)}")
