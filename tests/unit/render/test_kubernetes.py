"""`ingest render k8s`: manifests as they are to be, as the API takes them, and the same each time."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
from ruamel.yaml import YAML
from typer.main import get_command

from ingest import __version__, errors
from ingest.cli.app import app, main
from ingest.cli.screen import LazyGroup
from ingest.render.kubernetes import object_name

GOLDEN = Path(__file__).parents[2] / "golden" / "render"
EXAMPLES = Path(__file__).parents[3] / "docker" / "k8s"
API = kubernetes_validate.latest_version()
VOLUMES = {
    "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret",
}  # fmt: skip
"""The kinds of volumes that "restricted" allows."""
PIPELINE = """\
source: {{type: kafka, properties.bootstrap.servers: "${{bootstrap}}", topic: {topic}}}
sink: {{type: print}}
"""


def rendered(folder: Path, out: Path, *more: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["render", "k8s", str(folder), "--out", str(out), *more])
    return int(ended.value.code or 0)


def documents_of(file: Path) -> list[dict[str, Any]]:
    return [*YAML(typ="safe").load_all(file.read_text())]


def documents(folder: Path) -> list[dict[str, Any]]:
    return [document for path in sorted(folder.glob("*.yaml")) for document in documents_of(path)]


@pytest.fixture
def pipelines(tmp_path: Path) -> Path:
    """The pipelines of the golden files, where they may be changed."""
    shutil.copytree(GOLDEN / "pipelines", tmp_path / "pipelines")
    return tmp_path / "pipelines"


def test_manifests_are_as_they_were(pipelines: Path, tmp_path: Path) -> None:
    """After a change that is meant to be: `ingest render k8s tests/golden/render/pipelines --out …/k8s`."""
    out = tmp_path / "k8s"
    assert rendered(pipelines, out) == 0
    assert {p.name: p.read_text() for p in out.iterdir()} == {p.name: p.read_text() for p in (GOLDEN / "k8s").iterdir()}


def test_manifests_are_what_the_api_takes(pipelines: Path, tmp_path: Path) -> None:
    assert rendered(pipelines, tmp_path / "k8s") == 0
    kinds = []
    for document in documents(tmp_path / "k8s"):
        kinds.append(document["kind"])
        if document["kind"] != "Kustomization":
            kubernetes_validate.validate(document, API, strict=True)
    assert sorted(kinds) == sorted(
        ["Deployment", "CronJob", *["ConfigMap", "PersistentVolumeClaim"] * 2, "Kustomization"]
    )
    files = next(d for d in documents(tmp_path / "k8s") if d["kind"] == "Kustomization")["resources"]
    assert files == ["daily-report.yaml", "orders.yaml"]


def test_files_come_through_as_they_are(pipelines: Path, tmp_path: Path) -> None:
    odd = PIPELINE.format(topic="t") + "# é 😀 trailing   \n#\ttab\n# ${a} {{b}} $(c)\n\n\n"
    (pipelines / "odd.yaml").write_text(odd)
    assert rendered(pipelines, tmp_path / "k8s") == 0
    found: dict[str, str] = {}
    for document in documents(tmp_path / "k8s"):
        found |= document["data"] if document["kind"] == "ConfigMap" else {}
    assert found == {p.name: p.read_text() for p in pipelines.iterdir() if p.name != "kubernetes.yaml"}


def test_arguments_are_options_of_the_command_and_exit_codes_its_own(pipelines: Path, tmp_path: Path) -> None:
    assert rendered(pipelines, tmp_path / "k8s") == 0
    by_kind = {d["kind"]: d for d in documents(tmp_path / "k8s")}
    job = by_kind["CronJob"]["spec"]["jobTemplate"]["spec"]
    pods = [by_kind["Deployment"]["spec"]["template"]["spec"], job["template"]["spec"]]
    group = get_command(app)
    assert isinstance(group, LazyGroup)
    run = group.load("run")
    assert run is not None
    known = {option for parameter in run.params for option in parameter.opts}
    for pod in pods:
        (container,) = pod["containers"]
        assert container["args"][0] == "run"
        assert {argument.split("=", 1)[0] for argument in container["args"][2:]} <= known
        assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}
    assert "--once" in pods[1]["containers"][0]["args"]
    rules = {rule["action"]: rule.get("onExitCodes", {}).get("values") for rule in job["podFailurePolicy"]["rules"]}
    of_codes = [rule for rule in job["podFailurePolicy"]["rules"] if "onExitCodes" in rule]
    ignored = [rule["onExitCodes"]["values"] for rule in of_codes if rule["action"] == "Ignore"]
    assert ignored == [[errors.CheckpointInUse.exit_code]], "the former run still going on is no failure"
    assert rules["FailJob"] == [2, errors.DirtyData.exit_code, errors.ConfigError.exit_code]
    assert rules["Count"] == [errors.IngestError.exit_code, errors.Unavailable.exit_code]


def pods(document: Any) -> list[dict[str, Any]]:
    """The pods in a document: their specs."""
    if isinstance(document, list):
        return [pod for one in document for pod in pods(one)]
    if not isinstance(document, dict):
        return []
    return [document] if "containers" in document else [pod for one in document.values() for pod in pods(one)]


def unrestricted(pod: dict[str, Any]) -> list[str]:
    """What the Pod Security Standard "restricted" and this project demand of a pod, and it has not."""
    of_pod = pod.get("securityContext", {})
    found = [
        name
        for name, value, wanted in (
            ("runAsNonRoot", of_pod.get("runAsNonRoot"), True),
            ("seccompProfile", of_pod.get("seccompProfile"), {"type": "RuntimeDefault"}),
            ("automountServiceAccountToken", pod.get("automountServiceAccountToken"), False),
            ("host", any(pod.get(name) for name in ("hostNetwork", "hostPID", "hostIPC")), False),
        )
        if value != wanted
    ]
    if not of_pod.get("runAsUser"):
        found.append("runAsUser")
    found += [f"volume {one['name']}" for one in pod.get("volumes", []) if not VOLUMES & one.keys()]
    for container in [*pod["containers"], *pod.get("initContainers", [])]:
        of_it = container.get("securityContext", {})
        wanted = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "readOnlyRootFilesystem": True}
        found += [name for name, value in wanted.items() if of_it.get(name) != value]
        found += [name for name in ("privileged", "procMount") if of_it.get(name)]
        if "tmp" not in {mount["name"] for mount in container["volumeMounts"] if not mount.get("readOnly")}:
            found.append("no place for temporary files")
    return found


def test_pods_are_restricted(pipelines: Path, tmp_path: Path) -> None:
    assert rendered(pipelines, tmp_path / "k8s") == 0
    written_by_hand = [d for name in ("deployment", "cronjob") for d in documents_of(EXAMPLES / f"{name}.yaml")]
    found = pods([*documents(tmp_path / "k8s"), *written_by_hand])
    assert [unrestricted(pod) for pod in found] == [[]] * 4
    for document in written_by_hand:
        kubernetes_validate.validate(document, API, strict=True)


def test_driver_and_executors_of_the_operator_are_restricted() -> None:
    (spark,) = [d for d in documents_of(EXAMPLES / "sparkapplication.yaml") if d["kind"] == "SparkApplication"]
    for role in ("driver", "executor"):
        of_it = spark["spec"][role]
        # The driver's token makes executors, so that one stays
        pod = {
            "securityContext": of_it["podSecurityContext"], "automountServiceAccountToken": False,
            "containers": [of_it], "volumes": spark["spec"]["volumes"],
        }  # fmt: skip
        assert unrestricted(pod) == []


def test_probes_ask_that_no_pod_is_restarted_while_a_sink_is_away(pipelines: Path, tmp_path: Path) -> None:
    assert rendered(pipelines, tmp_path / "k8s") == 0
    written = [d for name in ("deployment", "cronjob") for d in documents_of(EXAMPLES / f"{name}.yaml")]
    for pod in pods([*documents(tmp_path / "k8s"), *written]):
        (container,) = pod["containers"]
        asked = {name: container[name]["httpGet"]["path"] for name in container if name.endswith("Probe")}
        assert asked.pop("readinessProbe", "/readyz") == "/readyz"
        assert {*asked.values()} == {"/livez"}


SETTINGS = """\
variables: {bootstrap: "b:1", odd: x}
env: {A: 1, ON: true, DOLLAR: $(A), FROM: {secret: kafka, key: jaas}}
labels: {team: data}
annotations: {owner: me}
node-selector: {disk: ssd}
tolerations: [{key: dedicated, operator: Exists, effect: NoSchedule}]
pull-secrets: [registry]
secret: kafka
volumes:
  certs: {mount: /certs, source: {secret: {secretName: certs}}}
  state: {mount: /state, read-only: false, source: {emptyDir: {}}}
