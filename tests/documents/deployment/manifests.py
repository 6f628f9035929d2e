"""The manifests: rendered, valid by the published schemas, and fitting the programs and each other."""

import jsonschema
import kubernetes_validate
from cloudcoil.models.keda.v1alpha1 import ScaledObject, TriggerAuthentication

from .programs import check_command, check_environment, drain, reached
from .report import DEPLOY, TOOLS, conclude, documents, expect, run, settings

VERSION = "1.34.0"
# What KEDA's own documentation names for these triggers; its schema takes any word.
TRIGGERS = {
    "metrics-api": {"url", "valueLocation", "targetValue", "activationTargetValue", "authMode"},
}


def strict(schema):
    """The same schema, which takes no field that it does not name, as the server does."""
    for part in [schema, *schema.get("$defs", {}).values()]:
        if "properties" in part:
            part.setdefault("additionalProperties", False)
    return schema


KEDA = {
    model.__name__: jsonschema.Draft202012Validator(strict(model.model_json_schema(by_alias=True)))
    for model in (ScaledObject, TriggerAuthentication)
}


def without_null(value):
    """Null stands for a field that is not there."""
    if isinstance(value, dict):
        return {key: without_null(item) for key, item in value.items() if item is not None}
    return [without_null(item) for item in value] if isinstance(value, list) else value


def check_schema(where, manifest):
    """Valid by the schema of its kind."""
    if manifest["kind"] in KEDA:
        for error in KEDA[manifest["kind"]].iter_errors(manifest):
            expect(False, f"{where}: {'/'.join(map(str, error.path))}: {error.message[:300]}")
        return
    try:
        kubernetes_validate.validate(manifest, VERSION, strict=True)
    except Exception as error:  # Its own errors have no common class.
        expect(False, f"{where}: {str(error)[:500]}")


class Overlay:
    """The manifests of one overlay."""

    def __init__(self, name, rendered):
        self.name = name
        self.all = documents(rendered)

    def of(self, kind):
        return {one["metadata"]["name"]: one for one in self.all if one["kind"] == kind}

    def environment(self, container):
        """What a container sees, as far as it is known here."""
        seen = {}
        for source in container.get("envFrom", []):
            name = source["configMapRef"]["name"]
            there = self.of("ConfigMap").get(name)
            expect(there, f"{self.name}: there is no ConfigMap {name}")
            seen.update(there["data"] if there else {})
        seen.update({one["name"]: one.get("value", "") for one in container.get("env", [])})
        return seen


def is_of(selector, labels):
    return selector.items() <= labels.items()


def check_workload(overlay, deployment, known):
    """A Deployment: locked down, stopped with patience, and probed where it listens."""
    name = deployment["metadata"]["name"]
    where = f"{overlay.name}, {name}"
    template = deployment["spec"]["template"]
    pod, labels = template["spec"], template["metadata"]["labels"]
    container, words, environment = check_container(overlay, where, pod, known)
    program = " ".join(words[:2] if words[0] == "producer" else words[:1])
    port = reached(where, "TANDEM_HTTP", environment, known, program)
    ports = {port}
    if program == "producer serve":
        ports.add(reached(where, "TANDEM_LISTEN", environment, known, program))
    named = {one["name"]: one["containerPort"] for one in container["ports"]}
    for probe in ("livenessProbe", "readinessProbe"):
        asked = container[probe]["httpGet"]["port"]
        expect(named.get(asked, asked) == port, f"{where}: {probe} asks {asked}, it listens on {port}")
    scraped = template["metadata"]["annotations"]["prometheus.io/port"]
    expect(scraped == str(port), f"{where}: it is scraped on {scraped}, and listens on {port}")
    drains = drain(program, environment, known)
    grace = pod.get("terminationGracePeriodSeconds", 30)
    expect(grace >= drains + 10, f"{where}: killed after {grace} s, drains for {drains} s")
    expect(is_of(deployment["spec"]["selector"]["matchLabels"], labels), f"{where}: no pod is its own")
    for spread in pod["topologySpreadConstraints"]:
        selector = spread["labelSelector"]["matchLabels"]
        expect(is_of(selector, labels), f"{where}: the spread constraint counts other pods")
    budgets = overlay.of("PodDisruptionBudget").values()
    kept = [one for one in budgets if is_of(one["spec"]["selector"]["matchLabels"], labels)]
    expect(len(kept) == 1, f"{where}: {len(kept)} disruption budgets")
    check_reached(overlay, where, labels, ports, port)


def check_container(overlay, where, pod, known):
    """A pod's container: known flags and variables, and locked down. Returns it, its words and what it sees."""
    container = pod["containers"][0]
    environment = overlay.environment(container)
    words = container["command"] + container.get("args", [])
    check_command(where, words, known)
    check_environment(where, environment, known)
    check_locked_down(where, pod, container)
    return container, words, environment


