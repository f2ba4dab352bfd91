"""Optional packages that are not installed: 78 with what to install, from each command, and for each of them."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions, requires
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ingest.component.plugins import failure_of
from ingest.errors import ConfigError, InternalError, ProgramMissing
from ingest.packages import EXTRAS, failed_import

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
LINES = {"type": "file", "path": "*.jsonl", "value.format": "json"}
POSTGRES: dict[str, object] = {
    "type": "postgres",
    "endpoint": "localhost",
    "username": "u",
    "password": "p",
    "dbname": "d",
}
REGISTRY: dict[str, object] = {"protobuf-confluent.url": "http://127.0.0.1:1"}
CATALOG = "catalog.properties."
PROTO = 'syntax = "proto3"; message Row { int32 id = 1; }'
# Extra, what of it is away, and the parts of a pipeline that need it, with the option that the note stands at
CASES: dict[str, tuple[str, str, dict[str, object], str]] = {
    "postgres": ("postgres", "psycopg", {"sink": POSTGRES}, "type"),
    "hologres": ("postgres", "psycopg", {"sink": POSTGRES | {"type": "hologres"}}, "type"),
    "iceberg": ("iceberg", "pyiceberg", {"sink": {"type": "iceberg", f"{CATALOG}warehouse": "lake"}}, "type"),
    "a catalog in a file": ("iceberg", "sqlalchemy", {"sink": {"type": "iceberg", f"{CATALOG}warehouse": "x"}}, "type"),
    "partitions": ("iceberg", "pyiceberg_core", {"sink": {"type": "iceberg", f"{CATALOG}warehouse": "x"}}, "type"),
    "delta": ("delta", "deltalake", {"sink": {"type": "delta", "warehouse": "lake"}}, "type"),
    "a catalog in PostgreSQL": (
        "postgres",
        "psycopg",
        {"sink": {"type": "iceberg", f"{CATALOG}uri": "postgresql://h/d", f"{CATALOG}warehouse": "s3://b"}},
        f"{CATALOG}uri",
    ),
    "another driver": (
        "psycopg2",
        "psycopg2",
        {"sink": {"type": "iceberg", f"{CATALOG}uri": "postgresql+psycopg2://h/d", f"{CATALOG}warehouse": "s3://b"}},
        f"{CATALOG}uri",
    ),
    "glue": ("glue", "boto3", {"sink": {"type": "iceberg", f"{CATALOG}type": "glue"}}, f"{CATALOG}type"),
    "dynamodb": ("glue", "boto3", {"sink": {"type": "iceberg", f"{CATALOG}type": "dynamodb"}}, f"{CATALOG}type"),
    "IAM of MSK": (
        "aws",
        "aws_msk_iam_sasl_signer",
        {
            "source": {
                "type": "kafka",
                "topic": "t",
                "properties.bootstrap.servers": "b-1.s.x.c2.kafka.eu-central-1.amazonaws.com:9098",
                "properties.security.protocol": "SASL_SSL",
                "properties.sasl.mechanism": "AWS_MSK_IAM",
            },
            "sink": {"type": "print"},
        },
        "properties.sasl.mechanism",
    ),
    "hive": (
        "hive",
        "thrift",
        {"sink": {"type": "iceberg", f"{CATALOG}type": "hive", f"{CATALOG}uri": "thrift://h"}},
        f"{CATALOG}type",
    ),
    "bigquery": (
        "bigquery",
        "google.cloud.bigquery",
        {"sink": {"type": "iceberg", f"{CATALOG}type": "bigquery"}},
        f"{CATALOG}type",
    ),
    "a text of protobuf": (
        "protobuf",
        "grpc_tools",
        {
            "source": {
                **LINES,
                "file.envelope": True,
                "value.format": "protobuf",
                "protobuf.schema": PROTO,
                "protobuf.message-class-name": "Row",
            }
        },
        "protobuf.schema",
    ),
    "a registry's texts": (
        "protobuf",
        "grpc_tools",
        {"source": {**LINES, "file.envelope": True, "value.format": "protobuf-confluent", **REGISTRY}},
        "value.format",
    ),
    "a sink of protobuf": (
        "protobuf",
        "grpc_tools",
        {
            "sink": {
                "type": "kafka",
                "properties.bootstrap.servers": "127.0.0.1:1",
                "value.format": "protobuf-confluent",
                "protobuf-confluent.schema": PROTO,
                **REGISTRY,
            }
        },
        "value.format",
    ),
    "opentelemetry": (
        "opentelemetry",
        "opentelemetry",
        {"pipeline": {"name": "p", "metrics.otlp-url": "http://127.0.0.1:1/v1/metrics"}},
        "metrics.otlp-url",
    ),
    "its exporter": (
        "opentelemetry",
        "opentelemetry.exporter.otlp.proto.http",
        {"pipeline": {"name": "p", "metrics.otlp-url": "http://127.0.0.1:1/v1/metrics"}},
        "metrics.otlp-url",
    ),
}
WITHOUT = """
import json, sys
from importlib.abc import MetaPathFinder

