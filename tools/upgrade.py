"""Make checkpoints of a commit, with what their sinks had then, for tests/integration/driver/test_upgrade.py.

    python tools/upgrade.py COMMIT FOLDER

The commit's own code runs, by the reference in Python, on a broker and a database of the sandbox. FOLDER gets what each
kind of run left: of Kafka its topics and notes (kafka.json), of PostgreSQL a dump (postgres.sql). Iceberg's tables
name their files by absolute paths: all is made, and gone on with, in one place.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

ROOT: Final = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests" / "support"))

from confluent_kafka import ConsumerGroupTopicPartitions  # noqa: E402
from harness import Kafka  # noqa: E402  (it is no package)
from upgrades import BEFORE, BOOTSTRAP, DATABASE, FILES, NAME, PLACE, PROGRESS, alone, lines, rename  # noqa: E402

from ingest.kafka.reference import note_of  # noqa: E402
from ingest.sandbox import broker, postgres  # noqa: E402

if TYPE_CHECKING:
    from ingest.sandbox.postgres import RunningDatabase


def exported(kafka: Kafka) -> dict[str, Any]:
    """Return what a restored broker needs: the cluster's id, topics with their records, groups with their notes."""
    topics = {}
    names = [name for name in kafka.admin.list_topics(timeout=10).topics if name.startswith(NAME) or name == PROGRESS]
    for name, topic in kafka.cluster.topics(names).items():
        records = [[one.partition, (one.key or b"").decode(), (one.value or b"").decode()] for one in kafka.read(name)]
        compact = name.startswith(NAME) and not name.endswith(".in")
        topics[name] = {"id": topic.id, "partitions": topic.partitions, "compact": compact, "records": records}
    groups = {}
    for group in kafka.admin.list_consumer_groups().result(10).valid:
        if group.group_id.startswith(NAME):
            asked = kafka.admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group.group_id)])
            committed = asked[group.group_id].result(10).topic_partitions
            groups[group.group_id] = [[at.topic, at.partition, at.offset, note_of(at)] for at in committed]
    return {"cluster": kafka.cluster.connect(10.0), "topics": topics, "groups": groups}


def make(kind: str, code: Path, servers: Path, target: Path) -> None:
    """Let the commit's code run a pipeline of a kind, and keep what it leaves."""
    kafka, database = Kafka(broker.up(servers).bootstrap), postgres.up(servers)
    kafka.clear()
    PLACE.mkdir()
    (PLACE / "p.yaml").write_text(FILES[kind])
    on_kafka = "bootstrap" in FILES[kind]
    if on_kafka:
        kafka.send(kafka.create(f"{NAME}.in"), *BEFORE)
    else:
        (PLACE / "in.1.jsonl").write_text(lines(BEFORE))
    password = Path(database.password_file).read_text().strip()
    command = [sys.executable, "-m", "ingest", "run", "p.yaml", "--once", "--checkpoint", "checkpoint"]
    for given in (f"bootstrap={kafka.bootstrap}", f"endpoint={database.endpoint}", f"password={password}"):
        command += ["--set", given]
    command += ["--set", f"database={postgres.DATABASE}", "--master", "local[2]"]
    subprocess.run(command, cwd=PLACE, check=True, env={**os.environ, "PYTHONPATH": str(code), "INGEST_NATIVE": "off"})
    (PLACE / "checkpoint" / "lock").unlink()
    shutil.rmtree(PLACE / "checkpoint" / "logs")
    rename({kafka.bootstrap: BOOTSTRAP, f"{database.endpoint}/{postgres.DATABASE}": DATABASE})
    if on_kafka:
        (PLACE / "kafka.json").write_text(json.dumps(exported(kafka), separators=(",", ":")) + "\n")
    elif kind == "postgres":
        (PLACE / "postgres.sql").write_text(dumped(database))
    shutil.copytree(PLACE, target / kind)
    shutil.rmtree(PLACE)


def dumped(database: RunningDatabase) -> str:
    """Return the statements that make what the database has."""
    host, _, port = database.endpoint.partition(":")
    password = {"PGPASSWORD": Path(database.password_file).read_text().strip()}
    command = ["pg_dump", "-h", host, "-p", port, "-U", postgres.USER, "--inserts", "--no-owner", postgres.DATABASE]
    ran = subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE, env={**os.environ, **password})
    comments = ("--", "\\", "SET ", "SELECT pg_catalog.set_config")
    return "".join(f"{line}\n" for line in ran.stdout.splitlines() if line and not line.startswith(comments))


def main() -> None:
    """Check out the commit, and make a checkpoint of each kind."""
    commit, target = sys.argv[1], Path(sys.argv[2])
    with tempfile.TemporaryDirectory(prefix="ingest-upgrade-") as name, alone():
        code, servers = Path(name) / "code", Path(name) / "servers"
        code.mkdir()
        git, tar = shutil.which("git") or "git", shutil.which("tar") or "tar"
        packed = subprocess.run([git, "archive", commit], cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
        subprocess.run([tar, "-x", "-C", code], input=packed, check=True)
        try:
            for kind in FILES:
                make(kind, code, servers, target)
        finally:
            postgres.down(servers, wipe=True)
            broker.down(servers, wipe=True)


if __name__ == "__main__":
    main()
