"""The workflows of .github: what they run is there, what they use is pinned, and they may do no more than they need."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from pages import ROOT
from ruamel.yaml import YAML

if TYPE_CHECKING:
    from pathlib import Path

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yaml"))
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yaml"))


def read(path: Path) -> dict[str, Any]:
    return dict(YAML(typ="safe").load(path.read_text(encoding="utf-8")))


def steps(workflow: dict[str, Any]) -> list[dict[str, Any]]:
    return [step for job in workflow["jobs"].values() for step in job.get("steps", [])]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_actions_are_pinned_by_commit_and_say_their_version(path: Path) -> None:
    used = re.findall(r"uses: (?!\./)(.*)", path.read_text(encoding="utf-8"))
    assert used
    for action in used:
        assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action), action


def test_base_images_of_the_image_are_given_by_digest() -> None:
    bases = re.findall(r"^FROM (\S+)", (ROOT / "docker" / "Dockerfile").read_text(encoding="utf-8"), re.MULTILINE)
    outside = [base for base in bases if base not in {"published", "kerberos", "${CLIENT}"}]
    assert len(outside) == 2
    for base in outside:
        assert re.fullmatch(r"[a-z]+:\d+\.\d+\.\d+-slim-bookworm@sha256:[0-9a-f]{64}", base), base
    watched = read(ROOT / ".github" / "dependabot.yml")["updates"]
    assert {one["package-ecosystem"]: one["directory"] for one in watched} == {
        "docker": "/docker",
        "github-actions": "/",
    }


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_reads_only_and_each_job_ends(path: Path) -> None:
    workflow = read(path)
    assert workflow["permissions"] == {"contents": "read"}
    for name, job in workflow["jobs"].items():
        assert "uses" in job or job["timeout-minutes"] > 0, name
    for step in steps(workflow):
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False
        # A name of a branch or a title of a pull request would run as a command
        assert "${{" not in step.get("run", ""), step


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_what_a_workflow_runs_is_there(path: Path) -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    workflow = read(path)
    for step in steps(workflow):
        command = step.get("run", "")
        if command.startswith("make "):
            assert command.split()[-1] in targets, command
        for file in re.findall(r"-r (\S+)", command):
            assert (ROOT / file).is_file(), command
    for job in workflow["jobs"].values():
        assert "uses" not in job or (ROOT / job["uses"]).is_file()


def test_the_changelog_has_the_form_that_a_release_looks_for() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    versions = re.split(r"^## (?=\[\d+\.\d+\.\d+\] - (?:unreleased|\d{4}-\d\d-\d\d)$)", text, flags=re.MULTILINE)[1:]
    assert len(versions) == len(re.findall(r"^## ", text, re.MULTILINE)) > 0
    for version in versions:
        parts = re.split(r"^### (\w+)\n", version, flags=re.MULTILINE)
        assert parts[1::2] == ["Upgrading", *(kind for kind in ("Added", "Changed", "Fixed") if kind in parts[1::2])]
        assert "checkpoint" in parts[2]
        for lines in parts[2::2]:
            assert re.fullmatch(r"(- .+\n(  .+\n)*)+\n?", lines), lines[-300:]


def test_ci_has_each_python_on_each_processor() -> None:
    jobs = read(ROOT / ".github" / "workflows" / "ci.yaml")["jobs"]
    for name in ("fast", "whole"):
        matrix = jobs[name]["strategy"]["matrix"]
        assert matrix["python"] == ["3.11", "3.12", "3.13"]
        assert matrix["machine"] == ["ubuntu-24.04", "ubuntu-24.04-arm"]


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_a_form_has_a_name_and_labelled_questions(path: Path) -> None:
    form = read(path)
    assert form["name"]
    assert form["description"]
    asked = [part for part in form["body"] if part["type"] != "markdown"]
    assert len({part["id"] for part in asked}) == len(asked)
    assert all(part["attributes"]["label"] for part in asked)