class Without(MetaPathFinder):
    away = ""

    def find_spec(self, name, path=None, target=None):
        if f"{name}.".startswith(self.away + "."):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

blocker = Without()
sys.meta_path.insert(0, blocker)
from ingest.cli.app import main
for name, away in json.loads(sys.argv[1]).items():
    blocker.away = away
    for command in ("check", "plan", "run"):
        try:
            main([command, f"{name}.json"])
        except SystemExit as ended:
            print("ended with", ended.code or 0, flush=True)
"""


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What check, plan and run say of each case, each text with the exit code behind it."""
    folder = tmp_path_factory.mktemp("packages")
    for name, (_, _, parts, _) in CASES.items():
        (folder / f"{name}.json").write_text(_text(parts))
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, json.dumps({name: case[1] for name, case in CASES.items()})],
        cwd=folder, check=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    texts = re.findall(r"(.*?ended with \d+)\n", done.stdout, re.DOTALL)
    assert len(texts) == 3 * len(CASES)
    return {name: texts[3 * i : 3 * i + 3] for i, name in enumerate(CASES)}


@pytest.mark.parametrize("name", CASES)
def test_without_the_package_check_notes_it_and_plan_and_run_end_with_78(name: str, said: dict[str, list[str]]) -> None:
    extra, module, parts, option = CASES[name]
    lines = _text(parts).splitlines()
    section = next(i for i, text in enumerate(lines) if text.startswith(f' "{next(iter(parts))}"'))
    line = next(i for i, text in enumerate(lines) if i > section and f'"{option}"' in text) + 1
    checked, planned, ran = said[name]
    assert re.search(rf"{name}\.json:{line}:\d+: note: .*{module}.* is missing, which .* need; ", checked)
    assert checked.endswith("ended with 0")
    for text in (planned, ran):
        assert text.endswith("ended with 78")
        assert re.search(rf"{name}\.json:{line}:\d+: error: ", text)
        assert "ingest explain program-missing" in text
        assert "Traceback" not in text
    assert all(f"pip install '{EXTRAS[extra].requirement}'" in text for text in (checked, planned, ran))


def test_every_import_of_a_package_that_is_not_always_installed_is_in_the_table() -> None:
    always = _closure(PROJECT["dependencies"])
    distributions = packages_distributions()
    optional = {module for extra in EXTRAS.values() for module in extra.modules}
    found = set()
    for file in (ROOT / "ingest").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) and node.module and not node.level else []
            found |= {name for name in names if name.partition(".")[0] not in {*sys.stdlib_module_names, "ingest"}}
    assert len(found) > 50
    lacking = {
        name
        for name in found
        if not always & {_plain(name) for name in distributions.get(name.partition(".")[0], [])}
        and not any(f"{name}.".startswith(f"{own}.") or own.startswith(f"{name}.") for own in optional)
    }
    assert {name for name in lacking if not name.startswith("opentelemetry.")} == set()


def test_the_extra_all_has_every_extra_of_the_table() -> None:
    extras = PROJECT["optional-dependencies"]
    (everything,) = extras["all"]
    named = {extra.requirement for extra in EXTRAS.values() if extra.requirement.startswith("ingest[")}
    inner = set(everything.removeprefix("ingest[").removesuffix("]").split(","))
    assert {f"ingest[{name}]" for name in inner} == named
    assert inner == extras.keys() - {"all", "demo", "dev"}


def test_an_import_that_fails_late_is_the_same_error_wherever_it_is_raised() -> None:
    for name, extra in EXTRAS.items():
        for module in extra.modules:
            late = ModuleNotFoundError(f"No module named {module!r}", name=f"{module}.inner")
            found = failure_of(late, "a task", "the stack trace is in the worker's log")
            assert isinstance(found, ProgramMissing), name
            assert extra.requirement in found.hint or module == "boto3"
    broken = ImportError("cannot import name 'Row' from 'psycopg.rows'", name="psycopg.rows")
    found = failure_of(broken, "a task", "")
    assert isinstance(found, ConfigError)
    assert "cannot import name 'Row'" in found.message
    assert failed_import(ModuleNotFoundError("No module named 'nobody'", name="nobody")) is None
    assert isinstance(failure_of(ModuleNotFoundError("x", name="nobody"), "a task", ""), InternalError)


def _text(parts: Mapping[str, object]) -> str:
    """Return the pipeline of a case, as JSON, which is YAML."""
    return json.dumps({"source": LINES, "sink": {"type": "print"}, "pipeline": {"name": "p"}} | dict(parts), indent=1)


def _plain(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")


def _closure(wanted: list[str]) -> set[str]:
    """Return the distributions that these requirements bring without any extra."""
    found: set[str] = set()
    open_ = [*wanted]
    while open_:
        text = open_.pop()
        name, marker = re.split(r"[\s\[<>=!~;(]", text, maxsplit=1)[0], text.partition(";")[2]
        if "extra" in marker or _plain(name) in found:
            continue
        found.add(_plain(name))
        try:
            open_ += requires(name) or []
        except ModuleNotFoundError:  # of another system
            continue
    return found
