"""Secrets of a pipeline on a secured cluster: no output has them, nor anything that a run leaves."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from harness import Kafka, Pipeline, free_port, until
from secured import feed, lines

from ingest.kafka.admin import Cluster

if TYPE_CHECKING:
    from secured import Run

    from ingest.sandbox.secure import Secure


def test_secrets_show_nowhere(
    tmp_path: Path, run: Run, plain: Kafka, secure: Secure, clients: dict[str, dict[str, str]]
) -> None:
    """Every output, log, plan, checkpoint and page of Spark's UI of a run, searched for its pipeline's secrets."""
    feed(plain)
    hidden = {"sandbox": secure.password, "user": "user-name-from-a-secret"}
    Cluster({"bootstrap.servers": plain.bootstrap}).set_scram(hidden["user"], hidden["sandbox"])
    properties = {
        **clients["SASL_SSL"],
        "sasl.password": "${secret_values.sandbox}",
        "sasl.username": "${secret_values.user}",
    }
    # One end has its password from a secret, the other in the file, as pasted pipelines do
    jaas = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="{user}" password="{sandbox}";'
    pasted = {k: v for k, v in clients["SASL_SSL"].items() if k not in {"sasl.username", "sasl.password"}}
    pasted["sasl.jaas.config"] = jaas.format(**hidden)
    port = free_port()
    file = tmp_path / "pipe.yaml"
    pipeline = Pipeline(tmp_path, plain, f"{plain.name}.in")
    file.write_text(
        f"source:\n  type: kafka\n  topic: {plain.name}.in\n  scan.startup.mode: earliest-offset\n{lines(pasted)}"
        f"sink:\n  type: upsert-kafka\n{lines(properties)}"
        f"route:\n  - {{source-table: '\\.*', sink-table: {plain.name}.out.<>, replace-symbol: <>}}\n"
    )
    events = tmp_path / "events"
    events.mkdir()
    process = pipeline.start(
        "--conf", "spark.ui.enabled=true", "--conf", f"spark.ui.port={port}", "--conf", "spark.eventLog.enabled=true",
        "--conf", f"spark.eventLog.dir=file://{events}",
        env={"INGEST_SECRET_SANDBOX": hidden["sandbox"], "INGEST_SECRET_USER": hidden["user"]},
    )  # fmt: skip
    seen: dict[str, str] = {}
    try:
        out = f"{plain.name}.out.orders"
        until(lambda: out in plain.cluster.names() and plain.end(out) >= 5, 90, process)
        arguments = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if readable(path)]
        seen["command lines"] = b"\n".join(arguments).decode(errors="replace")
        for page in ("jobs/", "stages/", "stages/stage/?id=0&attempt=0", "environment/", "executors/", "storage/",
                     "api/v1/applications"):  # fmt: skip
            seen[page] = fetch(f"http://127.0.0.1:{port}/{page}")
        assert "Spark" in seen["environment/"]
    finally:
        process.terminate()
        seen["stdout"], seen["stderr"] = process.communicate(timeout=60)
    assert process.returncode == 0, seen["stderr"]
    assert '"batch done"' in seen["stderr"]
    for path in [*pipeline.checkpoint.rglob("*"), *events.rglob("*")]:
        if path.is_file():
            seen[str(path)] = path.read_bytes().decode(errors="replace")
    assert any("runs/1" in name for name in seen)
    assert any("spark.log" in name for name in seen)
    for where, text in seen.items():
        for secret in hidden.values():
            assert secret not in text, where
    wrong = run(
        {**pasted, "sasl.jaas.config": jaas.format(user=hidden["user"], sandbox="a-wrong-password")},
        properties,
        INGEST_SECRET_SANDBOX=hidden["sandbox"],
        INGEST_SECRET_USER=hidden["user"],
    )
    assert wrong.code == 78
    assert "a-wrong-password" not in wrong.err + wrong.out
    assert hidden["user"] not in wrong.err + wrong.out


def readable(path: Path) -> bool:
    try:
        path.read_bytes()
    except OSError:
        return False
    return True


def fetch(url: str) -> str:
    import urllib.request

    with urllib.request.urlopen(url, timeout=60) as answer:  # noqa: S310  (Spark's UI on loopback)
        text: str = answer.read().decode(errors="replace")
    return text
