"""The units of systemd: valid, hardened, and with command lines that the programs understand."""

import pathlib
import re
import shlex
import tempfile

from .programs import check_command, check_environment, drain
from .report import DEPLOY, conclude, expect, problems, run, seconds, settings

# Tenths of what `systemd-analyze security` calls the exposure: 10 is the worst.
EXPOSURE_MAX = 15


def values(unit, key):
    """All values of a key."""
    return re.findall(rf"^{key}=(.*)$", unit, re.MULTILINE)


def check_unit(path, known):
    """One unit, with the programs that every machine has in the place of ours."""
    text = path.read_text()
    for command in values(text, "ExecStart"):
        # A specifier stands for one word or a part of one.
        check_command(path.name, shlex.split(command), known)
    expect("/usr/local/bin/" in text, f"{path.name}: it starts no program of ours")
    for program in ("worker", "producer serve"):
        if f"/{program} " in text:
            drains = drain(program, {}, known)
            limit = seconds(values(text, "TimeoutStopSec")[0])
            expect(limit > drains, f"{path.name}: killed after {limit} s, drains for {drains} s")
    with tempfile.TemporaryDirectory() as scratch:
        there = pathlib.Path(scratch) / path.name
        there.write_text(re.sub(r"/usr/local/bin/\w+", "/bin/true", text))
        run("systemd-analyze", "verify", "--recursive-errors=no", there)
        run("systemd-analyze", "security", "--offline=yes", f"--threshold={EXPOSURE_MAX}", there)


def check_timer(path):
    """A timer, beside the service that it starts."""
    with tempfile.TemporaryDirectory() as scratch:
        service = path.with_suffix(".service")
        text = re.sub(r"/usr/local/bin/\w+", "/bin/true", service.read_text())
        (pathlib.Path(scratch) / service.name).write_text(text)
        there = pathlib.Path(scratch) / path.name
        there.write_text(path.read_text())
        run("systemd-analyze", "verify", "--recursive-errors=no", there)


def check_example(path, known):
    """A file of settings."""
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
    check_environment(path.name, [line.split("=", 1)[0] for line in lines], known)


def main():
    known = settings()
    units = sorted((DEPLOY / "systemd").glob("*.service"))
    expect(len(units) == 3, f"{len(units)} units, not 3")
    for path in units:
        check_unit(path, known)
    for path in (DEPLOY / "systemd").glob("*.timer"):
        check_timer(path)
    for path in (DEPLOY / "systemd").glob("*.env"):
        check_example(path, known)
    for index, problem in enumerate(problems):
        # Its table of everything that is right is of no use here.
        problems[index] = "\n".join(line for line in problem.splitlines() if "✓" not in line)
    conclude("systemd")


main()
