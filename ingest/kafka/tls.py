"""Explanation of a failed TLS connection, with more detail than librdkafka gives. It is used only after a failure."""

from __future__ import annotations

import datetime as dt
import socket
import ssl
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

TRY_S: Final = 3.0


def why_untrusted(servers: str, conf: Mapping[str, str]) -> str:
    """Return what is wrong with the certificate of the first server that answers; an empty text where nothing is found.

    Connects to the servers, each for at most TRY_S seconds.
    """
    context = ssl.create_default_context()
    context.check_hostname = conf.get("ssl.endpoint.identification.algorithm", "https") != "none"
    try:
        if "ssl.ca.pem" in conf:
            context.load_verify_locations(cadata=conf["ssl.ca.pem"])
        elif "ssl.ca.location" in conf:
            place = Path(conf["ssl.ca.location"])
            context.load_verify_locations(**({"capath": str(place)} if place.is_dir() else {"cafile": str(place)}))
    except (OSError, ssl.SSLError, ValueError):
        return ""
    for server in servers.split(","):
        host, _, port = server.strip().rpartition(":")
        try:
            with (
                socket.create_connection((host.strip("[]"), int(port)), TRY_S) as plain,
                context.wrap_socket(plain, server_hostname=host.strip("[]")),
            ):
                return ""
        except ssl.SSLCertVerificationError as exc:
            return exc.verify_message
        except (OSError, ValueError):
            continue
    return ""


def own_certificate(conf: Mapping[str, str]) -> str:
    """Return what is wrong with the client's own certificate; an empty text where its file shows no problem."""
    from cryptography import x509  # noqa: PLC0415  (only after a failure)

    try:
        pem = conf.get("ssl.certificate.pem", "").encode()
        if not pem:
            if "ssl.certificate.location" not in conf:
                return "the pipeline file gives none"
            pem = Path(conf["ssl.certificate.location"]).read_bytes()
        until = x509.load_pem_x509_certificate(pem).not_valid_after_utc
    except (OSError, ValueError):
        return ""
    return f"it expired on {until:%Y-%m-%d}" if until < dt.datetime.now(dt.UTC) else ""
