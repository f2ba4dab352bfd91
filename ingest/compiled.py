"""Whether this process uses native code: that is decided here, for every room that has some.

Native code is compiled when the package is installed, where there is a C compiler. Without it, or with
`INGEST_NATIVE=off` in the environment, the reference in Python does the same, many times slower.
"""

from __future__ import annotations

import os
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Final

BUILT: Final = PathFinder.find_spec("records", [str(Path(__file__).with_name("native"))]) is not None
"""True if there is native code."""
USED: Final = BUILT and os.environ.get("INGEST_NATIVE") != "off"
"""True if it is wanted, too."""
UNWANTED: Final = "INGEST_NATIVE=off"
NOT_BUILT: Final = "the package was installed without a C compiler"
ABSENT: Final = UNWANTED if BUILT else NOT_BUILT
"""The reason why it is not used, where that is so."""
