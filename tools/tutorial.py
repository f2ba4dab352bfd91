"""`make package`: do docs/tutorial.md and tools/first-hour.md with a wheel in the place of the registry's.

    python tools/tutorial.py WHEEL CONSTRAINTS

From an empty folder to the last command: an environment, the installation, Kafka, a pipeline, a query, a test; then, in
this environment, dead letters, a replay, manifests. Prints how long each took.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

ROOT: Final = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests" / "support"))

from pages import tool  # noqa: E402  (it is no package)
from walkthrough import apart, steps, walk  # noqa: E402

from ingest.sandbox import broker, sample  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Mapping

INSTALL: Final = "pip install 'ingest[demo]'\n"


def done(page: Path, folder: Path, instead: Mapping[str, str], environment: Mapping[str, str]) -> list[str]:
    """Do what a page says in a new folder, and return what each of its steps has said."""
    text = page.read_text(encoding="utf-8")
    folder.mkdir()
    began = time.monotonic()
    said = walk(text, folder, instead, environment)
    print(f"{page.name}: {len(steps(text))} steps in {time.monotonic() - began:.0f} s", flush=True)
    return said


def main() -> None:
    """Do what the pages say."""
    wheel, constraints = (Path(given).resolve() for given in sys.argv[1:])
    tutorial = ROOT / "docs" / "tutorial.md"
    assert INSTALL in tutorial.read_text(encoding="utf-8")
    installed = f"pip install -q --disable-pip-version-check -c '{constraints}' 'ingest[demo] @ {wheel.as_uri()}'\n"
    with tempfile.TemporaryDirectory(prefix="ingest-tutorial-") as name:
        instead, cache = apart(Path(name) / "cache")
        shop, sandbox = Path(name) / "shop", Path(name) / "cache" / "sandbox"
        path = f"{Path(sys.base_prefix) / 'bin'}:{os.environ['PATH']}"
        environment = {**cache, "PYTHONPATH": "", "PATH": path}
        try:
            said = done(tutorial, shop, {INSTALL: installed, **instead}, environment)
            wheels = tool("wheel")
            wheels.run(wheels.configuration()["test-command"], str(shop / ".venv" / "bin"))
            environment["PATH"] = f"{shop / '.venv' / 'bin'}:{path}"
            done(ROOT / "tools" / "first-hour.md", Path(name) / "hour", instead, environment)
        finally:
            sample.down(sandbox)
            broker.down(sandbox, wipe=True)
    assert "with native code" in said[0], said[0]


if __name__ == "__main__":
    main()
