"""Pipelines as manifests of Kubernetes: a Deployment or a CronJob each, with a volume and the file.

In: pipelines with their settings. Out: documents of plain values. The same pipelines give the same documents.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ingest.config.deployment import OWN_VOLUMES, Deployment
from ingest.errors import CheckpointInUse, ConfigError, DirtyData, IngestError, Unavailable

_USAGE: Final = 2
"""The exit code of a wrong command line."""
_USER: Final = 10001
"""The user of the image."""
_WRITTEN: Final = frozenset({"checkpoint", "tmp"})
"""Volumes that a run writes to."""
_FILE: Final = re.compile(r"[-._a-zA-Z0-9]{1,253}")
"""Names that a file in a ConfigMap can have."""
_LONGEST: Final = 52
"""Characters of a name, at most: a CronJob's pods get eleven more."""
_MOST_BYTES: Final = 900_000
"""Bytes of the files of a pipeline, at most: a ConfigMap has room for a mebibyte."""


@dataclass(frozen=True, slots=True)
class Rendered:
    """What the manifests of a pipeline are made of: its name, its files, and its deployment settings."""

    name: str
    """Its name as objects of Kubernetes have it."""
    file: str
    """The name of its file."""
    files: Mapping[str, str]
    """The texts of its file, and of modules beside it that it needs, by their names."""
    settings: Deployment


def object_name(name: str) -> str:
    """Return the name of a pipeline as Kubernetes takes names. Raise ConfigError where nothing is left of it."""
    label = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:_LONGEST].strip("-")
    if not label:
        raise ConfigError(
            f"the pipeline {name!r} cannot be named in Kubernetes", "set pipeline.name to letters or digits"
        )
    return label


def documents(pipeline: Rendered) -> list[dict[str, Any]]:
    """Return the documents of a pipeline. Raise ConfigError for files that a ConfigMap does not take."""
    for name in pipeline.files:
        if not _FILE.fullmatch(name):
            msg = f"a file in a ConfigMap cannot have the name {name!r}"
            raise ConfigError(msg, "rename it: letters, digits, '-', '_' and '.' may be in it")
    size = sum(len(text.encode()) for text in pipeline.files.values())
    if size > _MOST_BYTES:
        msg = f"{pipeline.file}: its files have {size:,} bytes, and a ConfigMap has room for {_MOST_BYTES:,}"
        raise ConfigError(msg, "put them into the image")
    workload = _job(pipeline) if pipeline.settings.schedule else _service(pipeline)
    return [_volume(pipeline), _files(pipeline), _merged(workload, pipeline.settings.patch)]


def _merged(value: Any, patch: Any) -> Any:
    """Return a document with another one merged into it: maps by keys, lists of named maps by names; null removes."""
    if isinstance(value, dict) and isinstance(patch, dict):
        out = {key: _merged(existing, patch[key]) if key in patch else existing for key, existing in value.items()}
        out |= {key: more for key, more in patch.items() if key not in value}
        return {key: item for key, item in out.items() if not (key in patch and patch[key] is None)}
    if _named(value) and _named(patch):
        by_name = {item["name"]: item for item in value}
        by_name |= {item["name"]: _merged(by_name.get(item["name"], {}), item) for item in patch}
        return [*by_name.values()]
    return patch


def _named(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, dict) and "name" in item for item in value)


def kustomization(names: Sequence[str]) -> dict[str, Any]:
    """Return the kustomization of all files."""
    return {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": [*names]}


def _meta(pipeline: Rendered, name: str) -> dict[str, Any]:
    space = {} if pipeline.settings.namespace is None else {"namespace": pipeline.settings.namespace}
    annotations = pipeline.settings.annotations
    return {"name": name, **space, "labels": _labels(pipeline), **({"annotations": annotations} if annotations else {})}


def _labels(pipeline: Rendered) -> dict[str, str]:
    return {**pipeline.settings.labels, **_which(pipeline)}


def _which(pipeline: Rendered) -> dict[str, str]:
    """Return the labels by which a pipeline's pods are selected; they never change."""
    return {"app.kubernetes.io/name": "ingest", "app.kubernetes.io/instance": pipeline.name}


def _volume(pipeline: Rendered) -> dict[str, Any]:
    settings = pipeline.settings
    kind = {} if settings.storage_class is None else {"storageClassName": settings.storage_class}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": _meta(pipeline, f"{pipeline.name}-checkpoint"),
        "spec": {"accessModes": ["ReadWriteOnce"], **kind, "resources": {"requests": {"storage": settings.storage}}},
    }


def _files(pipeline: Rendered) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": _meta(pipeline, f"{pipeline.name}-pipeline"),
        "data": {name: pipeline.files[name] for name in sorted(pipeline.files)},
    }


def _service(pipeline: Rendered) -> dict[str, Any]:
    # Not /readyz at the start: a pod is no better for a restart while a sink is away
    probes = {
        "startupProbe": {**_asking("/livez"), "periodSeconds": 2, "failureThreshold": 90},
        "readinessProbe": {**_asking("/readyz"), "periodSeconds": 10},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _meta(pipeline, pipeline.name),
        "spec": {
            "replicas": 1,  # one run per checkpoint: a second one is refused
            "strategy": {"type": "Recreate"},  # the old run ends before the new one takes the checkpoint
            "selector": {"matchLabels": _which(pipeline)},
            "template": _pod(pipeline, [], probes),
        },
    }