patch:
  spec:
    replicas: 1
    strategy: null
    template:
      spec:
        priorityClassName: high
        containers: [{name: ingest, resources: {limits: {cpu: "2"}}}, {name: more, image: m}]
pipelines: {Daily_report: {schedule: "@daily", patch: {spec: {suspend: true}}}}
"""


def test_settings_come_through(pipelines: Path, tmp_path: Path) -> None:
    (pipelines / "kubernetes.yaml").write_text(SETTINGS)
    assert rendered(pipelines, tmp_path / "k8s") == 0
    found = documents(tmp_path / "k8s")
    for document in found:
        if document["kind"] != "Kustomization":
            kubernetes_validate.validate(document, API, strict=True)
            assert document["metadata"]["labels"]["team"] == "data"
            assert document["metadata"]["annotations"] == {"owner": "me"}
    (service,) = [d for d in found if d["kind"] == "Deployment"]
    (job,) = [d for d in found if d["kind"] == "CronJob"]
    assert job["spec"]["suspend"] is True
    assert "strategy" not in service["spec"]
    template = service["spec"]["template"]
    assert template["metadata"]["labels"]["team"] == template["metadata"]["labels"].pop("team")
    assert template["metadata"]["labels"] == service["spec"]["selector"]["matchLabels"], "which never change"
    assert template["metadata"]["annotations"]["owner"] == "me"
    pod = template["spec"]
    assert pod["priorityClassName"] == "high"
    assert pod["nodeSelector"] == {"disk": "ssd"}
    assert pod["tolerations"] == [{"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"}]
    assert pod["imagePullSecrets"] == [{"name": "registry"}]
    container, more = pod["containers"]
    assert more == {"name": "more", "image": "m"}
    assert container["resources"]["limits"] == {"memory": "4Gi", "cpu": "2"}
    assert container["image"] == f"ingest:{__version__}"
    assert container["env"] == [
        {"name": "INGEST_SECRETS_DIR", "value": "/secrets"},
        {"name": "A", "value": "1"},
        {"name": "ON", "value": "true"},
        {"name": "DOLLAR", "value": "$$(A)"},
        {"name": "FROM", "valueFrom": {"secretKeyRef": {"name": "kafka", "key": "jaas"}}},
    ]
    assert container["volumeMounts"][-2:] == [
        {"name": "certs", "mountPath": "/certs", "readOnly": True},
        {"name": "state", "mountPath": "/state"},
    ]
    assert pod["volumes"][-2:] == [
        {"name": "certs", "secret": {"secretName": "certs"}},
        {"name": "state", "emptyDir": {}},
    ]


@pytest.mark.parametrize(("text", "settings", "said"), [
    ("${bootstrap}", "", "1:54: error: variable 'bootstrap' is not set"),
    ("${env:BROKERS}", "", "1:54: error: environment variable BROKERS is not set"),
    ("${env:BROKERS}", "env: {BROKERS: 'b:1'}", ""),
    ("${env:BROKERS}", "env: {BROKERS: {secret: s, key: k}}", ""),
    ("${secret_values.brokers}", "", ""),
    ("${bootstrap:-b:1}", "", ""),
])  # fmt: skip
def test_a_variable_that_nothing_fills_in_is_an_error_that_names_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
    text: str, settings: str, said: str,
) -> None:  # fmt: skip
    monkeypatch.setenv("BROKERS", "here:1")  # which is not where it will run
    (tmp_path / "one.yaml").write_text(
        f'source: {{type: kafka, properties.bootstrap.servers: "{text}", topic: t}}\nsink: {{type: print}}\n'
    )
    (tmp_path / "kubernetes.yaml").write_text(settings)
    assert rendered(tmp_path, tmp_path / "k8s") == (78 if said else 0)
    shown = capsys.readouterr().err
    assert said in shown
    assert not said or "give it in kubernetes.yaml: variables, env" in shown


def test_only_what_has_changed_is_written_and_what_is_gone_is_removed(
    pipelines: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "k8s"
    assert rendered(pipelines, out, "--check") == 1
    assert not out.exists()
    assert rendered(pipelines, out) == 0
    (out / "own.yaml").write_text("kind: Namespace\n")
    assert rendered(pipelines, out, "--check") == 0
    before = (out / "orders.yaml").read_text()
    (pipelines / "orders.yaml").write_text((pipelines / "orders.yaml").read_text() + "# more\n")
    assert rendered(pipelines, out, "--check") == 1
    assert "orders.yaml is not as the pipelines are" in capsys.readouterr().err
    assert rendered(pipelines, out) == 0
    after = (out / "orders.yaml").read_text()
    digests = [next(line for line in text.splitlines() if "files-sha256" in line) for text in (before, after)]
    assert digests[0] != digests[1], "pods start over with another file"
    (pipelines / "orders.yaml").unlink()
    settings = pipelines / "kubernetes.yaml"
    settings.write_text(settings.read_text().replace("  orders:\n    memory: 3Gi\n", ""))
    assert rendered(pipelines, out) == 0
    assert sorted(path.name for path in out.iterdir()) == ["daily-report.yaml", "kustomization.yaml", "own.yaml"]


@pytest.mark.parametrize(("settings", "said"), [
    ("image: [", "kubernetes.yaml:2:1: not YAML"),
    ("- a", "the file must be a map"),
    ("imgae: x", "imgae (for pipeline Daily_report): there is no such option, did you mean 'image'?"),
    ("memory: lots", "memory (for pipeline"),
    ("schedule: every day", "cron has five fields"),
    ("namespace: 'A B'", "namespace (for pipeline"),
    ("labels: {app.kubernetes.io/name: x}", "is what ingest says of a pipeline itself"),
    ("volumes: {tmp: {mount: /x, source: {emptyDir: {}}}}", "'tmp' cannot be the name of a further volume"),
    ("volumes: {a: {mount: /tmp/x, source: {emptyDir: {}}}}", "is a place of ingest's own"),
    ("env: {A: {secret: s}}", "env.A"),
    ("pipelines: {order: {}}", "pipelines.order: there is no such pipeline, did you mean 'orders'?"),
    ("pipelines: {orders: [1]}", "pipelines.orders must be a map"),
])  # fmt: skip
def test_mistakes_in_the_settings_are_said(
    pipelines: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], settings: str, said: str
) -> None:
    (pipelines / "kubernetes.yaml").write_text(settings + "\n")
    assert rendered(pipelines, tmp_path / "k8s") == 78
    shown = capsys.readouterr().err
    assert said in shown
    assert "Traceback" not in shown
    assert not (tmp_path / "k8s").exists()


@pytest.mark.parametrize("name", ["Orders.yml", "kustomization.yaml", "ord.ers.yaml"])
def test_two_pipelines_of_one_name_in_kubernetes_are_refused(
    pipelines: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    (pipelines / "ord_ers.yaml").write_text(PIPELINE.format(topic="t"))
    (pipelines / name).write_text(PIPELINE.format(topic="t"))
    assert rendered(pipelines, tmp_path / "k8s") == 78
    assert "have one name in Kubernetes" in capsys.readouterr().err


def test_a_broken_pipeline_and_another_ones_file_stop_it(
    pipelines: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "k8s"
    out.mkdir()
    (out / "orders.yaml").write_text("kind: Namespace\n")
    assert rendered(pipelines, out) == 78
    assert "was not made by this command" in capsys.readouterr().err
    (pipelines / "broken.yaml").write_text("source: {type: nothing}\n")
    assert rendered(pipelines, tmp_path / "other") == 78
    assert "broken.yaml:1:16: error: unknown source type 'nothing'" in capsys.readouterr().err
    assert rendered(tmp_path / "none", tmp_path / "other") == 78


def test_a_file_whose_name_no_config_map_takes_is_refused(
    pipelines: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (pipelines / "new orders.yaml").write_text(PIPELINE.format(topic="t") + "pipeline: {name: new}\n")
    assert rendered(pipelines, tmp_path / "k8s") == 78
    assert "a file in a ConfigMap cannot have the name 'new orders.yaml'" in capsys.readouterr().err


@pytest.mark.parametrize(("there", "said"), [("k8s", "cannot write to"), ("k8s/orders.yaml/x", "orders.yaml is there")])
def test_a_place_that_cannot_be_written_to_is_said(
    pipelines: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], there: str, said: str
) -> None:
    (tmp_path / there).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / there).write_text("")
    assert rendered(pipelines, tmp_path / "k8s") == 78
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("value", ["a$$b", "$(HOME)", "$", "$$$(A)$x", "a=b c"])
def test_variables_come_through_as_they_are(pipelines: Path, tmp_path: Path, value: str) -> None:
    settings = YAML(typ="safe").load((pipelines / "kubernetes.yaml").read_text())
    settings["variables"] = {"bootstrap": value}
    YAML().dump(settings, pipelines / "kubernetes.yaml")
    assert rendered(pipelines, tmp_path / "k8s") == 0
    (pod,) = [d["spec"]["template"]["spec"] for d in documents(tmp_path / "k8s") if d["kind"] == "Deployment"]
    (argument,) = [one for one in pod["containers"][0]["args"] if one.startswith("--set=bootstrap=")]
    # As Kubernetes reads it: of two `$` one is left, and `$(` alone is a variable of its own
    assert "$(" not in argument.replace("$$", "")
    assert argument.replace("$$", "$") == f"--set=bootstrap={value}"


@pytest.mark.parametrize(("name", "made"), [
    ("orders", "orders"), ("A_b.C", "a-b-c"), ("--x--", "x"), ("x" * 80, "x" * 52), ("é1", "1"),
])  # fmt: skip
def test_names_of_objects(name: str, made: str) -> None:
    assert object_name(name) == made


def test_a_name_of_nothing_is_refused() -> None:
    with pytest.raises(errors.ConfigError, match="cannot be named in Kubernetes"):
        object_name("…")
