"""Words of Python that no text for people has: None, True, False, b'', numbers of errors, classes, objects."""

from __future__ import annotations

import re
from typing import Final

WORDS: Final = re.compile(
    r"(?<![\w.'\"/$-])(?:None(?!\s+of\s)|True|False)(?![\w'\"/-])"  # alone, and not as somebody's quoted value
    r"|(?:^|(?<=[\s(\[{:=,]))b(?:'[^']*'|\"[^\"]*\")|\[Errno |<urlopen |<class '|<[\w.]+ object at 0x",
    re.MULTILINE,
)


def words_of_python(text: str) -> list[str]:
    """Return the words of Python in a text for people. A stack trace has them, and is of a bug."""
    return [] if "Traceback (most recent call last)" in text else [found[0] for found in WORDS.finditer(text)]
