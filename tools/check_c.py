"""`make check`: compile native code as the build does, with every usual warning as an error. Writes nothing that stays.

Cython modules are translated first; what Cython itself writes shadows names, so that one warning is for C files only.
Where there is no C compiler it says so and succeeds, except on CI, which has to have one.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

WARNINGS = ["-Wall", "-Wextra", "-Wvla", "-Wstrict-prototypes", "-Werror"]
FOR_C = ["-Wshadow"]


def main(files: list[str]) -> int:
    """Return 1 where a file has a warning."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        print("no C compiler: native code was not checked")
        return int(bool(os.environ.get("CI")))
    build = [compiler, "-std=gnu11", "-O3", "-fPIC", *WARNINGS, f"-I{sysconfig.get_path('include')}"]
    with tempfile.TemporaryDirectory() as folder:
        return max((check(file, build, Path(folder)) for file in files), default=0)


def check(file: str, build: list[str], folder: Path) -> int:
    """Return a code other than 0 where a file has a warning, or cannot be translated."""
    more = FOR_C
    if file.endswith(".pyx"):
        more = [f"-I{Path(file).parent}"]
        made = str(folder / f"{Path(file).stem}.c")
        translate = [sys.executable, "-m", "cython", "-3", "-Werror", file, "-o", made]
        code = subprocess.run(translate, check=False).returncode
        if code:
            return code
        file = made
    return subprocess.run([*build, *more, "-c", "-o", os.devnull, file], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
