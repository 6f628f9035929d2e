"""What every check needs: its inputs, a list of problems, the programs beside it."""

import json
import os
import pathlib
import subprocess
import sys

import yaml

ROOT = pathlib.Path(sys.argv[1])
DEPLOY = ROOT / "deploy"
TOOLS = pathlib.Path(os.environ["TANDEM_VALIDATORS"]) / "bin"

problems = []


def settings():
    """The flags and variables of the programs, as their command lines define them."""
    return json.load(sys.stdin)


def expect(holds, problem):
    """Notes a problem unless something holds."""
    if not holds:
        problems.append(problem)


def run(*command):
    """Runs a program; its output, or None and a problem when it fails."""
    ran = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=120)
    if ran.returncode != 0:
        problems.append(f"{command[0]} exits with {ran.returncode}:\n{ran.stdout}{ran.stderr}")
        return None
    return ran.stdout


def documents(text):
    """The documents of a YAML text."""
    return [document for document in yaml.safe_load_all(text) if document is not None]


def seconds(text):
    """A duration as Compose and systemd write it, in seconds."""
    text = str(text)
    for unit, factor in (("ms", 0.001), ("m", 60), ("s", 1)):
        if text.endswith(unit):
            return float(text[: -len(unit)]) * factor
    return float(text)


def conclude(what):
    """Says what was found, and ends."""
    for problem in problems:
        print(problem)
    print(f"{what}: {len(problems)} problems")
    sys.exit(1 if problems else 0)
