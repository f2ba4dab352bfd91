"""The lock files: what an extra asks for, in the versions of constraints.txt, with hashes and without addresses."""

from __future__ import annotations

import re
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from pages import ROOT

LOCKS = {"all": "requirements.lock", "demo": "requirements-demo.lock", "dev": "requirements-dev.lock"}
PINNED = re.compile(r"^([\w.-]+)==([^\s;]+)[^\n]*\\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", re.MULTILINE)


def constraints() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return {
        canonicalize_name(name): version for name, _, version in (line.partition("==") for line in lines) if version
    }


def locked(extra: str) -> dict[str, str]:
    found = PINNED.findall((ROOT / LOCKS[extra]).read_text(encoding="utf-8"))
    return {canonicalize_name(name): version for name, version, _ in found}


def asked(extra: str) -> set[str]:
    """Names of what the package and an extra ask for, those of extras that it names included."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    names: set[str] = {canonicalize_name(Requirement(line).name) for line in project["dependencies"]}
    waiting = [extra]
    while waiting:
        for line in project["optional-dependencies"][waiting.pop()]:
            requirement = Requirement(line)
            if requirement.name == "ingest":
                waiting += requirement.extras
            else:
                names.add(canonicalize_name(requirement.name))
    return names


@pytest.mark.parametrize("extra", LOCKS)
def test_a_lock_has_what_its_extra_asks_for_in_the_tested_versions(extra: str) -> None:
    versions, tested = locked(extra), constraints()
    assert asked(extra) <= versions.keys()
    assert {"setuptools", "cython"} <= versions.keys()  # the package is built with them, without isolation
    for name, version in versions.items():
        # What builds it has no constraint; httpx2-jsfetch is for browsers only
        assert name in {"setuptools", "httpx2-jsfetch"} or tested[name] == version, name


@pytest.mark.parametrize("extra", LOCKS)
def test_a_lock_has_hashes_and_no_address(extra: str) -> None:
    text = (ROOT / LOCKS[extra]).read_text(encoding="utf-8")
    assert PINNED.sub("", text).count("\n") == 1  # its comment
    assert "://" not in text


def test_what_is_for_development_includes_the_rest() -> None:
    assert locked("all").items() <= locked("dev").items()
    assert locked("demo").items() <= locked("dev").items()
