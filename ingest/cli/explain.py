"""`ingest explain WORD`: what an option, a component or a code is, without the documentation."""

from __future__ import annotations

import os
import re
from difflib import get_close_matches
from typing import Annotated, Final

import typer

from ingest.errors import ConfigError

_SECTION: Final = re.compile(r"^(pipeline|source|sink|key|value)\.")
"""A word that messages put in front of an option: its section, or which format of two it is of."""
_NEAR: Final = 5
"""Words that are suggested, at most."""

app = typer.Typer(add_completion=False, rich_markup_mode=None)


def _completions() -> list[str]:
    """Return the words that have a text, for shells."""
    return list(dict.fromkeys(name.rpartition(" ")[2] for name in _known()))


def _known() -> dict[str, str]:
    """Return the text of each word by its name."""
    os.environ["INGEST_DOCS"] = "1"  # before models are imported: they then keep the texts of their options
    from ingest.cli.explanations import entries  # noqa: PLC0415  (as above)

    return dict(entries())


@app.command()
def explain(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="WORD",
            help="An option, a format, a source, a sink, or a code. [default: a list]",
            autocompletion=_completions,
        ),
    ] = None,
) -> None:
    """Explain an option, a format, a source, a sink or a code."""
    entries = _known()
    if not words:
        for word in entries:
            typer.echo(word)
        return
    for number, word in enumerate(words):
        texts = _texts(word, entries) or _texts(_SECTION.sub("", word), entries)
        if not texts:
            raise _unknown(word, entries)
        typer.echo(("\n" if number else "") + "\n\n".join(texts))


def _texts(word: str, entries: dict[str, str]) -> list[str]:
    return [text for name, text in entries.items() if word in (name, name.rpartition(" ")[2])]


def _unknown(word: str, entries: dict[str, str]) -> ConfigError:
    """Return the error for a word that is nothing here."""
    known = dict.fromkeys(name.rpartition(" ")[2] for name in entries)
    near = [other for other in known if word.lower() in other] or get_close_matches(word, known, _NEAR)
    hint = f"there are {', '.join(near[:_NEAR])}" if near else "ingest explain lists all words"
    return ConfigError(f"{word[:100]!r} is no option, component or code", hint)
