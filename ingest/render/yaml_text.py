"""YAML that commands write: documents of plain values, and single texts within a document.

In: plain values. Out: text that every reader of YAML takes for the same values: maps and lists in blocks, and texts as
they stand where no reader can take them for anything else, or as in JSON. ruamel would write `yes`, `on` and `1:30` as
they stand, which are texts in YAML 1.2, but not for Kubernetes; and it takes thirty times as long, for a hundred
pipelines some seconds.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TextIO

_PLAIN: Final = re.compile(r"[A-Za-z_/](?:[\w./@$=-]|:(?=[\w./-]))*", re.ASCII)
_READ_OTHERWISE: Final = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})
"""Words that some reader of YAML takes for something else than a text."""
_UNFIT: Final = re.compile(r"[ ]\n|[^\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff]")
"""Characters that a block of YAML does not keep: blanks at the ends of lines, and rare characters."""
_ESCAPED: Final = re.compile(r"[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
"""Characters that JSON leaves as they are, and YAML does not take."""


def write_documents(documents: Iterable[Mapping[str, Any]], out: TextIO) -> None:
    """Write documents of plain values as YAML, keys in their order, texts of several lines as blocks."""
    for document in documents:
        out.write("---\n")
        out.writelines(f"{line}\n" for line in _lines(document, ""))


def _lines(value: Mapping[str, Any], indent: str) -> Iterator[str]:
    for key, item in value.items():
        yield from _entry(f"{indent}{scalar(key)}:", item, indent)


def _entry(head: str, item: Any, indent: str) -> Iterator[str]:
    """Yield the lines of a value that begins after `head`; `indent` is that of the line which has the head."""
    if isinstance(item, dict) and item:
        yield head
        yield from _lines(item, f"{indent}  ")
    elif isinstance(item, list) and item:
        yield head
        for entry in item:
            if isinstance(entry, dict) and entry:
                first, *others = _lines(entry, f"{indent}    ")
                yield f"{indent}  - {first.lstrip(' ')}"
                yield from others
            else:
                yield from _entry(f"{indent}  -", entry, f"{indent}  ")
    elif isinstance(item, str) and _fits_block(item):
        yield f"{head} |"
        yield from (f"{indent}  {line}" if line else "" for line in item[:-1].split("\n"))
    else:
        yield f"{head} {scalar(item)}"


def scalar(value: Any) -> str:
    """Return a value without a structure as it stands in a document."""
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _READ_OTHERWISE:
        return value
    return _ESCAPED.sub(lambda match: f"\\u{ord(match[0]):04x}", json.dumps(value, ensure_ascii=False))


def _fits_block(text: str) -> bool:
    """Return whether a block keeps this text whole."""
    ends = text.endswith("\n") and not text.endswith("\n\n")
    return ends and not text.startswith((" ", "\n")) and not _UNFIT.search(text)