def _job(pipeline: Rendered) -> dict[str, Any]:
    def codes(action: str, *values: int) -> dict[str, Any]:
        return {
            "action": action,
            "onExitCodes": {"containerName": "ingest", "operator": "In", "values": sorted(values)},
        }

    template = _pod(pipeline, ["--once"], {})
    template["spec"]["restartPolicy"] = "Never"
    rules = [
        # A drained node is nobody's fault; the next pod goes on where this one was
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
        codes("Ignore", CheckpointInUse.exit_code),  # the former one still runs: that is no failure of this one
        codes("FailJob", _USAGE, DirtyData.exit_code, ConfigError.exit_code),
        codes("Count", IngestError.exit_code, Unavailable.exit_code),
    ]
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": _meta(pipeline, pipeline.name),
        "spec": {
            "schedule": pipeline.settings.schedule,
            "concurrencyPolicy": "Forbid",  # one run per checkpoint
            "startingDeadlineSeconds": 300,
            "successfulJobsHistoryLimit": 3,
            "failedJobsHistoryLimit": 5,
            "jobTemplate": {"spec": {"backoffLimit": 5, "podFailurePolicy": {"rules": rules}, "template": template}},
        },
    }


def _pod(pipeline: Rendered, more: list[str], probes: dict[str, Any]) -> dict[str, Any]:
    settings = pipeline.settings
    digest = hashlib.sha256("\0".join(f"{k}\0{v}" for k, v in sorted(pipeline.files.items())).encode()).hexdigest()
    sources: dict[str, dict[str, Any]] = {
        "checkpoint": {"persistentVolumeClaim": {"claimName": f"{pipeline.name}-checkpoint"}},
        "pipeline": {"configMap": {"name": f"{pipeline.name}-pipeline"}},
        "tmp": {"emptyDir": {}},  # the rest of the file system can only be read
    }
    if settings.secret is not None:
        sources["secrets"] = {"secret": {"secretName": settings.secret}}
    mounts: list[dict[str, Any]] = [
        {"name": name, "mountPath": OWN_VOLUMES[name], **({} if name in _WRITTEN else {"readOnly": True})}
        for name in sources
    ]
    for name, volume in settings.volumes.items():
        sources[name] = volume.source
        mounts.append({"name": name, "mountPath": volume.mount, **({"readOnly": True} if volume.read_only else {})})
    volumes = [{"name": name, **source} for name, source in sources.items()]
    account = {} if settings.service_account is None else {"serviceAccountName": settings.service_account}
    live = {**_asking("/livez"), "periodSeconds": 30, "failureThreshold": 2}
    container = {
        "name": "ingest",
        "image": settings.image,
        "args": [
            "run",
            f"/pipelines/{pipeline.file}",
            *more,
            f"--checkpoint=/checkpoints/{pipeline.name}",
            f"--metrics={settings.port}",
            *_variables(settings),
        ],
        **({"env": env} if (env := _environment(settings)) else {}),
        "ports": [{"name": "metrics", "containerPort": settings.port}],
        "resources": {
            "requests": {"cpu": settings.cpu, "memory": settings.memory},
            "limits": {"memory": settings.memory_limit},
        },
        **probes,
        "livenessProbe": live,
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "volumeMounts": mounts,
    }
    placing = {
        name: value
        for name, value in (
            ("nodeSelector", settings.node_selector),
            ("tolerations", settings.tolerations),
            ("imagePullSecrets", [{"name": name} for name in settings.pull_secrets]),
        )
        if value
    }
    return {
        "metadata": {
            "labels": _labels(pipeline),
            "annotations": {  # with another file, other pods
                "ingest/files-sha256": digest,
                "prometheus.io/scrape": "true",
                "prometheus.io/port": str(settings.port),
                **settings.annotations,
            },
        },
        "spec": {
            **account,
            "terminationGracePeriodSeconds": 60,  # a batch takes some five seconds
            "automountServiceAccountToken": False,  # nothing here talks to the cluster
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": _USER,
                "runAsGroup": _USER,
                "fsGroup": _USER,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            **placing,
            "containers": [container],
            "volumes": volumes,
        },
    }


def _environment(settings: Deployment) -> list[dict[str, Any]]:
    """Return the variables of a container: of Kubernetes' own form `$(…)` there are none in them."""
    variables = {} if settings.secret is None else {"INGEST_SECRETS_DIR": OWN_VOLUMES["secrets"]}
    out: list[dict[str, Any]] = []
    for name, value in {**variables, **settings.env}.items():
        if isinstance(value, str):
            out.append({"name": name, "value": value.replace("$", "$$")})
        else:
            out.append({"name": name, "valueFrom": {"secretKeyRef": {"name": value.secret, "key": value.key}}})
    return out


def _asking(path: str) -> dict[str, Any]:
    """Return the part of a probe that asks the port for metrics."""
    return {"httpGet": {"path": path, "port": "metrics"}, "timeoutSeconds": 5}


def _variables(settings: Deployment) -> list[str]:
    """Return the options for variables: `$(` would be the beginning of one of Kubernetes' own, and `$$` is a `$`."""
    return [f"--set={name}={value}".replace("$", "$$") for name, value in sorted(settings.variables.items())]
