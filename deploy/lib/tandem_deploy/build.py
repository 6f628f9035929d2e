"""Owns calling cargo: builds, and where their binaries lie.

A build that fails is a `Failure`; cargo has said why on stderr by then.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path

from . import ROOT, processes
from .console import Failure


def cargo():
    """The path of cargo, also when rustup has not been put on the PATH."""
    home = Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo"))
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), str(home / "bin")])
    found = shutil.which("cargo", path=path)
    if not found:
        raise Failure("no cargo on the PATH: install Rust")
    return found


def build_binaries(env, programs=(), release=False):
    """Builds these programs, or all of the workspace; returns the directory they are in."""
    wanted = [word for program in programs for word in ("--bin", program)]
    command = [cargo(), "build", *(wanted or ["--workspace", "--bins"])]
    if release:
        command.append("--release")
    if processes.run(command, env=env, cwd=ROOT) != 0:
        raise Failure("cargo build failed")
    return _target_directory() / ("release" if release else "debug")


def _target_directory():
    command = [cargo(), "metadata", "--format-version=1", "--no-deps"]
    done = subprocess.run(
        command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300
    )
    if done.returncode != 0:
        raise Failure(f"cargo metadata failed:\n{done.stderr}")
    return Path(json.loads(done.stdout)["target_directory"])
