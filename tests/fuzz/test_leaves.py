"""The leaf functions go through the fuzzers' corpus, and through random changes of it, with the sanitizers."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from examples import examples

pytestmark = pytest.mark.compiled
ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent


@pytest.mark.parametrize("form", ["vectors", "portable"])
def test_what_is_to_hold_holds_for_the_corpus(form: str, tmp_path: Path) -> None:
    compiler = shutil.which("gcc") or shutil.which("cc")
    assert compiler is not None, "native code was built, so that there is a compiler"
    program = tmp_path / "leaves"
    leaves = sorted(str(file) for file in (ROOT / "ingest").glob("**/native/*.c"))
    # not optimized: building takes longer than the run, and what is optimized away is not looked at
    flags = ["-std=gnu11", "-O0", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", "-DREPLAY"]
    flags += ["-DINGEST_PORTABLE"] if form == "portable" else []
    folders = sorted({f"-I{header.parent}" for header in (ROOT / "ingest").glob("**/native/*.h")})
    source = str(HERE / "leaves.c")
    subprocess.run([compiler, *flags, *folders, source, *leaves, "-o", str(program)], check=True)
    corpus = sorted(str(path) for path in (HERE / "corpus").iterdir())
    assert len(corpus) > 100
    changes = examples(500)
    done = subprocess.run([program, str(changes), *corpus], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{len(corpus)} files, each as it is and with {changes} changes\n"
