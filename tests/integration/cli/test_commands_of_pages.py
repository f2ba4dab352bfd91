"""Each command in the documentation is run, with a pipeline that has run in the place of FILE, DIR, TABLE and so on.

Pages that are done step by step are in test_walkthroughs.py.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import tomllib
from contextlib import chdir, contextmanager
from typing import TYPE_CHECKING, Final

import pytest
from commands import called
from harness import INGEST, Background, Kafka, Pipeline, finish, finished, free_port, message, until
from lake import Lake
from pages import ROOT, blocks, needs_java, only, walked
from prometheus import get

from ingest.sandbox import sample

if TYPE_CHECKING:
    from collections.abc import Iterator

ELSEWHERE: Final = {
    "pip install 'ingest[demo]'": "test_walkthroughs.py",
    "ingest sandbox up": "test_walkthroughs.py",
    "ingest run shop.yaml --once": "test_walkthroughs.py",
    "ingest run pipeline.yaml --master spark://master:7077": "test_cluster.py",
    "spark-submit --master spark://master:7077": "test_cluster.py",
    "INGEST_SECRETS_PROVIDER=vault ingest run orders.yaml": "test_secrets.py",
    "ingest check p.yaml && ingest plan p.yaml && ingest run p.yaml --once": "test_extending.py",
    "ingest run orders.yaml --metrics 9464": "test_commands_of_pages.py",
    "ingest top localhost:9464 orders.yaml": "test_commands_of_pages.py",
}
"""Beginnings of commands that need more than a broker, and the tests that run them."""
BENCH: Final = ".venv/bin/python bench/"


NO_RUNS: Final = {"check", "checkpoint", "init", "letters", "render", "schema", "status", "transactions"}
"""Commands that are called in this process."""


def lines() -> Iterator[tuple[str, str]]:
    """Yield the commands of all pages, with their pages, without comments."""
    for block in blocks():
        if block.language == "sh" and not walked(block):
            for line in block.text.splitlines():
                yield block.page, re.sub(r"(^|\s+)# .*", "", line).replace(".venv/bin/ingest", "ingest")


INSTALL: Final = "pip install "
COMMANDS: Final = [
    (page, line) for page, line in lines() if line and not line.startswith(("make ", INSTALL, BENCH, *ELSEWHERE))
]


def test_what_is_run_elsewhere_is_there() -> None:
    found = [line for _, line in lines()]
    for beginning, test in ELSEWHERE.items():
        assert any(line.startswith(beginning) for line in found), beginning
        assert [*(ROOT / "tests").rglob(test)], test
    assert len(COMMANDS) > 25


def test_targets_of_make_and_benches_are_there() -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    for page, line in lines():
        words = line.split()
        if words and words[0] == "make":
            assert words[1] in targets, (page, line)
        elif line.startswith(BENCH):
            assert (ROOT / words[1]).is_file(), (page, line)


def test_what_is_installed_is_an_extra() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    named = [re.findall(r"'ingest\[([a-z,]+)\]'", line) for _, line in lines() if line.startswith(INSTALL)]
    assert named
    assert {extra for found in named for names in found for extra in names.split(",")} <= extras.keys()
    assert all(named)


def filled_in(line: str, pipeline: Pipeline) -> list[str]:
    """A command with what stands for its capital letters, and with what is in brackets."""
    stands = {
        "FILE": "orders.yaml", "DIR": ".ingest/orders", "CHECKPOINT": ".ingest/orders", "TABLE": "shop.orders",
        "HOST:PORT": pipeline.kafka.bootstrap, "PREFIX": pipeline.prefix, "T": pipeline.topic, "P": "0",
        "TOPIC": "shop.orders",  # of the sink
        "localhost:29092": pipeline.kafka.bootstrap, "0:17": "0:0",
    }  # fmt: skip
    words = [stands.get(word, word) for word in shlex.split(re.sub(r"[\[\]]", "", line))]
    if "--from" in words:
        words[words.index("--from") + 1], words[words.index("--to") + 1] = "1", "2"
    if "pipelines/shop.yaml" in words:
        words += ["--set", f"bootstrap={pipeline.kafka.bootstrap}"]
    assert words[0] == "ingest", line
    return [INGEST, *words[1:]]


@pytest.fixture
def shop(pipeline: Pipeline) -> Iterator[Pipeline]:
    """A pipeline that has run: its folder has `orders.yaml`, a checkpoint, and a dead letter in Kafka."""
    kafka, folder = pipeline.kafka, pipeline.file.parent
    pipeline.file = folder / "orders.yaml"
    pipeline.write(
        "  ingestion.ignore-errors: true\n",
        f"  sink.delivery-guarantee: exactly-once\n  sink.transactional-id-prefix: {pipeline.prefix}\n",
        f"pipeline:\n  dirty-data.collector:\n    type: kafka\n    topic: {kafka.name}.dead\n", route=False,
    )  # fmt: skip
    sent = [message("c", None, {"id": n}) for n in range(50)]
    kafka.send(pipeline.topic, *sent, (b"k", b"{"))
    ran(pipeline, [INGEST, "run", "orders.yaml", "--once"])
    kafka.send(pipeline.topic, message("c", None, {"id": 99, "late": 1}))
    ran(pipeline, [INGEST, "run", "orders.yaml", "--once"])
    (folder / "pipelines").symlink_to(ROOT / "pipelines")
    (folder / "tests").mkdir()
    (folder / "tests" / "coupon.yaml").write_text(only("docs/testing.md", "yaml").text)
    sample.fill(kafka.bootstrap)
    yield pipeline
    for done in kafka.admin.delete_topics([*sample.TOPICS]).values():
        done.result(10)


def ran(pipeline: Pipeline, command: list[str]) -> str:
    if command[1] in NO_RUNS:
        with chdir(pipeline.file.parent):
            done = called(*command[1:])
    else:
        done = finished(command, pipeline.java, pipeline.file.parent, None, pipeline.file.parent)
    assert done.code == 0, f"{command}:\n{done.out}{done.err}"
    return done.out


@pytest.mark.usefixtures("java")
def test_each_command_of_the_pages_does_what_it_is_for(shop: Pipeline) -> None:
    said = {}
    for _, line in sorted(COMMANDS, key=lambda one: "checkpoint reset" in one[1]):
        said[line] = ran(shop, filled_in(line, shop))
    assert len(said) > 25
    assert "malformed" in said["ingest letters show FILE 0:17"]
    assert "ADD COLUMN late" in said["ingest schema diff CHECKPOINT [TABLE] --from 3 --to 7"]
    assert (shop.file.parent / "my.yaml").is_file()
    assert (shop.file.parent / "report.html").is_file()
    assert (shop.file.parent / "k8s" / "kustomization.yaml").is_file()
    # Whole pipelines of the pages, on the sample's topics
    for page, tables in {"README.md": "products", "docs/event-types.md": "order_placed"}.items():
        text = only(page, "yaml", "source:\n").text.replace("localhost:29092", shop.kafka.bootstrap)
        (shop.file.parent / "whole.yaml").write_text(f"{text}pipeline:\n  name: {tables}\n")
        ran(shop, [INGEST, "plan", "whole.yaml"])
        assert tables in ran(shop, [INGEST, "run", "whole.yaml", "--once"])
    assert Lake(shop.file.parent / "lake").rows("shop", "products")[:2] == [(1, "apple", "0.50"), (2, "pear", "0.75")]
    assert len(Lake(shop.file.parent / "lake").rows("app", "order_placed")) == 20


def test_tests_of_the_pages_with_expressions_pass(pipeline: Pipeline) -> None:
    folder = pipeline.file.parent / "tests"
    folder.mkdir()
    found = [one for one in blocks() if needs_java(one)]
    for number, block in enumerate(found):
        (folder / f"{number}.yaml").write_text(block.text)
    assert f"{len(found)} tests, 0 failed" in ran(pipeline, [INGEST, "test", str(folder)])


@contextmanager
def service(pipeline: Pipeline, port: int) -> Iterator[None]:
    """A run that goes on, with metrics, until SIGTERM."""
    folder = pipeline.file.parent
    command = filled_in(f"ingest run orders.yaml --metrics {port}", pipeline)
    process = Background(command, os.environ, folder, folder)

    until(lambda: get(f"http://localhost:{port}/readyz")[0] == 200, 60, process)
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
    assert finish(process).code == 0


@pytest.mark.usefixtures("java")
def test_metrics_and_top_of_a_pipeline_that_goes_on(kafka: Kafka, pipeline: Pipeline) -> None:
    port = free_port()
    pipeline.file = pipeline.file.with_name("orders.yaml")
    pipeline.write(rest=f"pipeline:\n  metrics.port: {port}\n")
    kafka.send(pipeline.topic, message("c", None, {"id": 1}))
    with service(pipeline, port):
        said = ran(pipeline, [*filled_in(f"ingest top localhost:{port} orders.yaml", pipeline), "--once"])
    assert said.count("orders") > 1
