"""The command of a rendered pod, with its user, its mounts and a root that is only read; without a container engine.

A namespace of mounts stands for the container: programs of this machine are bound into an empty root, read-only, and
volumes of the manifest where it mounts them.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from commands import called
from harness import debezium, free_port
from ruamel.yaml import YAML

from ingest.paths import java as launcher

if TYPE_CHECKING:
    from collections.abc import Iterator

HOME = "/home/ingest"
ROOT = Path(__file__).parents[3]
KUBERNETES = f"""\
port: {free_port()}
env: {{JDK_JAVA_OPTIONS: -XX:TieredStopAtLevel=1}}
volumes:
  data: {{mount: /data, source: {{persistentVolumeClaim: {{claimName: data}}}}, read-only: false}}
pipelines:
  orders: {{schedule: 0 3 * * *}}
"""
PIPELINE = """\
source: {type: file, path: /data/in.jsonl}
sink: {type: delta, warehouse: /data/lake}
transform: [{source-table: shop.orders, projection: '\\*, v + 1 AS w', primary-keys: id}]
"""


def namespace() -> list[str]:
    """A command that starts another one in a namespace of mounts, as root of it."""
    for command in (["unshare", "-m"], ["unshare", "-Urm"], ["sudo", "-n", "unshare", "-m"]):
        if subprocess.run([*command, "true"], capture_output=True, check=False).returncode == 0:
            return command
    raise AssertionError("no namespace of mounts can be made: run as root, or allow user namespaces")


def bound(place: str, new: Path) -> list[str]:
    """Lines that bind a place of this machine into the new root, where it is only read."""
    at = shlex.quote(f"{new}{place}")
    lines = [f"mkdir -p {at}", f"mount --rbind {shlex.quote(place)} {at}"]
    return lines if place in {"/proc", "/dev", "/sys"} else [*lines, f"mount -o remount,bind,ro {at}"]


def script(pod: dict[str, Any], new: Path, volumes: dict[str, Path]) -> str:
    """Lines of a shell that make the root of a pod's container, and run its command there."""
    (container,) = pod["containers"]
    q = shlex.quote
    programs = {"/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/proc", "/dev", "/sys", sys.base_prefix, sys.prefix}
    programs |= {str(ROOT), str(Path(launcher()).resolve().parents[1])}
    lines = ["set -eu", "mount --make-rprivate /", f"mount -t tmpfs none {q(str(new))}"]
    volumes_at = tuple(f"{mount['mountPath']}/" for mount in container["volumeMounts"])
    within = sorted(path for path in programs if path.startswith(volumes_at))  # a clone below /tmp, say
    for place in sorted(path for path in programs.difference(within) if Path(path).exists()):
        lines += bound(place, new)
    for mount in container["volumeMounts"]:
        at, source = q(f"{new}{mount['mountPath']}"), volumes.get(mount["name"])
        lines.append(f"mkdir -p {at}")
        lines.append(f"mount -t tmpfs none {at}" if source is None else f"mount --bind {q(str(source))} {at}")
        lines += [f"chmod 1777 {at}"] if source is None else []
        lines += [f"mount -o remount,bind,ro {at}"] if mount.get("readOnly") else []
    for place in within:
        lines += bound(place, new)
    user = pod["securityContext"]
    passwd = new.with_name("passwd")  # as the image has it
    passwd.write_text(f"{Path('/etc/passwd').read_text()}ingest:x:{user['runAsUser']}:{user['runAsGroup']}::{HOME}:\n")
    lines += [f"mount --bind {q(str(passwd))} {q(f'{new}/etc/passwd')}", f"mkdir -p {q(f'{new}{HOME}')}"]
    drop = "--no-new-privs --inh-caps=-all --bounding-set=-all"
    ids = f"--reuid={user['runAsUser']} --regid={user['runAsGroup']} --clear-groups" if os.getuid() == 0 else ""
    env = {one["name"]: str(one["value"]) for one in container["env"]}
    env |= {"PATH": f"{sys.prefix}/bin:{Path(launcher()).parent}:/usr/bin:/bin", "HOME": HOME}
    words = [*(f"{name}={value}" for name, value in env.items()), f"{sys.prefix}/bin/ingest", *container["args"]]
    command = f"chroot {q(str(new))} setpriv {ids} {drop} env -i {shlex.join(words)}"
    touch = f"chroot {q(str(new))} setpriv {ids} {drop} touch"
    written = f"for file in /x /etc/x {q(sys.prefix)}/x; do if {touch} $file 2> /dev/null; then exit 99; fi; done"
    return "\n".join([*lines, f"mount -o remount,ro {q(str(new))}", written, f"exec {command}"])


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that the pod's user can reach; pytest's own are closed to others."""
    made = Path(tempfile.mkdtemp(prefix="ingest-pod-"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


@pytest.mark.usefixtures("java")
def test_a_pod_needs_no_place_but_its_volumes(folder: Path) -> None:
    pipelines, volumes = folder / "pipelines", {name: folder / name for name in ("checkpoint", "pipeline", "data")}
    for path in (pipelines, folder / "root", *volumes.values()):
        path.mkdir()
    (pipelines / "orders.yaml").write_text(PIPELINE)
    (pipelines / "kubernetes.yaml").write_text(KUBERNETES)
    (volumes["data"] / "in.jsonl").write_bytes(debezium("c", None, {"id": 1, "v": 1}) + b"\n")
    assert called("render", "k8s", str(pipelines), "--out", str(folder / "k8s")).code == 0
    documents = [*YAML(typ="safe").load_all((folder / "k8s" / "orders.yaml").read_text())]
    files, job = (next(one for one in documents if one["kind"] == kind) for kind in ("ConfigMap", "CronJob"))
    pod = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    for name, text in files["data"].items():
        (volumes["pipeline"] / name).write_text(text)
    if os.getuid() == 0:
        for name in ("checkpoint", "data"):  # what fsGroup does
            os.chown(volumes[name], pod["securityContext"]["runAsUser"], pod["securityContext"]["fsGroup"])
    command = [*namespace(), "sh", "-c", script(pod, folder / "root", volumes)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, cwd="/")
    assert done.returncode == 0, done.stderr[-3000:]
    assert "orders: 1 record in 1 batch" in done.stdout
    assert (volumes["data"] / "lake" / "shop" / "orders" / "_delta_log").is_dir()
    assert (volumes["checkpoint"] / "orders" / "checkpoint.json").is_file()
