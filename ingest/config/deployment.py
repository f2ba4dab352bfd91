"""The file `kubernetes.yaml` beside pipelines: how they run in a cluster.

In: a file. Out: the settings of each pipeline. Mistakes are ConfigErrors with file and key.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import Field, ValidationError, field_validator
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError

from ingest import __version__
from ingest.component.options import Options
from ingest.config.diagnostics import did_you_mean
from ingest.errors import ConfigError
from ingest.model.text import reason_of

_QUANTITY: Final = r"^[0-9]+(\.[0-9]+)?(m|k|M|G|T|Ki|Mi|Gi|Ti)?$"
_NAME: Final = r"^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$"
_FIELD: Final = re.compile(r"[0-9A-Za-z*,/?-]+")
_WORDS: Final = frozenset({"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"})
PIPELINES: Final = "pipelines"
SETTINGS: Final = "kubernetes.yaml"
"""The name of the file; every other file of YAML in its folder is a pipeline."""
OWN: Final = frozenset({"app.kubernetes.io/name", "app.kubernetes.io/instance", "ingest/files-sha256"})
"""Labels and annotations that say which pipeline it is, and which file of it."""
OWN_VOLUMES: Final = {
    "checkpoint": "/checkpoints",
    "pipeline": "/pipelines",
    "secrets": "/secrets",
    "tmp": "/tmp",  # noqa: S108  (a mount)
}
"""Volumes that a pod has by itself, with their places."""


class SecretKey(Options):
    """A value that a Secret holds."""

    secret: str = Field(pattern=_NAME)
    """The Secret."""

    key: str = Field(pattern=r"^[-._a-zA-Z0-9]{1,253}$")
    """The key in it."""


class Volume(Options):
    """A volume of the cluster's, beside those that a pipeline has by itself."""

    mount: str = Field(pattern=r"^/[^:]*[^:/]$")
    """Where its files are: an absolute path."""

    read_only: bool = True
    """Whether the run may only read it."""

    source: dict[str, Any] = Field(min_length=1, max_length=1)
    """The volume as Kubernetes writes it, without its name: `{secret: {secretName: kafka-certs}}`."""


class Deployment(Options):
    """How one pipeline runs in a cluster; without a name of its own, all of them."""

    image: str = Field(f"ingest:{__version__}", min_length=1)
    """The image, made of docker/Dockerfile. Default: `ingest` with the tag of the installed version."""

    namespace: str | None = Field(None, pattern=_NAME)
    """The namespace. Default: whatever kubectl or kustomize says."""

    schedule: str | None = None
    """When to run, as cron writes it: the pipeline is a CronJob, and each run drains what is there. Default: a
    Deployment, which runs all the time."""

    variables: dict[str, str] = Field(default_factory=dict)
    """Values for `${name}` placeholders: `--set name=value`. Secrets do not belong here."""

    secret: str | None = Field(None, pattern=_NAME)
    """A Secret with a key for each value that a pipeline's file names as `${secret_values.key}`."""

    env: dict[str, str | SecretKey] = Field(default_factory=dict)
    """Variables of the pods' environment: a text, or `{secret: NAME, key: KEY}` for what a Secret holds."""

    labels: dict[str, str] = Field(default_factory=dict)
    """Labels of all objects, beside those that say which pipeline it is."""

    annotations: dict[str, str] = Field(default_factory=dict)
    """Annotations of all objects and of the pods."""

    node_selector: dict[str, str] = Field(default_factory=dict)
    """Labels of the nodes that pods may run on."""

    tolerations: list[dict[str, Any]] = Field(default_factory=list)
    """Tolerations of the pods, as Kubernetes writes them."""

    pull_secrets: list[str] = Field(default_factory=list)
    """Secrets with which nodes pull the image."""

    volumes: dict[str, Volume] = Field(default_factory=dict)
    """Further volumes by their names, for certificates for example: `mount`, `read-only` and `source`."""

    patch: dict[str, Any] = Field(default_factory=dict)
    """What is merged into the Deployment or CronJob last: maps key by key, lists of named things by their names; null
    removes a key. What is here is checked by nobody."""

    service_account: str | None = Field(None, pattern=_NAME)
    """The service account of the pods."""

    cpu: str = Field("1", pattern=_QUANTITY)
    """Processors that a pod asks for."""

    memory: str = Field("2Gi", pattern=_QUANTITY)
    """Memory that a pod asks for."""

    memory_limit: str = Field("4Gi", pattern=_QUANTITY)
    """Memory that it may have."""

    storage: str = Field("1Gi", pattern=_QUANTITY)
    """The size of the checkpoint's volume."""

    storage_class: str | None = Field(None, pattern=_NAME)
    """The volume's class. Default: the cluster's."""

    port: int = Field(9464, ge=1024, le=65_535)
    """The port for metrics and probes."""

    @field_validator("labels", "annotations")
    @classmethod
    def _check_own(cls, value: dict[str, str]) -> dict[str, str]:
        own = next((key for key in value if key in OWN), None)
        if own is not None:
            raise ValueError(f"{own!r} is what ingest says of a pipeline itself")
        return value

    @field_validator("volumes")
    @classmethod
    def _check_volumes(cls, value: dict[str, Volume]) -> dict[str, Volume]:
        for name, volume in value.items():
            if name in OWN_VOLUMES or not re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", name):
                raise ValueError(f"{name[:100]!r} cannot be the name of a further volume")
            if any(volume.mount == own or volume.mount.startswith(f"{own}/") for own in OWN_VOLUMES.values()):
                raise ValueError(f"{volume.mount} is a place of ingest's own")
        return value

    @field_validator("schedule")
    @classmethod
    def _check_schedule(cls, value: str | None) -> str | None:
        parts = (value or "").split()
        if value is None or value in _WORDS or (len(parts) == 5 and all(_FIELD.fullmatch(part) for part in parts)):
            return value
        raise ValueError("cron has five fields, as in '*/15 * * * *', or a word like @hourly")


