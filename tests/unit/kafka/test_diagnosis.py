"""What is said of addresses at which no broker answers."""

from __future__ import annotations

import socket
import socketserver
import threading
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import KafkaError, KafkaException
from harness import free_port, time_with

from ingest.errors import ConfigError, Unavailable
from ingest.kafka import admin, diagnosis
from ingest.kafka.admin import Cluster
from ingest.kafka.diagnosis import addresses, refuse_advertised, wrong_address

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def silent() -> Iterator[str]:
    """An address that takes connections and says nothing: a broker that hangs, a firewall, a proxy."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield f"127.0.0.1:{listening.getsockname()[1]}"


@pytest.fixture
def ssh() -> Iterator[str]:
    """An address at which something else than Kafka answers."""

    class Greeting(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")
            self.request.recv(100)

    with socketserver.TCPServer(("127.0.0.1", 0), Greeting) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def test_addresses() -> None:
    assert addresses("a:1, [::1]:2,PLAINTEXT://b:3,c") == [("a", 1), ("::1", 2), ("b", 3), ("c", 9092)]


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tries after the first that last a third of a second, not up to two."""
    monkeypatch.setattr(admin, "PATIENCE_S", 0.3)


def test_a_name_that_does_not_resolve_is_no_broker_that_is_away(impatient: None) -> None:
    with pytest.raises(ConfigError) as caught:
        Cluster({"bootstrap.servers": "no-such-host.invalid:9092"}).connect(20)
    assert caught.value.exit_code == 78
    assert "properties.bootstrap.servers names a host that does not resolve: 'no-such-host.invalid'" in str(
        caught.value
    )


def test_one_name_of_several_that_resolves_is_enough() -> None:
    nobody = f"127.0.0.1:{free_port()}"
    with pytest.raises(Unavailable):
        Cluster({"bootstrap.servers": f"no-such-host.invalid:9092,{nobody}"}).connect(1.5)


def test_a_name_that_the_brokers_give_and_nobody_knows() -> None:
    with pytest.raises(ConfigError, match=r"says that it is at no-such-host\.invalid:9092.*advertised\.listeners"):
        refuse_advertised([("no-such-host.invalid", 9092)], "127.0.0.1:29092")
    refuse_advertised([("no-such-host.invalid", 9092), ("127.0.0.1", 1)], "127.0.0.2:29092")
    refuse_advertised([], "127.0.0.1:29092")


@pytest.mark.parametrize("protocol", ["plaintext", "sasl_ssl"])
def test_who_does_not_answer_may_answer_later(silent: str, protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnosis, "TRY_S", 0.2)
    conf = {"security.protocol": protocol}
    assert wrong_address({"bootstrap.servers": silent, **conf}, "connect") is None
    assert wrong_address({"bootstrap.servers": f"127.0.0.1:{free_port()}", **conf}, "connect") is None


def test_something_else_than_kafka_says_so(ssh: str) -> None:
    wrong = wrong_address({"bootstrap.servers": ssh}, "connect")
    assert wrong is not None
    assert f"what answers at {ssh} does not speak Kafka's protocol" in wrong.message


def test_a_broker_that_answers_again_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def answers(*_: object, tries: list[int], **__: object) -> object:
        tries.append(1)
        if len(tries) < 3:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        return SimpleNamespace(brokers={}, cluster_id="x")

    monkeypatch.setattr(admin, "time", time_with(sleep=lambda _: None))
    monkeypatch.setattr(admin, "wrong_address", lambda *_: None)
    for failures, wanted in ((2, ["no answer from", "the broker at here:1 answers again"]), (0, [])):
        said: list[str] = []
        link = admin.AdminConnection({"bootstrap.servers": "here:1"})
        client = SimpleNamespace(list_topics=partial(answers, tries=[1] * (2 - failures)), poll=lambda _: None)
        monkeypatch.setattr(admin, "AdminClient", lambda _, client=client: client)
        assert link.connect(10, said.append) == "x"
        assert len(said) == len(wanted)
        assert all(text.startswith(begin) for text, begin in zip(said, wanted, strict=True))


def test_a_broker_that_is_away_is_said_early_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    nobody = f"127.0.0.1:{free_port()}"
    pauses: list[float] = []
    monkeypatch.setattr(admin, "time", time_with(sleep=pauses.append))
    said: list[tuple[int, str]] = []
    with pytest.raises(Unavailable):
        Cluster({"bootstrap.servers": nobody}).connect(2, lambda text: said.append((len(pauses), text)))
    ((asked_before, text),) = said
    assert pauses
    assert asked_before == 0, "it is said after the first question"
    assert text.startswith(f"no answer from the broker at {nobody}: ")
    assert "; trying until " in text
