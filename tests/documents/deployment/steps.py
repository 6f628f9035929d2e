"""Runs the steps of deploy/Dockerfile without an engine, in a directory of its own.

    python3 tests/documents/deployment/steps.py DIRECTORY

Each stage is a folder; COPY copies, from the files that .dockerignore lets through; RUN runs in the
stage's folder with this machine's tools. The last stage's RUN, which needs root, is left out. It takes
as long as a release build, so `deploy/test` does not run it.
"""

import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]


def context(into):
    """What an engine would be sent: the listed files, less what is built."""
    for line in (ROOT / ".dockerignore").read_text().split():
        for source in ROOT.glob(line[1:]) if line.startswith("!") else []:
            target = into / source.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("target"))
            else:
                shutil.copy2(source, target)


def copy(sources, target):
    target.mkdir(parents=True, exist_ok=True)
    for source in sources:
        if source.is_dir():
            shutil.copytree(source, target, dirs_exist_ok=True, symlinks=True)
        else:
            shutil.copy2(source, target)


def main(scratch):
    text = re.sub(r"^\s*#.*\n", "", (ROOT / "deploy/Dockerfile").read_text(), flags=re.MULTILINE)
    scratch.mkdir(parents=True)
    context(scratch / "context")
    stage = None
    for line in text.replace("\\\n", " ").splitlines():
        instruction, _, rest = line.strip().partition(" ")
        begun = time.monotonic()
        if instruction == "FROM":
            base, _, name = rest.partition(" AS ")
            stage = scratch / (name or "image")
            if (scratch / base / "src").exists():
                shutil.copytree(scratch / base, stage, symlinks=True)
            (stage / "src").mkdir(parents=True, exist_ok=True)
        elif instruction == "COPY":
            *sources, target = shlex.split(rest)
            base = scratch / "context"
            if sources[0].startswith("--from="):
                base = scratch / sources.pop(0).removeprefix("--from=")
            target = stage / "src" / target if not target.startswith("/") else stage / target[1:]
            if stage.name == "image" and len(sources) == 1:
                target = target.parent
            copy([base / source.lstrip("/") for source in sources], target)
        elif instruction == "RUN" and stage.name != "image":
            subprocess.run(rest, shell=True, check=True, cwd=stage / "src")
        else:
            continue
        print(f"{time.monotonic() - begun:7.1f} s  {stage.name}: {line.strip()[:90]}", flush=True)
    for program in ("worker", "producer"):
        subprocess.run([scratch / "image/usr/local/bin" / program, "--version"], check=True)


main(pathlib.Path(sys.argv[1]).resolve())
