"""Native code is built whole or not at all: its modules use each other."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest
import setuptools  # type: ignore[import-untyped]  # (it has no stubs)

SETUP = Path(__file__).parents[3] / "setup.py"
MODULE = """#include <Python.h>
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "NAME", NULL, -1, NULL};
PyMODINIT_FUNC PyInit_NAME(void) { return PyModule_Create(&module); }
"""


@pytest.mark.parametrize(("broken", "built"), [("", {"one", "two", "three"}), ("two", set())])
def test_modules_are_built_together(
    broken: str, built: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, Any] = {}
    monkeypatch.chdir(tmp_path)  # setup.py looks for files below the current folder: there are none
    monkeypatch.setattr(setuptools, "setup", lambda **options: given.update(options))
    runpy.run_path(str(SETUP))
    modules = []
    for name in ("one", "two", "three"):
        text = MODULE.replace("NAME", name) + ("this is no C" if name == broken else "")
        (tmp_path / f"{name}.c").write_text(text)
        modules.append(setuptools.Extension(f"native.{name}", [f"{name}.c"], optional=True))
    command = given["cmdclass"]["build_ext"](setuptools.Distribution({"ext_modules": modules}))
    command.build_lib, command.build_temp = str(tmp_path / "lib"), str(tmp_path / "temp")
    command.ensure_finalized()
    command.run()
    assert {path.name.partition(".")[0] for path in (tmp_path / "lib").rglob("*.so")} == built
