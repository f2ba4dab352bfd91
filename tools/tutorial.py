"""`make package`: do docs/tutorial.md as it stands, with a wheel in the place of what a package registry would give.

    python tools/tutorial.py WHEEL CONSTRAINTS

From an empty folder to the last command: an environment, the installation, Kafka, a pipeline, a query, a test. Prints
how long it took.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests" / "support"))

from walkthrough import apart, steps, walk  # noqa: E402  (it is no package)

from ingest.sandbox import broker as sandbox  # noqa: E402

INSTALL: Final = "pip install 'ingest[demo]'\n"


def main() -> None:
    """Do what the page says."""
    wheel, constraints = (Path(given).resolve() for given in sys.argv[1:])
    page = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    assert INSTALL in page
    installed = f"pip install -q --disable-pip-version-check -c '{constraints}' 'ingest[demo] @ {wheel.as_uri()}'\n"
    environment = {"PYTHONPATH": "", "PATH": f"{Path(sys.base_prefix) / 'bin'}:{os.environ['PATH']}"}
    with tempfile.TemporaryDirectory(prefix="ingest-tutorial-") as name:
        instead, cache = apart(Path(name) / "cache")
        folder = Path(name) / "shop"
        folder.mkdir()
        began = time.monotonic()
        try:
            said = walk(page, folder, {INSTALL: installed, **instead}, {**environment, **cache})
        finally:
            sandbox.down(Path(name) / "cache" / "sandbox", wipe=True)
        print(f"the tutorial's {len(steps(page))} steps, with the installation: {time.monotonic() - began:.0f} s")
    assert "with native code" in said[0], said[0]


if __name__ == "__main__":
    main()
