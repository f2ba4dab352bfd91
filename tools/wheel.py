"""`make package`: build a wheel of the source distribution by the commands of [tool.cibuildwheel], without Docker.

    python tools/wheel.py SDIST FOLDER

The wheel has the tag that auditwheel finds for this machine's libc. `tools/tutorial.py` runs the test command with it.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parent.parent


def configuration() -> dict[str, Any]:
    """Return [tool.cibuildwheel]."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    found: dict[str, Any] = tomllib.loads(text)["tool"]["cibuildwheel"]
    return found


def run(command: str, path: str = "", **places: Path) -> None:
    """Run a command of the configuration as cibuildwheel does: by a shell, in no directory of the project."""
    words = command.format(**{name: shlex.quote(str(place)) for name, place in places.items()})
    print(f"    {words}", flush=True)
    environment = {
        **os.environ,
        "PATH": f"{path or Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": "",
    }
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["/bin/sh", "-ec", words], cwd=folder, env=environment, check=True)


def main() -> None:
    """Build the wheel into the folder."""
    sdist, folder = (Path(given).resolve() for given in sys.argv[1:])
    found = configuration()
    frontend = found["build-frontend"]
    assert frontend["name"] == "pip", frontend
    with tempfile.TemporaryDirectory() as built:
        run(found["before-build"])
        run(
            f"pip wheel -q --no-deps {shlex.join(frontend['args'])} -w {{built}} {{sdist}}",
            built=Path(built),
            sdist=sdist,
        )
        (wheel,) = Path(built).glob("*.whl")
        run(found["repair-wheel-command"], dest_dir=folder, wheel=wheel)


if __name__ == "__main__":
    main()
