"""`make check`: compile C files and Cython modules with every usual warning as an error. Writes nothing that stays.

Our own C is checked with more warnings than what Cython makes, and in both of its forms: with the processor's vectors
and without. Where there is no C compiler it says so and succeeds, except on CI, which has to have one.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

OURS = ["-Wall", "-Wextra", "-Wshadow", "-Wvla", "-Wstrict-prototypes", "-Werror"]
MADE = ["-Wall", "-Wextra", "-Wno-unused-function", "-Werror"]
"""An enum that another module shares has functions that a module may not need."""


def main(files: list[str]) -> int:
    """Return 1 where a file has a warning."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        print("no C compiler: the native code was not checked")
        return int(bool(os.environ.get("CI")))
    build = [compiler, "-std=gnu11", "-O1", "-fPIC", f"-I{sysconfig.get_path('include')}"]
    build += sorted({f"-I{header.parent}" for header in Path("ingest").glob("**/native/*.h")})
    ours, modules = ([f for f in files if f.endswith(kind)] for kind in (".c", ".pyx"))
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(os.cpu_count()) as threads:

        def module(file: str) -> bool:
            made = str(Path(folder) / file.replace("/", ".")) + ".c"
            cython = [sys.executable, "-m", "cython", "-3", file, "-o", made]
            return _failed(cython) or _failed([*build, *MADE, "-fsyntax-only", made])

        forms = [[*build, *OURS, *form, "-c", "-o", os.devnull] for form in ([], ["-DINGEST_PORTABLE"])]
        leaves = threads.map(_failed, [[*form, file] for file in ours for form in forms])
        return int(any([*leaves, *threads.map(module, modules)]))


def _failed(command: list[str]) -> bool:
    """Run a command that says by itself what is wrong."""
    return subprocess.run(command, check=False).returncode != 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
