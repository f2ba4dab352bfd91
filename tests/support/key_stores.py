"""Java's key stores for tests, made by Java's own keytool from the certificates of a sandbox or of an authority."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, load_pem_private_key, pkcs12

from ingest.paths import java

PASSWORD: Final = "of-the-store"  # noqa: S105  (of tests only)
KEY_PASSWORD: Final = "of-the-key"  # noqa: S105  (of tests only)


def keytool(*arguments: str) -> None:
    """Run Java's keytool."""
    command = [str(Path(java()).with_name("keytool")), *arguments, "-noprompt"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def trust_store(file: Path, kind: str, *certificates: bytes, legacy: bool = False) -> Path:
    """Make a store of trusted certificates, which are PEM texts of one each; return its file."""
    for number, pem in enumerate(certificates):
        source = file.with_name(f"{file.name}.{number}.crt")
        source.write_bytes(pem)
        keytool(
            *(["-J-Dkeystore.pkcs12.legacy"] if legacy else []), "-importcert", "-alias", f"authority-{number}",
            "-file", str(source), "-keystore", str(file), "-storetype", kind, "-storepass", PASSWORD,
        )  # fmt: skip
    return file


def key_store(file: Path, kind: str, key: bytes, chain: bytes, *, alias: str = "own", legacy: bool = False) -> Path:
    """Make a store of a private key and its certificates, or add them to it; return its file.

    The key of a JKS store has a password of its own.
    """
    first, *above = x509.load_pem_x509_certificates(chain)
    private = load_pem_private_key(key, None)
    assert isinstance(private, EllipticCurvePrivateKey)  # the sandbox's authority makes such ones
    made = file.with_name(f"{file.name}.{alias}.source")
    encryption = BestAvailableEncryption(PASSWORD.encode())
    made.write_bytes(pkcs12.serialize_key_and_certificates(alias.encode(), private, first, above, encryption))
    of_key = ["-destkeypass", KEY_PASSWORD] if kind == "JKS" else []
    keytool(
        *(["-J-Dkeystore.pkcs12.legacy"] if legacy else []), "-importkeystore", "-srckeystore", str(made),
        "-srcstoretype", "PKCS12", "-srcstorepass", PASSWORD, "-destkeystore", str(file), "-deststoretype", kind,
        "-deststorepass", PASSWORD, *of_key, "-srcalias", alias,
    )  # fmt: skip
    return file
