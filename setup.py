"""The native code: Cython modules, with leaf functions in C. All else about the package is in pyproject.toml.

Optional: without a C compiler the tool does the same by its reference implementation, slowly, and says so.
"""

import sys
from glob import glob

from setuptools import Extension, setup

LEAVES = ["ingest/native/scan.c", "ingest/native/values.c", "ingest/native/readings.c"]
# What a module includes or cimports may be any of them: a change of one builds all anew
SOURCES = glob("ingest/native/*.pxd") + glob("ingest/native/*.h") + LEAVES
WITHOUT_LEAVES = {"codes", "records", "workspace", "table", "arrow", "row_encoder", "transform_rows"}


def native() -> list[Extension]:
    """Return an extension for each Cython module of `ingest.native`."""
    made = []
    for path in sorted(glob("ingest/native/*.pyx")):
        name = path.removesuffix(".pyx").replace("/", ".")
        leaves = [] if name.rpartition(".")[2] in WITHOUT_LEAVES else LEAVES
        made.append(
            Extension(name, [path, *leaves], depends=SOURCES, extra_compile_args=["-O3", "-std=gnu11"], optional=True)
        )
    return made


def kafka() -> list[Extension]:
    """Return an extension for each Cython module of `ingest.kafka.native`."""
    sources = [*glob("ingest/kafka/native/*.pxd"), "ingest/native/records.pxd"]
    paths = sorted(glob("ingest/kafka/native/*.pyx"))
    return [
        Extension(
            path.removesuffix(".pyx").replace("/", "."),
            [path],
            depends=sources,
            extra_compile_args=["-O3", "-std=gnu11"],
            libraries=["dl", "pthread"] if sys.platform == "linux" else [],
            optional=True,
        )
        for path in paths
    ]


setup(ext_modules=[*native(), *kafka()])
