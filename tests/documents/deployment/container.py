"""deploy/Dockerfile and deploy/compose.yaml."""

import importlib.util
import json
import pathlib
import re
import shlex

import jsonschema
import yaml

from .programs import check_command, check_environment, drain, reached
from .report import DEPLOY, ROOT, TOOLS, conclude, expect, run, seconds, settings

# Only a file of that package is wanted: what it imports is not installed.
PACKAGE = pathlib.Path(importlib.util.find_spec("check_jsonschema").origin).parent
SCHEMA = PACKAGE / "builtin_schemas/vendor/compose-spec.json"


def instructions(text):
    """The instructions of a Dockerfile, joined and without comments."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    return [line.split(None, 1) for line in joined.splitlines() if line.strip()]


def check_dockerfile(known):
    """Linted; its last stage runs a program of ours without root, with addresses that are reached."""
    run(TOOLS / "hadolint", "--no-color", DEPLOY / "Dockerfile")
    stages, image = {}, {}
    for instruction, rest in instructions((DEPLOY / "Dockerfile").read_text()):
        if instruction == "FROM":
            image = {"COPY": [], "ENV": {}}
            stages[rest.split(" AS ")[-1]] = image
        elif instruction == "COPY":
            image["COPY"].append(shlex.split(rest))
        elif instruction == "ENV":
            image["ENV"].update(word.split("=", 1) for word in shlex.split(rest))
        else:
            image[instruction] = rest
    for copied in (words for stage in stages.values() for words in stage["COPY"]):
        if not copied[0].startswith("--from="):
            for source in copied[:-1]:
                expect((ROOT / source).exists(), f"Dockerfile: there is no {source} to copy")
    user = image.get("USER", "root").split(":")[0]
    expect(user.isdigit() and int(user) > 0, f"Dockerfile: it runs as {user}")
    command = json.loads(image["CMD"])
    check_command("Dockerfile", command, known)
    check_environment("Dockerfile", image["ENV"], known)
    health = json.loads(image["HEALTHCHECK"].split(" CMD ")[1])[0]
    copied = [words for words in image["COPY"] if words[-1] == f"/usr/local/bin/{health}"]
    expect(copied, f"Dockerfile: {health} is not copied into the image")
    ports = {
        reached("Dockerfile", "TANDEM_HTTP", image["ENV"], known, "worker"),
        reached("Dockerfile", "TANDEM_HTTP", image["ENV"], known, "producer serve"),
        reached("Dockerfile", "TANDEM_LISTEN", image["ENV"], known, "producer serve"),
    }
    exposed = {int(port) for port in image["EXPOSE"].split()}
    expect(exposed == ports, f"Dockerfile: it exposes {exposed}, and listens on {ports}")
    return image["ENV"]


def check_ignored():
    """What .dockerignore lets through is all that is copied."""
    lines = (ROOT / ".dockerignore").read_text().split()
    expect("*" in lines, ".dockerignore: it does not leave out everything first")
    for line in (line[1:] for line in lines if line.startswith("!")):
        expect(list(ROOT.glob(line)), f".dockerignore: there is no {line}")


def check_compose(known, image):
    """Valid by Compose's schema; programs, files, ports and dependencies exist."""
    text = (DEPLOY / "compose.yaml").read_text()
    compose = yaml.safe_load(text)
    schema = json.loads(SCHEMA.read_text())
    validator = jsonschema.validators.validator_for(schema)(schema)
    for error in validator.iter_errors(compose):
        expect(False, f"compose.yaml: {'/'.join(map(str, error.path))}: {error.message[:300]}")
    services = compose["services"]
    for name, service in services.items():
        where = f"compose.yaml, {name}"
        for other in service.get("depends_on", {}):
            expect(other in services, f"{where}: it depends on {other}, which is not there")
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            there = (DEPLOY / source).exists() if source[0] in "./" else source in compose["volumes"]
            expect(there, f"{where}: there is no {source}")
        if "build" in service:
            check_our_service(where, service, known, image)
    worker = services["worker"]
    unscalable = [key for key in ("container_name", "ports") if key in worker]
    expect(not unscalable, f"compose.yaml: {unscalable} of worker forbids --scale worker=4")
    return services


def check_our_service(where, service, known, image):
    """One that runs our image."""
    build = service["build"]
    there = (DEPLOY / build["context"] / build["dockerfile"]).exists()
    expect(there, f"{where}: there is no Dockerfile")
    check_environment(where, service["environment"], known)
    check_command(where, service["command"], known)
    expect(service.get("read_only") is True, f"{where}: its file system can be written to")
    environment = {**image, **service["environment"]}
    for program in ("worker", "producer serve"):
        if " ".join(service["command"]).startswith(program):
            drains = drain(program, environment, known)
            grace = seconds(service.get("stop_grace_period", "10s"))
            expect(grace > drains, f"{where}: killed after {grace} s, drains for {drains} s")


def check_scraping(services, image):
    """Prometheus asks for services that are there, where our programs ask for no token."""
    config = yaml.safe_load((DEPLOY / "compose/prometheus.yml").read_text())
    ours = {"worker": image["TANDEM_HTTP"], "api": image["TANDEM_HTTP"]}
    for job in config["scrape_configs"]:
        for found in job.get("dns_sd_configs", []):
            for name in found["names"]:
                port = int(ours.get(name, ":0").rsplit(":", 1)[1])
                expect(found["port"] == port, f"prometheus.yml: {name} does not listen on {found['port']}")
        for target in (t for found in job.get("static_configs", []) for t in found["targets"]):
            expect(target.split(":")[0] in services, f"prometheus.yml: there is no {target}")
    text = (DEPLOY / "compose/grafana-datasource.yaml").read_text()
    host = re.search(r"url: http://(\w+):", text)[1]
    expect(host in services, f"grafana-datasource.yaml: there is no {host}")


def main():
    known = settings()
    image = check_dockerfile(known)
    check_ignored()
    services = check_compose(known, image)
    check_scraping(services, image)
    conclude("Dockerfile and compose.yaml")


main()
