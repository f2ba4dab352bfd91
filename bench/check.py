"""What `ingest check` takes, against Python with the libraries that it cannot do without, interleaved in one run.

`python bench/check.py [--rounds R]`; a part of `make bench`. See README.md here.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter

from setting import INGEST, options_of, save

HEAD = """\
source: {type: kafka, properties.bootstrap.servers: h, topic: shop.changes}
sink: {type: upsert-kafka, properties.bootstrap.servers: h}
route:
"""
ROUTE = "  - source-table: shop.t{0}\n    sink-table: ods.t{0}\n"
RULE = "  - source-table: shop.t{0}\n    projection: id, UPPER(name) AS name\n    filter: amount > {0}\n"
DDL = "scan.value.initial-schemas.ddls: 'CREATE TABLE shop.t1 (id BIGINT, PRIMARY KEY (id) NOT ENFORCED)'"
LIBRARIES = "import typer, ruamel.yaml\nfrom pydantic import BaseModel\nclass Options(BaseModel):\n    x: int"


def main() -> None:
    """Measure, and print."""
    options = options_of(rounds=15).parse_args()
    with tempfile.TemporaryDirectory() as folder:
        routes, rules = ("".join(part.format(i) for i in range(n)) for part, n in ((ROUTE, 99), (RULE, 40)))
        mixed = f"{HEAD}{''.join(ROUTE.format(i) for i in range(38))}transform:\n{rules}"
        files = {
            "routes": f"{HEAD}{routes}",
            "with expressions": mixed,
            "with expressions and a DDL": mixed.replace("shop.changes}", f"shop.changes, {DDL}}}"),
        }
        commands = {"python -c pass": ["-c", "pass"], "python and the libraries": ["-c", LIBRARIES]}
        for name, text in files.items():
            file = Path(folder) / f"{len(commands)}.yaml"
            file.write_text(text)
            commands[f"check of {text.count(chr(10))} lines, {name}"] = [INGEST, "check", str(file)]
        taken: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
        for _ in range(options.rounds):
            for name, command in commands.items():
                taken[name].append(once(command))
    wall, cpu = ({name: median(pair[i] for pair in pairs) for name, pairs in taken.items()} for i in (0, 1))
    bare = "python and the libraries"
    for name in commands:
        print(f"{name:50} {wall[name]:.2f} s; {cpu[name]:.2f} s of CPU, {cpu[name] / cpu[bare]:.2f} of the libraries")
    found = {
        f"{name.partition('lines, ')[2]}, CPU by that of the libraries": [
            pair[1] / libraries[1] for pair, libraries in zip(taken[name], taken[bare], strict=True)
        ]
        for name in commands
        if name.startswith("check of")
    }
    save(options, "check", found)


def once(command: list[str]) -> tuple[float, float]:
    """Seconds that a command takes, and seconds of a processor."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), perf_counter()
    subprocess.run([sys.executable, *command], check=True, capture_output=True)
    wall, after = perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    main()
