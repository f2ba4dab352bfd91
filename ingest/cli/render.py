"""`ingest render k8s DIR`: manifests of Kubernetes for the pipelines of a folder, without Java or a cluster."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final

import typer

from ingest.cli.screen import command_group, counted
from ingest.config.deployment import SETTINGS, Deployment, pipelines_in, read_deployments
from ingest.config.diagnostics import render as render_all
from ingest.config.loader import load
from ingest.config.placeholders import NOT_SET
from ingest.errors import ConfigError, PipelineFileError
from ingest.model.text import reason_of
from ingest.render.kubernetes import Rendered, documents, kustomization, object_name
from ingest.render.yaml_text import write_documents

_HEAD: Final = "# Made by `ingest render k8s`; do not edit. Change the pipeline, or kubernetes.yaml beside it.\n"
_KUSTOMIZATION: Final = "kustomization"

app = command_group("Write manifests that run pipelines elsewhere, on Kubernetes.")


@app.callback()
def render() -> None:
    """Manifests that run pipelines elsewhere."""


@app.command()
def k8s(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder with the pipelines' files.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where the manifests go.")] = Path("k8s"),
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing: exit code 1 where a manifest is not as it would be.")
    ] = False,
) -> None:
    """Turn pipelines into Deployments, or CronJobs where kubernetes.yaml gives a schedule, with a kustomization."""
    files = manifests(folder)
    stale = [
        path.name for path in sorted(out.glob("*.yaml")) if path.name not in files and path.is_file() and _is_ours(path)
    ]
    changed = [name for name, text in files.items() if _text(out / name) != text]
    if check:
        for name in [*changed, *stale]:
            typer.echo(
                f"{out / name} is not as the pipelines are: run ingest render k8s {folder} --out {out}", err=True
            )
        raise typer.Exit(1 if changed or stale else 0)
    for name in changed:
        if (out / name).exists() and not ((out / name).is_file() and _is_ours(out / name)):
            raise ConfigError(f"{out / name} is there, and was not made by this command", "take another --out")
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name in changed:
            (out / name).write_text(files[name], encoding="utf-8")
        for name in stale:
            (out / name).unlink()
    except OSError as exc:
        raise ConfigError(f"cannot write to {out}: {reason_of(exc)}", "take another --out") from exc
    written = f"{counted(len(changed), 'file')} written, {len(stale)} removed"
    typer.echo(f"{counted(len(files) - 1, 'pipeline')} in {out}: {written}", err=True)


def _text(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.is_file() else None


def _is_ours(path: Path) -> bool:
    with path.open("rb") as opened:
        return opened.read(len(_HEAD)) == _HEAD.encode()


def manifests(folder: Path) -> dict[str, str]:
    """Return the texts of all files, by their names. Raise ConfigError for a mistake in a file."""
    files = pipelines_in(folder)
    stems = [path.stem for path in files]
    settings = read_deployments(folder / SETTINGS, stems)
    names: dict[str, Path] = {_KUSTOMIZATION: Path(f"{_KUSTOMIZATION}.yaml")}
    out: dict[str, str] = {}
    for path in files:
        name = object_name(path.stem)
        if name in names:
            raise ConfigError(f"{path} and {names[name]} have one name in Kubernetes, {name}", "rename one of them")
        names[name] = path
        rendered = Rendered(name, path.name, _files_of(path, settings[path.stem]), settings[path.stem])
        out[f"{name}.yaml"] = _written(*documents(rendered))
    out[f"{_KUSTOMIZATION}.yaml"] = _written(kustomization([*out]))
    return out


def _files_of(path: Path, settings: Deployment) -> dict[str, str]:
    """Return the pipeline's file, and the modules beside it where it has functions of its own.

    Raise PipelineFileError for a file with errors, and for placeholders that nothing will fill in where it runs.
    """
    here = {name: value for name, value in settings.env.items() if isinstance(value, str)}
    there = {f"environment variable {name} is not set" for name in settings.env if name not in here}
    loaded = load(path, dict(settings.variables), environment=here)
    unset = [d for d in loaded.diagnostics if d.message.startswith(NOT_SET) and d.message not in there]
    wrong = [d for d in loaded.diagnostics if d.severity == "error"]
    if wrong or unset:
        hint = f"ingest check {path} says all that is wrong" if wrong else "give it in kubernetes.yaml: variables, env"
        raise PipelineFileError(render_all([replace(d, severity="error") for d in wrong or unset]), hint)
    names_functions = loaded.pipeline is None or loaded.pipeline.pipeline.functions
    modules = sorted(path.parent.glob("*.py")) if names_functions else []
    return {one.name: one.read_text(encoding="utf-8") for one in (path, *modules)}


def _written(*parts: dict[str, object]) -> str:
    text = io.StringIO()
    write_documents(parts, text)
    return _HEAD + text.getvalue()
