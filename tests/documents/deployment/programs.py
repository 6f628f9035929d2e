"""Command lines and environments, held to what the programs understand."""

import re
import shlex

from .report import expect

# A command of ours in a script: up to the end of the command, or what the shell does with its output.
IN_SCRIPT = re.compile(r"(?:^|[;&|({`]\s*|\s)((?:worker|producer)\s[^;&|`><]*)")


def check_environment(where, environment, settings):
    """Every variable of ours is one that a program knows."""
    known = {name for program in settings.values() for name in program["variables"]}
    for name in environment:
        if name.startswith("TANDEM_"):
            expect(name in known, f"{where}: no program knows the variable {name}")


def check_command(where, words, settings):
    """The program, its command and its flags exist, and a flag that takes a value has one."""
    words = [word for word in words if word]
    if words[:2] == ["sh", "-c"]:
        return check_script(where, words[2], settings)
    program = words[0].rsplit("/", 1)[-1]
    rest = words[1:]
    while rest and f"{program} {rest[0]}" in " ".join(settings) and not rest[0].startswith("-"):
        if not any(f"{name} ".startswith(f"{program} {rest[0]} ") for name in settings):
            break
        program, rest = f"{program} {rest[0]}", rest[1:]
    if program not in settings:
        return expect(False, f"{where}: there is no command `{program}` ({' '.join(words)})")
    flags = settings[program]["flags"]
    while rest:
        word, _, value = rest.pop(0).partition("=")
        if not word.startswith("-"):
            continue
        expect(word in flags, f"{where}: `{program}` has no {word}")
        if flags.get(word) and not value:
            expect(rest and not rest[0].startswith("-"), f"{where}: {word} lacks its value")
            rest = rest[1:]
    return None


def check_script(where, script, settings):
    """Every call of a program in a script of the shell."""
    for call in IN_SCRIPT.findall(script):
        check_command(where, shlex.split(call), settings)


def drain(program, environment, settings):
    """For how many seconds a program goes on after it was told to stop."""
    known = settings[program]
    if "drain" in known:
        return known["drain"]
    return int(environment.get("TANDEM_DRAIN_MS", known["variables"]["TANDEM_DRAIN_MS"])) / 1000


def port_of(address):
    """The port of an address, and whether other machines reach it."""
    host, _, port = address.rpartition(":")
    return int(port), host not in ("127.0.0.1", "localhost", "[::1]", "off", "")


def reached(where, variable, environment, settings, program):
    """The port of a variable's address, which has to be reached from outside."""
    address = environment.get(variable) or settings[program]["variables"][variable]
    port, outside = port_of(address)
    expect(outside, f"{where}: {variable} is {address}, which nothing outside reaches")
    return port
