"""The pages of deploy: the commands in its blocks and between its backticks exist, with their flags."""

import re
import shlex

from .programs import IN_SCRIPT, check_command, check_environment
from .report import DEPLOY, conclude, expect, settings

BLOCK = re.compile(r"```[\w,]*\n(.*?)```", re.DOTALL)
QUOTED = re.compile(r"`([^`\n]+)`")


def commands(text):
    """Calls of our programs, and variables of ours."""
    for block in BLOCK.findall(text):
        for line in block.replace("\\\n", " ").splitlines():
            yield from IN_SCRIPT.findall(line.split(" #")[0])
    for quoted in QUOTED.findall(BLOCK.sub("", text)):
        if re.match(r"(worker|producer) [a-z-]", quoted):
            yield quoted


def main():
    known = settings()
    for path in (DEPLOY / "operating.md", DEPLOY / "README.md", DEPLOY / "usage.md"):
        text = path.read_text()
        found = list(commands(text))
        expect(found, f"{path.name}: no command was found in it")
        for command in found:
            check_command(path.name, shlex.split(command), known)
        # Those of the scripts of this folder are no program's.
        named = {name for name in re.findall(r"\bTANDEM_[A-Z_]+\b", text)}
        own = {"TANDEM_TEST_DIR", "TANDEM_TEST_OLD_WORKER", "TANDEM_DEPLOY_OWNER"}
        own |= {"TANDEM_PROFILE"}
        own |= {"TANDEM_MONGOD", "TANDEM_RABBITMQ_SERVER", "TANDEM_MONGOSH"}
        # Both programs read them before their flags (common/settings/src/secret_files.rs).
        own |= {"TANDEM_MONGODB_URI_FILE", "TANDEM_AMQP_URL_FILE"}
        images = set(re.findall(r"\$\{(TANDEM_\w+)", (DEPLOY / "compose.yaml").read_text()))
        check_environment(path.name, named - own - images, known)
    conclude("the handbook")


main()
