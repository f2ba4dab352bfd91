"""`make package`: do the steps of docker/Dockerfile without Docker, and run a pipeline into each sink with the result.

    python tools/image.py

What the file copies is copied, and nothing else; what it runs with pip, python and ingest is run in an environment of
its own. Steps for the system (apt-get and the like) are left out: this machine has what they install.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ingest.sandbox import broker, postgres
from ingest.sinks import SINKS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT: Final = Path(__file__).parent.parent
OF_PYTHON: Final = ("pip", "python", "ingest")
OF_SYSTEM: Final = ("apt-get", "rm", "useradd", "mkdir", "chown")
PIPELINE: Final = """\
source: {{type: file, path: {messages}, value.format: debezium-json}}
sink: {sink}
route: [{{source-table: '\\.*', sink-table: {schema}.<>, replace-symbol: <>}}]
transform: [{{source-table: '\\.*', projection: '\\*', primary-keys: id}}]
pipeline: {{name: into-{name}}}
"""


def instructions(stages: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield the instructions of the file for an image of these stages, the last of which has no name."""
    text = re.sub(r"^#.*\n", "", (ROOT / "docker" / "Dockerfile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    stage = None
    for line in filter(None, text.replace("\\\n", " ").splitlines()):
        name, _, rest = line.partition(" ")
        if name == "FROM":
            stage = rest.partition(" AS ")[2]
        elif stage in stages:
            yield name, rest.strip()


def build(root: Path, environment: Path, client: str) -> None:
    """Do the steps of the image that has this Kafka client."""
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    bins = {**os.environ, "PATH": f"{environment / 'bin'}:{os.environ['PATH']}", "PYTHONPATH": ""}
    folder = root
    for name, rest in instructions((client, "")):
        if name == "WORKDIR":
            folder = root / rest.lstrip("/")
            folder.mkdir(parents=True, exist_ok=True)
        elif name == "COPY":
            *sources, target = rest.split()
            for source in sources:
                _copy(ROOT / source, folder / target, into=target.endswith("/"))
        elif name == "RUN":
            for command in rest.split(" && "):
                first = shlex.split(command)[0]
                if first in OF_PYTHON:
                    print(f"    {' '.join(command.split())[:100]}", flush=True)
                    quiet = command.replace("pip install", "pip install -q --disable-pip-version-check")
                    subprocess.run(["/bin/sh", "-ec", quiet], cwd=folder, env=bins, check=True)
                elif first not in OF_SYSTEM:
                    sys.exit(
                        f"docker/Dockerfile: what is {first!r}? Say in tools/image.py whether it is to be run here"
                    )
        elif name not in {"USER", "ENTRYPOINT"}:
            sys.exit(f"docker/Dockerfile: what is {name}? Teach it to tools/image.py")


def _copy(source: Path, target: Path, *, into: bool) -> None:
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", "*.so"))  # as .dockerignore
    else:
        place = target / source.name if into else target
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, place)


def sinks(folder: Path) -> Mapping[str, str]:
    """Return the options of each sink, by its type. Start the servers that they write to."""
    kafka = broker.up(folder / "sandbox")
    database = postgres.up(folder / "sandbox")
    server = f"endpoint: '{database.endpoint}', dbname: {postgres.DATABASE}, username: {postgres.USER}"
    table = f"{server}, password: '${{secret_values.postgres}}'"
    topics = f"properties.bootstrap.servers: '{kafka.bootstrap}'"
    os.environ["INGEST_SECRET_POSTGRES"] = Path(database.password_file).read_text(encoding="utf-8").strip()
    return {
        "upsert-kafka": topics,
        "kafka": f"{topics}, topic: image.all",
        "print": "",
        "values": "",
        "file": f"path: '{folder}/out'",
        "postgres": table,
        "hologres": table,
        "iceberg": f"catalog.properties.warehouse: '{folder}/iceberg'",
        "delta": f"warehouse: '{folder}/delta'",
    }


def main() -> None:
    """Build the environment, compare it with what is pinned, and run the pipelines."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="ingest-image-") as name:
        folder = Path(name)
        environment, work = folder / "environment", folder / "work"
        work.mkdir()
        build(folder / "root", environment, "published")
        python, ingest = environment / "bin" / "python", environment / "bin" / "ingest"
        said = subprocess.run([ingest, "--version"], cwd=work, check=True, text=True, stdout=subprocess.PIPE).stdout
        assert "with native code" in said, said
        for package in ("confluent-kafka", "pyspark", "pyiceberg", "deltalake", "psycopg"):
            assert re.search(rf"{package} {re.escape(version(package))}\b", said), f"{package} is another one:\n{said}"
        subprocess.run([python, "-m", "pip", "check", "-q"], check=True)
        for words in (["explain", "program-missing"], ["json-schema"]):
            subprocess.run([ingest, *words], cwd=work, check=True, stdout=subprocess.DEVNULL)
        try:
            options = sinks(folder)
            assert options.keys() == set(SINKS), f"not tried: {set(SINKS) ^ options.keys()}"
            for kind, given in options.items():
                sink = f"{{type: {kind}, {given}}}" if given else f"{{type: {kind}}}"
                messages = ROOT / "pipelines" / "quickstart" / "shop.jsonl"
                (work / f"{kind}.yaml").write_text(
                    PIPELINE.format(messages=messages, sink=sink, name=kind, schema=kind.replace("-", "_"))
                )
                ran = subprocess.run(
                    [ingest, "run", f"{kind}.yaml", "--once"], cwd=work, check=False, text=True,
                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                )  # fmt: skip
                assert ran.returncode == 0, f"into {kind}:\n{ran.stdout[-5_000:]}"
                assert re.search(r"\b0 rejected|[1-9]\d* records", ran.stdout), f"into {kind}:\n{ran.stdout[-5_000:]}"
        finally:
            postgres.down(folder / "sandbox", wipe=True)
            broker.down(folder / "sandbox", wipe=True)
    print(f"the image's environment, and a pipeline into each of {len(SINKS)} sinks: {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
