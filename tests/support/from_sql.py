"""The pipelines of docs/from-sql.md."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "from-sql.md"
BLOCKS = dict(re.findall(r"^### (.*?)\n(?:(?!^### ).)*?```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL | re.MULTILINE))
"""Pipelines by their headings."""
KERBEROS = [title for title, block in BLOCKS.items() if "GSSAPI" in block]
"""Headings of those that ask for Kerberos."""
