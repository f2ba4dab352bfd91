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

KAFKA = Path("ingest/kafka/native")


def files(kind: str) -> list[str]:
    """Return the files of native code of a kind: what belongs to one feature is in the folder `native` of its room."""
    return sorted(str(path) for path in Path("ingest").glob(f"**/native/*.{kind}"))


LEAVES = files("c")
FOLDERS = sorted({str(Path(file).parent) for file in files("h")})
# What a module includes or cimports may be any of them: a change of one rebuilds all
SOURCES = [*files("pxd"), *files("h")]
WITHOUT_LEAVES = {"codes", "records", "change", "log_records"}
FLAGS = ["-O3", "-std=gnu11"]


def extension(path: Path) -> Extension:
    """Return the extension of a Cython module."""
    of_kafka = path.parent == KAFKA
    return Extension(
        ".".join(path.with_suffix("").parts),
        [str(path)],
        depends=SOURCES if of_kafka else [*SOURCES, *LEAVES],
        include_dirs=[] if of_kafka else FOLDERS,
        extra_compile_args=FLAGS,
        libraries=["dl", "pthread"] if of_kafka and sys.platform == "linux" else [],
        optional=True,
    )


class BuildSideBySide(build_ext):
    """Build the leaves once, then the extensions side by side, each in a folder of its own."""

    def initialize_options(self) -> None:
        """Set what can be set by the command line."""
        build_ext.initialize_options(self)
        self.parallel = True  # as many as there are processors

    def build_extensions(self) -> None:
        """Build the leaves, and all extensions. Where one of them does not compile, there is no native code."""
        try:
            leaves = self.compiler.compile(
                LEAVES, output_dir=self.build_temp, include_dirs=FOLDERS, extra_postargs=FLAGS
            )
        except CompileError as refused:
            self.warn(f"the leaf functions do not compile, so no native code is built: {refused}")
            self.extensions = []
            return
        for ext in self.extensions:
            if Path(ext.sources[0]).parent != KAFKA and Path(ext.sources[0]).stem not in WITHOUT_LEAVES:
                ext.extra_objects = leaves
        build_ext.build_extensions(self)
        built = [Path(self.get_ext_fullpath(ext.name)) for ext in self.extensions]
        if missing := [path.name for path in built if not path.is_file()]:
            # Modules use each other, and `ingest/compiled.py` looks for one of them
            self.warn(f"no native code is built, for these do not compile: {', '.join(missing)}")
            for path in built:
                path.unlink(missing_ok=True)

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
        return subprocess.run(asked, capture_output=True, text=True, check=True).stdout
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
    ext_modules=[extension(Path(file)) for file in files("pyx")],
    cmdclass={"build_ext": BuildSideBySide, "build_py": BuildWithCommit, "sdist": SourcesWithCommit},
)
