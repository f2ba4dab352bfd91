"""A real KDC with the users of the tests."""

from __future__ import annotations

import os
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

REALM = "INGEST.TEST"
_KRB5 = """\
[libdefaults]
default_realm = {realm}
dns_lookup_kdc = false
dns_canonicalize_hostname = false
rdns = false
udp_preference_limit = 1
[realms]
{realm} = {{
  kdc = 127.0.0.1:{port}
}}
"""
_KDC = """\
[kdcdefaults]
kdc_ports = {port}
kdc_tcp_ports = {port}
[realms]
{realm} = {{
  database_name = {folder}/principal
  key_stash_file = {folder}/stash
  max_life = 1h
}}
"""
USERS = ("kafka/127.0.0.1", "ingest", "other", "user", "username")
"""The broker, those of the tests, and those of docs/from-sql.md."""


@dataclass
class Kdc:
    """A KDC, and where keytabs are: the one of a user has its name."""

    folder: Path
    realm: str = REALM

    @property
    def krb5(self) -> Path:
        """The configuration of Kerberos."""
        return self.folder / "krb5.conf"

    def keytab(self, user: str) -> Path:
        """The keytab of a user."""
        return self.folder / f"{user.partition('/')[0]}.keytab"

    def listener(self, name: str) -> str:
        """Lines of a broker's properties for a listener of this name that takes tickets."""
        return (
            f"listener.name.{name}.sasl.enabled.mechanisms=GSSAPI\n"
            f"listener.name.{name}.sasl.kerberos.service.name=kafka\n"
            f"listener.name.{name}.gssapi.sasl.jaas.config=com.sun.security.auth.module.Krb5LoginModule required "
            f'useKeyTab=true storeKey=true keyTab="{self.keytab("kafka")}" principal="kafka/127.0.0.1@{self.realm}";\n'
        )


@contextmanager
def running(folder: Path) -> Iterator[Kdc]:
    """A KDC; this process and what it starts know it by their environment."""
    port = free_port()
    (folder / "krb5.conf").write_text(_KRB5.format(realm=REALM, port=port))
    (folder / "kdc.conf").write_text(_KDC.format(realm=REALM, port=port, folder=folder))
    environment = {
        "KRB5_CONFIG": str(folder / "krb5.conf"), "KRB5_KDC_PROFILE": str(folder / "kdc.conf"),
        "KRB5CCNAME": f"FILE:{folder}/cache", "JAVA_TOOL_OPTIONS": f"-Djava.security.krb5.conf={folder}/krb5.conf",
    }  # fmt: skip
    os.environ.update(environment)

    def admin(*command: str) -> None:
        subprocess.run(command, check=True, capture_output=True)

    made = Kdc(folder)
    admin("/usr/sbin/kdb5_util", "create", "-s", "-r", REALM, "-P", "master")
    for name in USERS:
        admin("/usr/sbin/kadmin.local", "-r", REALM, "addprinc", "-randkey", name)
        admin("/usr/sbin/kadmin.local", "-r", REALM, "ktadd", "-k", str(made.keytab(name)), name)
    process = subprocess.Popen(["/usr/sbin/krb5kdc", "-n", "-r", REALM])
    yield made
    process.terminate()
    process.wait()
    for name in environment:
        del os.environ[name]
