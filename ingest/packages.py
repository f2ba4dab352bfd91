"""The packages that only some pipelines need: what each is for, and what installs it.

One table for all: `ingest check` notes what is missing, a run refuses to start without it, and an import that fails all
the same, on a worker for example, becomes the same error.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final, NamedTuple

from ingest.errors import ProgramMissing


class Extra(NamedTuple):
    """Packages that are installed together."""

    requirement: str
    """What `pip install` takes."""
    modules: tuple[str, ...]
    """The modules that are imported, of each package one."""
    use: str
    """What needs them, for messages; a plural."""
    of_workers: bool = True
    """True if workers import them, too."""

    @property
    def missing(self) -> str:
        """The first module that is not installed here; empty where all are. Imports at most the parents of modules."""
        return next((module for module in self.modules if not _is_installed(module)), "")

    @property
    def hint(self) -> str:
        """What to do where one is missing."""
        where = "the command and the workers run" if self.of_workers else "the command runs"
        return f"install it where {where}: pip install '{self.requirement}'"


EXTRAS: Final = {
    "postgres": Extra("ingest[postgres]", ("psycopg",), "sinks in PostgreSQL"),
    "mysql": Extra("ingest[mysql]", ("pymysql", "zstandard"), "sources in MySQL"),
    "iceberg": Extra("ingest[iceberg]", ("pyiceberg", "sqlalchemy", "pyiceberg_core"), "tables of Iceberg"),
    "delta": Extra("ingest[delta]", ("deltalake",), "tables of Delta"),
    "protobuf": Extra("ingest[protobuf]", ("grpc_tools",), "schemas of Protocol Buffers that are texts"),
    "opentelemetry": Extra(
        "ingest[opentelemetry]",
        ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http"),
        "metrics for OpenTelemetry",
        of_workers=False,
    ),
    "aws": Extra("ingest[aws]", ("aws_msk_iam_sasl_signer", "botocore"), "logins with AWS_MSK_IAM"),
    "glue": Extra("pyiceberg[glue]", ("boto3",), "catalogs of the type glue or dynamodb"),
    "hive": Extra("pyiceberg[hive]", ("thrift",), "catalogs of the type hive"),
    "bigquery": Extra("pyiceberg[bigquery]", ("google.cloud.bigquery",), "catalogs of the type bigquery"),
    "psycopg2": Extra("psycopg2-binary", ("psycopg2",), "catalogs at postgresql+psycopg2://"),
}
"""By the name that options models use (`Options.packages`)."""


def lacking(name: str) -> tuple[str, str] | None:
    """Return what is missing of an extra, and what to do; None where all is installed."""
    extra = EXTRAS[name]
    module = extra.missing
    return (f"the package {module} is missing, which {extra.use} need", extra.hint) if module else None


def require(name: str) -> None:
    """Raise ProgramMissing where a package of an extra is not installed."""
    missing = lacking(name)
    if missing is not None:
        raise ProgramMissing(*missing)


def failed_import(exc: BaseException) -> ProgramMissing | None:
    """Return the error for an import that failed in or for an optional package; None for any other exception."""
    if not isinstance(exc, ImportError):
        return None
    module = exc.name or _last_module(exc)
    for extra in EXTRAS.values():
        for extra_module in extra.modules:
            if f"{module}.".startswith(f"{extra_module}.") or extra_module.startswith(f"{module}."):
                if isinstance(exc, ModuleNotFoundError):
                    return ProgramMissing(f"the package {module} is missing, which {extra.use} need", extra.hint)
                why = " ".join(str(exc).split())[:300]
                return ProgramMissing(
                    f"the package {extra_module}, which {extra.use} need, cannot be used: {why}", extra.hint
                )
    return None


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):  # of its parent; or of a module that something has put in its place
        return False


def _last_module(exc: ImportError) -> str:
    """Return the module in which an import failed."""
    at = exc.__traceback__
    name = ""
    while at is not None:
        name = str(at.tb_frame.f_globals.get("__name__"))
        at = at.tb_next
    return name