def pipelines_in(folder: Path) -> list[Path]:
    """Return the pipeline files of a folder, sorted. Raise ConfigError where there is none."""
    files = sorted(path for path in folder.glob("*.y*ml") if _is_pipeline(path))
    if not files:
        raise ConfigError(f"there is no pipeline in {folder}", "name the folder with the pipelines' files")
    return files


def _is_pipeline(path: Path) -> bool:
    return path.suffix in {".yaml", ".yml"} and path.name != SETTINGS and not path.is_fifo()


def read_deployments(file: Path, names: Iterable[str]) -> dict[str, Deployment]:
    """Return the settings of each pipeline, by its name. All are the usual ones where there is no file.

    Raise ConfigError for a file with a mistake, and for a pipeline in it that is none of the names.
    """
    settings = _map(file, _parsed(file), "the file")
    of_each = _map(file, settings.pop(PIPELINES, None), PIPELINES)
    known = sorted(names)
    for name in of_each:
        if name not in known:
            msg = f"{file}: pipelines.{str(name)[:100]}: there is no such pipeline{did_you_mean(str(name), known)}"
            raise ConfigError(msg, f"there are {', '.join(known) or 'none'}")
    return {
        name: _model(file, {**settings, **_map(file, of_each.get(name), f"{PIPELINES}.{name}")}, name) for name in known
    }


def _parsed(file: Path) -> object:
    if not file.is_file():
        return {}
    try:
        return YAML(typ="safe", pure=True).load(file.read_text(encoding="utf-8"))
    except MarkedYAMLError as exc:
        mark = exc.problem_mark
        place = "" if mark is None else f":{mark.line + 1}:{mark.column + 1}"
        raise ConfigError(f"{file}{place}: not YAML: {exc.problem}", "correct the file") from exc
    except (OSError, UnicodeDecodeError) as exc:
        why = reason_of(exc) if isinstance(exc, OSError) else "it is not UTF-8"
        raise ConfigError(f"{file}: cannot be read: {why}", "correct the file") from exc


def _map(file: Path, value: object, what: str) -> dict[Any, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ConfigError(f"{file}: {what} must be a map", "correct the file")
    return dict(value)


def _text(value: object) -> str:
    """Return a value as YAML writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _model(file: Path, values: Mapping[Any, Any], name: str) -> Deployment:
    texts = {
        key: str(value) if key in {"cpu", "memory", "memory-limit", "storage"} and isinstance(value, int) else value
        for key, value in values.items()
    }
    for option in ("variables", "env", "labels", "annotations", "node-selector"):  # 1 and true are texts there
        if isinstance(given := texts.get(option), dict):
            texts[option] = {
                str(key): value if isinstance(value, dict) else _text(value) for key, value in given.items()
            }
    try:
        return Deployment.model_validate(texts)
    except ValidationError as exc:
        error = exc.errors(include_url=False, include_input=False)[0]
        key = ".".join(str(part) for part in error["loc"])[:100]
        known = [field.alias or "" for field in Deployment.model_fields.values()]
        why = error["msg"].removeprefix("Value error, ")
        if error["type"] == "extra_forbidden":
            why = f"there is no such option{did_you_mean(key, known)}"
        raise ConfigError(f"{file}: {key} (for pipeline {name}): {why}", f"known are {', '.join(known)}") from exc
