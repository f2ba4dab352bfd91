"""The Kubernetes manifests: as the API's published schemas want them, and as the tool's exit codes and options are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
from ruamel.yaml import YAML
from typer.main import get_command

from ingest import errors
from ingest.cli.app import app
from ingest.cli.screen import LazyGroup
from ingest.config.loader import load_text

FILES = sorted((Path(__file__).parents[3] / "docker" / "k8s").glob("*.yaml"))
API = kubernetes_validate.latest_version()


def documents(path: Path) -> list[dict[str, Any]]:
    return [*YAML(typ="safe").load_all(path.read_text())]


def found(kind: str) -> dict[str, Any]:
    (one,) = [d for path in FILES for d in documents(path) if d["kind"] == kind]
    return one


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_manifest_is_as_the_api_wants_it(path: Path) -> None:
    for document in documents(path):
        if document["apiVersion"] != "sparkoperator.k8s.io/v1beta2":
            kubernetes_validate.validate(document, API, strict=True)


@pytest.mark.parametrize("kind", ["Deployment", "CronJob", "SparkApplication"])
def test_arguments_are_options_of_the_command(kind: str) -> None:
    spec = found(kind)["spec"]
    if kind == "SparkApplication":
        arguments = spec["arguments"]
    else:
        pod = spec["jobTemplate"]["spec"]["template"]["spec"] if kind == "CronJob" else spec["template"]["spec"]
        (container,) = pod["containers"]
        arguments = container["args"]
        mounted = {mount["name"] for mount in container["volumeMounts"]}
        assert mounted == {volume["name"] for volume in pod["volumes"]}
        assert "livenessProbe" in container
        assert "startupProbe" in container
    if kind == "Deployment":
        probes = {container[f"{name}Probe"]["httpGet"]["path"] for name in ("startup", "readiness", "liveness")}
        assert probes == {"/readyz", "/livez"}
        assert {"name": "metrics", "containerPort": 9464} in container["ports"]
        assert "--metrics=9464" in arguments
    group = get_command(app)
    assert isinstance(group, LazyGroup)
    run = group.load("run")
    assert run is not None
    known = {option for parameter in run.params for option in parameter.opts}
    assert arguments[0] == "run"
    for argument in arguments[2:]:
        assert argument.split("=", 1)[0] in known, argument


def test_jobs_end_at_once_where_trying_again_helps_nobody() -> None:
    rules = found("CronJob")["spec"]["jobTemplate"]["spec"]["podFailurePolicy"]["rules"]
    by_action = {rule["action"]: set(rule.get("onExitCodes", {}).get("values", [])) for rule in rules}
    assert by_action["FailJob"] == {2, errors.DirtyData.exit_code, errors.ConfigError.exit_code}
    assert by_action["Count"] == {errors.IngestError.exit_code, errors.Unavailable.exit_code}


def test_the_spark_application_is_what_the_operator_takes() -> None:
    # No registry package carries its schema: what it must have, by the operator's API reference
    spec = found("SparkApplication")["spec"]
    assert (spec["type"], spec["mode"]) == ("Python", "cluster")
    assert {"image", "mainApplicationFile", "sparkVersion", "driver", "executor", "restartPolicy"} <= spec.keys()
    assert spec["restartPolicy"]["type"] in {"Always", "Never", "OnFailure"}
    volumes = {volume["name"] for volume in spec["volumes"]}
    assert {mount["name"] for mount in spec["driver"]["volumeMounts"]} == volumes
    import pyspark

    assert spec["sparkVersion"] == pyspark.__version__
    main = Path(spec["mainApplicationFile"].removeprefix("local:///opt/ingest/"))
    assert (Path(__file__).parents[3] / main).is_file()


def test_the_pipeline_in_the_config_map_is_one() -> None:
    (text,) = found("ConfigMap")["data"].values()
    loaded = load_text("orders.yaml", text, "orders", {"bootstrap": "b:1"})
    assert loaded.pipeline is not None, loaded.diagnostics
