"""The native code: Cython modules, with leaf functions in C. All else about the package is in pyproject.toml.

Optional: without a C compiler the tool does the same by its reference implementation, slowly, and says so.
"""

from pathlib import Path

from setuptools import Extension, setup

NATIVE = Path("ingest/native")
LEAVES = ["ingest/native/scan.c", "ingest/native/values.c", "ingest/native/readings.c"]
# What a module includes or cimports may be any of them: a change of one builds all anew
SOURCES = [str(path) for kind in ("*.pxd", "*.h") for path in sorted(NATIVE.glob(kind))] + LEAVES
WITHOUT_LEAVES = {"codes", "records", "workspace", "table", "arrow", "row_encoder", "transform_rows"}


def native() -> list[Extension]:
    """Return an extension for each Cython module of `ingest.native`."""
    made = []
    for path in sorted(NATIVE.glob("*.pyx")):
        sources = [str(path)] if path.stem in WITHOUT_LEAVES else [str(path), *LEAVES]
        flags = ["-O3", "-std=gnu11"]
        name = f"ingest.native.{path.stem}"
        made.append(Extension(name, sources, depends=SOURCES, extra_compile_args=flags, optional=True))
    return made


client = Extension(
    "ingest.kafka._client",
    ["ingest/kafka/_client.c"],
    depends=["ingest/native/raw.h"],
    extra_compile_args=["-O3"],
    optional=True,
)
setup(ext_modules=[*native(), client])
