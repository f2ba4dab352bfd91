"""The native code: Cython modules, with leaf functions in C. All else about the package is in pyproject.toml.

Optional: without a C compiler the tool does the same by its reference implementation, slowly, and says so.
"""

import copy
import subprocess
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist
from setuptools.errors import CompileError

NATIVE = Path("ingest/native")
KAFKA = Path("ingest/kafka/native")
AVRO = Path("ingest/formats/avro/native")
MYSQL = Path("ingest/sources/mysql/native")
LEAVES = [f"ingest/native/{name}.c" for name in ("scan", "values", "readings", "bytes", "cells")]
LEAVES += [str(path) for path in sorted(MYSQL.glob("*.c"))]
# What a module includes or cimports may be any of them: a change of one builds all anew
SOURCES = [
    str(path)
    for kind in ("*.pxd", "*.h")
    for folder in (NATIVE, KAFKA, AVRO, MYSQL)
    for path in sorted(folder.glob(kind))
]
WITHOUT_LEAVES = {
    "codes",
    "records",
    "change",
    "transform_rows",
    "log_records",
}
FLAGS = ["-O3", "-std=gnu11"]


def native() -> list[Extension]:
    """Return an extension for each Cython module but those of `ingest.kafka.native`."""
    made = []
    for path in sorted([*NATIVE.glob("*.pyx"), *AVRO.glob("*.pyx"), *MYSQL.glob("*.pyx")]):
        depends = [*SOURCES, *LEAVES]
        name = ".".join(path.with_suffix("").parts)
        made.append(
            Extension(
                name,
                [str(path)],
                depends=depends,
                include_dirs=[str(NATIVE), str(MYSQL)],
                extra_compile_args=FLAGS,
                optional=True,
            )
        )
    return made


def kafka() -> list[Extension]:
    """Return an extension for each Cython module of `ingest.kafka.native`."""
    libraries = ["dl", "pthread"] if sys.platform == "linux" else []
    return [
        Extension(
            f"ingest.kafka.native.{path.stem}",
            [str(path)],
            depends=SOURCES,
            extra_compile_args=FLAGS,
            libraries=libraries,
            optional=True,
        )
        for path in sorted(KAFKA.glob("*.pyx"))
    ]


class BuildSideBySide(build_ext):
    """Build the leaves once, then the extensions side by side, each in a folder of its own."""

    def initialize_options(self) -> None:
        """Set what can be set by the command line."""
        build_ext.initialize_options(self)
        self.parallel = True  # as many as there are processors

    def build_extensions(self) -> None:
        """Build the leaves, and all extensions. Where the leaves do not compile, there is no native code."""
        try:
            leaves = self.compiler.compile(
                LEAVES, output_dir=self.build_temp, include_dirs=[str(NATIVE)], extra_postargs=FLAGS
            )
        except CompileError as refused:
            self.warn(f"the leaf functions do not compile, so no native code is built: {refused}")
            self.extensions = []
            return
        for ext in self.extensions:
            if Path(ext.sources[0]).parent != KAFKA and Path(ext.sources[0]).stem not in WITHOUT_LEAVES:
                ext.extra_objects = leaves
        build_ext.build_extensions(self)

    def build_extension(self, ext: Extension) -> None:
        """Build one extension.

        Raises:
            CompileError: a source does not compile.
        """
        apart = copy.copy(self)
        apart.build_temp = str(Path(self.build_temp) / ext.name)
        apart.cython_c_in_temp = True
        build_ext.build_extension(apart, ext)


BUILD = Path("ingest/build.txt")
"""What `ingest --version` says of a package that was built: the commit. A source distribution has the file."""


def commit() -> str:
    """Return the commit that is built, with its day; an empty text where nobody knows."""
    if BUILD.is_file():
        return BUILD.read_text(encoding="utf-8")
    if not Path(".git").exists():
        return ""
    asked = ["git", "log", "-1", "--format=%H %cs", "--"]
    try:
        return subprocess.run(asked, capture_output=True, text=True, check=True).stdout  # noqa: S603
    except (OSError, subprocess.CalledProcessError):
        return ""


ERRORS = Path("docs/errors.md")
"""The page that `ingest explain` reads codes from; beside `ingest/errors.py` in a package that was built."""


SCHEMA = Path("schemas/pipeline.schema.json")
"""What `ingest json-schema` prints; it is there, too."""


class BuildWithCommit(build_py):
    """Build the package with a file that names the commit, with the page of errors and the schema of pipeline files."""

    def run(self) -> None:
        """Build."""
        build_py.run(self)
        if not self.editable_mode:
            Path(self.build_lib, BUILD).write_text(commit(), encoding="utf-8")
            for file in (ERRORS, SCHEMA):
                Path(self.build_lib, "ingest", file.name).write_bytes(file.read_bytes())


class SourcesWithCommit(sdist):
    """Make a source distribution with a file that names the commit."""

    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        """Make the tree that is packed."""
        sdist.make_release_tree(self, base_dir, files)
        Path(base_dir, BUILD).write_text(commit(), encoding="utf-8")


setup(
    ext_modules=[*native(), *kafka()],
    cmdclass={"build_ext": BuildSideBySide, "build_py": BuildWithCommit, "sdist": SourcesWithCommit},
)
