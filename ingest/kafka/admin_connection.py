"""The connection of an admin client: how it begins, and what its errors mean."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from ingest.errors import AccessError, ConfigError, IngestError, Unavailable
from ingest.kafka.client import usable
from ingest.kafka.failures import explain as explained
from ingest.kafka.failures import is_away, refuse
from ingest.kafka.local_error import LocalError
from ingest.kafka.msk import with_login
from ingest.kafka.probe import refuse_advertised, wrong_address
from ingest.kafka.properties import BOOTSTRAP, shared
from ingest.kafka.tls import own_certificate, why_untrusted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from concurrent.futures import Future

REQUEST_S: Final = 10.0
"""Longest time of a request, in seconds."""
PATIENCE_S: Final = 4.0
"""Longest time of one try to connect, in seconds."""
_T = TypeVar("_T")


class AdminConnection:
    """Connection to a cluster, and the admin client that asks it."""

    def __init__(self, conf: Mapping[str, str]) -> None:
        """Keep the configuration; connect to nothing yet.

        `conf` has properties of librdkafka. The admin client uses only those that every kind of client knows.
        """
        self.conf = dict(conf)
        self.servers = conf[BOOTSTRAP]
        self.last_error: KafkaError | None = None
        self._shared = {
            "socket.connection.setup.timeout.ms": "10000",
            **shared(conf),
            "log_level": 0,
            "error_cb": self.note,
        }
        self._client: AdminClient | None = None

    @property
    def client(self) -> AdminClient:
        """Return the admin client.

        After a failure it is a new client: the old one may still use an outdated epoch of a leader.
        """
        if self._client is None:
            try:
                self._client = AdminClient(with_login(self._shared))
            except (KafkaException, ValueError, TypeError) as exc:
                raise refuse(exc, "the connection", self.servers) from exc
        return self._client

    def note(self, error: KafkaError) -> None:
        """Keep an error of the connection: it says more than a time that ran out."""
        if error.code() != LocalError.ALL_BROKERS_DOWN or self.last_error is None:
            self.last_error = error

    def explain(self, exc: Exception | KafkaError, what: str) -> IngestError:
        """Return the error of a failed request, which wanted to do `what`."""
        if self._client is not None:
            self._client.poll(0)  # deliver the connection's own errors, which wait in the client
        if isinstance(exc, (KafkaException, KafkaError)):
            if is_away(exc):
                self._client = None
            # "timed out" tells less than the error that the connection reported meanwhile
            better, self.last_error = self.last_error, None
            if better is not None and is_away(exc):
                return self._closer(explained(better, what, self.servers), better)
            return explained(exc, what, self.servers)
        self._client = None
        return Unavailable(
            f"cannot {what}: no answer from the broker at {self.servers} in time: {exc}", "run again later"
        )

    def _closer(self, error: IngestError, cause: KafkaError) -> IngestError:
        """Return the error with details about the certificates, where a look at them gives any."""
        if isinstance(error, AccessError):
            about_broker = "is not trusted" in error.message
            more = why_untrusted(self.servers, self.conf) if about_broker else ""
            if "certificate" in cause.str() and not about_broker:
                more = own_certificate(self.conf)
            if more:
                hint = "use a name that the certificate is for" if "mismatch" in more else error.hint
                return AccessError(f"{error.message} ({more})", hint)
        return error

    def get(self, future: Future[_T], what: str) -> _T:
        """Return the result of a request, which wants to do `what`. Raise IngestError."""
        try:
            return future.result(REQUEST_S + 2)
        except (KafkaException, TimeoutError) as exc:
            raise self.explain(exc, what) from exc

    def connect(self, within_s: float, tell: Callable[[str], None] | None = None) -> str:
        """Return the cluster's id, once the cluster answers.

        Raise Unavailable after `within_s` seconds. Raise errors that another try cannot fix: AccessError, and
        ConfigError for an address at which nothing can answer. `tell` is called with a message for people when
        there is no answer yet, and with another one when there is.
        """
        usable(self.conf)
        deadline = time.monotonic() + within_s
        patience = 1.0  # in seconds; short at first, so that a refused login shows soon
        suspect: ConfigError | None = None
        told = False
        while True:
            try:
                metadata = self.client.list_topics(timeout=min(patience, max(0.1, deadline - time.monotonic())))
            except KafkaException as exc:
                error = self.explain(exc, "connect")
                left = deadline - time.monotonic()
                final = left <= 0 or not isinstance(error, Unavailable)
                if tell is not None and not told and not final:
                    until = time.strftime("%H:%M:%S UTC", time.gmtime(time.time() + left))
                    tell(f"{error.message.partition(': ')[2]}; trying until {until}")
                before = suspect
                suspect = wrong_address(self.conf, "connect") if final or not told or before is not None else None
                if suspect is not None and (final or before is not None):  # a stopping broker looks the same briefly
                    raise suspect from exc
                if final:
                    raise error from exc
                told = True
                patience = min(2 * patience, PATIENCE_S)
                time.sleep(0.2)
            else:
                brokers = [(str(broker.host), broker.port) for broker in metadata.brokers.values()]
                refuse_advertised(brokers, self.servers)
                if told and tell is not None:
                    tell(f"the broker at {self.servers} answers again")
                return str(metadata.cluster_id)
