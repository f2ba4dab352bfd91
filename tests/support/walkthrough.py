"""A page of the documentation, done as it stands: its files written, its commands run, its output compared.

Blocks with `title="…"` are files. Blocks of `sh` are commands, run by one shell from the first to the last. A block of
`text` after them has lines that their output has in this order; `…` stands for any characters, a space for any number
of spaces. A command that ends with an error says so: `# ends with exit code 65`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ingest import paths
from ingest.sandbox.process import any_ports

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_BLOCK: Final = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
_SHELL: Final = shutil.which("bash") or "bash"
_FAILS: Final = re.compile(r"^(.*?) +# ends with exit code (\d+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Step:
    """Some commands of a page, with the files that have to be there first, and lines of what they say."""

    files: Mapping[str, str]
    commands: str
    lines: tuple[str, ...]


def steps(page: str) -> list[Step]:
    """Return what a page tells its reader to do. Raise ValueError for a block that is neither of the three."""
    found: list[Step] = []
    files: dict[str, str] = {}
    for language, title, text in _BLOCK.findall(page):
        if title:
            files[title] = text
        elif language == "sh":
            found.append(Step(files, text, ()))
            files = {}
        elif language == "text" and found and not files:
            last = found[-1]
            found[-1] = Step(last.files, last.commands, (*last.lines, *text.splitlines()))
        else:
            msg = f"a block of {language!r} is neither a file nor a command nor what one says: {text[:80]!r}"
            raise ValueError(msg)
    if len(re.findall(r"^ *```", page, re.MULTILINE)) != 2 * len(_BLOCK.findall(page)):
        msg = "a block has no language, or is in a list"
        raise ValueError(msg)
    if files:
        msg = f"files that no command uses: {[*files]}"
        raise ValueError(msg)
    return found


def walk(page: str, folder: Path, instead: Mapping[str, str], environment: Mapping[str, str]) -> list[str]:
    """Do what a page says in a folder, and return what each step has said.

    `instead` holds texts of commands and files that are others here: ports, and what is installed from where. Raise
    AssertionError where a step fails, or does not say what the page says.
    """
    for old, new in instead.items():
        page = page.replace(old, new)
    done = steps(page)
    script = ["set -eu"]
    for number, step in enumerate(done):
        for name, text in step.files.items():
            place = folder / f".step-{number}" / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text, encoding="utf-8")
        copy = f"cp -r .step-{number}/. ." if step.files else ":"
        commands = _FAILS.sub(r"ended=0; \1 || ended=$?; [ $ended = \2 ]", step.commands)
        script += [copy, f"echo '::step {number}'", commands]
    script.append("echo '::step end'")
    ran = subprocess.run(
        [_SHELL, "-c", "\n".join(script)], cwd=folder, env={**os.environ, **environment}, text=True, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    said = re.split(r"^::step \w+\n", ran.stdout, flags=re.MULTILINE)[1:]
    assert ran.returncode == 0, f"after {done[len(said) - 1].commands!r}:\n{ran.stdout[-5_000:]}"
    for step, output in zip(done, said, strict=False):
        compare(step.lines, output, step.commands)
    return said


def apart(folder: Path) -> tuple[dict[str, str], dict[str, str]]:
    """Return what is other in a walk whose sandbox has its state in a folder, and listens where nobody does.

    The first are texts of the page, the second the environment. The broker's jars are those of the user's cache.
    """
    folder.mkdir()
    paths.cache().mkdir(parents=True, exist_ok=True)
    for there in paths.cache().iterdir():
        if there.is_dir() and there.name != "sandbox":
            (folder / there.name).symlink_to(there)
    port, database = any_ports(2, set())
    (folder / "sandbox" / "mysql").mkdir(parents=True)
    (folder / "sandbox" / "mysql" / "mysql.json").write_text(f'{{"port": {database}}}')  # that of its last start
    instead = {
        "ingest sandbox up": f"ingest sandbox up --port {port}", "29092": str(port), "23306": str(database),
        "~/.cache/ingest": str(folder),
    }  # fmt: skip
    return instead, {"INGEST_CACHE_DIR": str(folder)}


def compare(lines: tuple[str, ...], output: str, commands: str) -> None:
    """Look for the lines of a page in an output, one after the other."""
    rest = iter(_one_space(output).splitlines())
    for line in filter(str.strip, lines):
        parts = ".*".join(re.escape(part) for part in _one_space(line).split("…"))
        wanted = re.compile(rf"(?<![\w.]){parts}(?!\w)")  # 1 is not 11
        assert any(wanted.search(said) for said in rest), f"{commands!r} does not say {line!r}:\n{output[-5_000:]}"


def _one_space(text: str) -> str:
    return re.sub(r"[ \t]+", " ", text)
