"""`ingest render k8s`: manifests as they are to be, as the API takes them, and the same each time."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
from ruamel.yaml import YAML
from typer.main import get_command

from ingest import errors
from ingest.cli.app import app, main
from ingest.cli.lazy_group import LazyGroup
from ingest.render.kubernetes import object_name

GOLDEN = Path(__file__).parents[2] / "golden" / "render"
API = kubernetes_validate.latest_version()
PIPELINE = """\
source: {{type: kafka, properties.bootstrap.servers: "${{bootstrap}}", topic: {topic}}}
sink: {{type: print}}
"""


def rendered(folder: Path, out: Path, *more: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["render", "k8s", str(folder), "--out", str(out), *more])
    return int(ended.value.code or 0)


def documents(folder: Path) -> list[dict[str, Any]]:
    return [d for path in sorted(folder.glob("*.yaml")) for d in YAML(typ="safe").load_all(path.read_text())]


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
    assert rules["FailJob"] == [2, errors.DirtyData.exit_code, errors.ConfigError.exit_code]
    assert rules["Count"] == [errors.IngestError.exit_code, errors.Unavailable.exit_code]


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
    assert digests[0] != digests[1], "pods start anew with another file"
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