def check_locked_down(where, pod, container):
    """Without root, capabilities, a writable file system, or secrets in the manifest."""
    rights = container["securityContext"]
    expect(pod["securityContext"]["runAsNonRoot"] is True, f"{where}: it may run as root")
    expect(rights["readOnlyRootFilesystem"] is True, f"{where}: its file system can be written to")
    expect(rights["allowPrivilegeEscalation"] is False, f"{where}: it may gain rights")
    expect(rights["capabilities"]["drop"] == ["ALL"], f"{where}: it has capabilities")
    expect({"requests", "limits"} <= set(container["resources"]), f"{where}: it lacks resources")
    for one in container["env"]:
        if one["name"] in ("TANDEM_MONGODB_URI", "TANDEM_AMQP_URL"):
            expect("secretKeyRef" in one.get("valueFrom", {}), f"{where}: {one['name']} is no secret")


def check_job(overlay, cron, known):
    """A CronJob: locked down, one at a time, and failed at once when its program says so."""
    name = cron["metadata"]["name"]
    where = f"{overlay.name}, {name}"
    job = cron["spec"]["jobTemplate"]["spec"]
    pod, labels = job["template"]["spec"], job["template"]["metadata"]["labels"]
    check_container(overlay, where, pod, known)
    expect(cron["spec"]["concurrencyPolicy"] == "Forbid", f"{where}: two may run at once")
    # Otherwise a broken rule is looked for again and again, and told hours later.
    expect((job["backoffLimit"], pod["restartPolicy"]) == (0, "Never"), f"{where}: it is tried again")
    policies = overlay.of("NetworkPolicy").values()
    let_out = [one for one in policies if is_of(one["spec"]["podSelector"]["matchLabels"], labels)]
    expect(any("egress" in one["spec"] for one in let_out), f"{where}: no policy lets it out")


def check_reached(overlay, where, labels, ports, probes):
    """NetworkPolicies let its ports in, and Services of it lead there."""
    allowed = set()
    for policy in overlay.of("NetworkPolicy").values():
        if is_of(policy["spec"]["podSelector"]["matchLabels"], labels):
            rules = policy["spec"].get("ingress", [])
            allowed |= {one["port"] for rule in rules for one in rule["ports"]}
            for rule in rules:
                scraped = any(one["port"] == probes for one in rule["ports"])
                sources = [one.get("namespaceSelector", {}).get("matchLabels") for one in rule["from"]]
                known = sources == [{"kubernetes.io/metadata.name": "monitoring"}]
                expect(known or not scraped, f"{where}: {sources} reach the metrics, which ask for no token")
    expect(allowed == ports, f"{where}: policies let {allowed} in, it listens on {ports}")
    for name, service in overlay.of("Service").items():
        if is_of(service["spec"]["selector"], labels):
            targets = {one["targetPort"] for one in service["spec"]["ports"]}
            expect(targets <= {"http"}, f"{where}: the Service {name} leads to {targets}")


def check_scaling(overlay):
    """KEDA owns the number of an existing Deployment; its triggers and their references exist."""
    for name, scaled in overlay.of("ScaledObject").items():
        where = f"{overlay.name}, {name}"
        target = overlay.of("Deployment").get(scaled["spec"]["scaleTargetRef"]["name"])
        expect(target, f"{where}: there is no Deployment to scale")
        expect(target and "replicas" not in target["spec"], f"{where}: the Deployment sets replicas, too")
        expect(scaled["spec"]["minReplicaCount"] == 0, f"{where}: it never goes to zero")
        for trigger in scaled["spec"]["triggers"]:
            unknown = set(trigger["metadata"]) - TRIGGERS.get(trigger["type"], set())
            expect(not unknown, f"{where}: a {trigger['type']} trigger has no {unknown}")
            reference = trigger.get("authenticationRef", {}).get("name")
            there = reference is None or reference in overlay.of("TriggerAuthentication")
            expect(there, f"{where}: there is no TriggerAuthentication {reference}")


def main():
    known = settings()
    overlays = sorted(path.parent for path in DEPLOY.glob("kubernetes/**/kustomization.yaml"))
    expect(len(overlays) == 3, f"{len(overlays)} folders with a kustomization.yaml, not 3")
    for path in overlays:
        rendered = run(TOOLS / "kubectl", "kustomize", path)
        if rendered is None:
            continue
        overlay = Overlay(path.name, rendered)
        for manifest in map(without_null, overlay.all):
            where = f"{path.name}, {manifest['kind']} {manifest['metadata']['name']}"
            check_schema(where, manifest)
            expect(manifest["kind"] != "Secret", f"{where}: a secret is kept in the repository")
        deployments = overlay.of("Deployment")
        expect(len(deployments) == 2, f"{path.name}: {len(deployments)} Deployments, not 2")
        for deployment in deployments.values():
            check_workload(overlay, deployment, known)
        jobs = overlay.of("CronJob")
        expect(len(jobs) == 1, f"{path.name}: {len(jobs)} CronJobs, not 1")
        for job in jobs.values():
            check_job(overlay, job, known)
        check_scaling(overlay)
    scaled = [path for path in overlays if path.name == "autoscaled"]
    expect(scaled, "there is no overlay that scales")
    conclude("kubernetes")


main()
