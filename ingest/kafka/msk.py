"""Logins of Amazon MSK, `sasl.mechanism: AWS_MSK_IAM`: tokens by Amazon's own signer, for librdkafka's OAUTHBEARER.

A token is a URL that is signed on this machine with the user's credentials, and lasts 15 minutes. Confluent's clients
call for one when they need it. Native ones call nobody: a thread of this process renews theirs, also while nobody works
with them. Rules: docs/spec/configuration.md#client-properties.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeVar

from ingest.errors import AccessError, IngestError, Unavailable
from ingest.kafka.properties import AWS, REGION
from ingest.packages import require

_Client = TypeVar("_Client")
RENEW_S: Final = 600.0
"""A token that lasts no longer than this, in seconds, is not given to a client: signed ones last for 900."""
LOOK_S: Final = 30.0
"""The time between two looks at the tokens of native clients, in seconds."""
_CREDENTIALS: Final = (
    "see the credentials of AWS where the run and its workers are: variables, profile, role of the pod or the machine"
)


class LoginToken(NamedTuple):
    """A login token of a client, with the time when it expires."""

    text: str
    until_ms: int
    """When it ends, in milliseconds since 1970."""

    @property
    def is_fresh(self) -> bool:
        """True if the token lasts long enough to be given to a client."""
        return self.until_ms / 1000 - time.time() > RENEW_S


class Login(NamedTuple):
    """The AWS identity and region that tokens are made for."""

    region: str
    profile: str | None = None
    role: str | None = None
    session: str | None = None

    @classmethod
    def of(cls, conf: Mapping[str, Any]) -> Login | None:
        """Return the login of a client's configuration; None where it is of another kind."""
        return None if REGION not in conf else cls(*(conf.get(name) for name in AWS))  # type: ignore[arg-type]  # a text

    def token(self) -> LoginToken:
        """Return a token, which may have been given to other clients before. Raise IngestError."""
        with _lock:
            kept = _tokens.get(self)
            if kept is None or not kept.is_fresh:
                kept = _tokens[self] = self._signed()
            return kept

    def _signed(self) -> LoginToken:
        require("aws")
        from aws_msk_iam_sasl_signer import MSKAuthTokenProvider as signer  # noqa: PLC0415, N813  (optional, a module)
        from botocore import exceptions as aws  # noqa: PLC0415  (likewise)

        try:
            if self.role is not None:
                os.environ.setdefault("AWS_DEFAULT_REGION", self.region)  # that of the service which gives roles
                name = self.session or signer.DEFAULT_STS_SESSION_NAME
                return LoginToken(*signer.generate_auth_token_from_role_arn(self.region, self.role, name))
            if self.profile is not None:
                return LoginToken(*signer.generate_auth_token_from_profile(self.region, self.profile))
            return LoginToken(*signer.generate_auth_token(self.region))
        except (aws.HTTPClientError, aws.ConnectionError) as exc:
            msg = f"cannot log in with AWS_MSK_IAM: AWS does not answer: {exc}"
            raise Unavailable(msg, "see whether this machine reaches it") from exc
        except (aws.BotoCoreError, aws.ClientError) as exc:
            raise AccessError(f"cannot log in with AWS_MSK_IAM: {exc}", _CREDENTIALS) from exc
        except (AttributeError, ValueError) as exc:  # what the signer makes of credentials that are not there
            raise AccessError("cannot log in with AWS_MSK_IAM: there are no credentials of AWS", _CREDENTIALS) from exc


_lock = threading.Lock()
_tokens: dict[Login, LoginToken] = {}


def plain(conf: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration as librdkafka takes it, without a login of this kind."""
    return {name: value for name, value in conf.items() if name not in AWS}


def with_login(conf: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration for a client of confluent-kafka's, which calls for tokens."""
    login = Login.of(conf)
    if login is None:
        return dict(conf)

    def call(_config: str) -> tuple[str, float]:
        token = login.token()
        return token.text, token.until_ms / 1000

    return {**plain(conf), "oauth_cb": call}


def made(make: Callable[[Mapping[str, Any]], _Client], conf: Mapping[str, Any]) -> _Client:
    """Return a native client, logged in where its configuration says so, and from then on. Raise IngestError."""
    login = Login.of(conf)
    if login is None:
        return make(conf)
    token = login.token()
    client: Any = make(plain(conf))
    client.log_in(*token)
    keeper().keep(client, login, token)
    out: _Client = client
    return out


class Keeper:
    """Renews the login tokens of native clients until these are closed."""

    def __init__(self) -> None:
        self._kept: weakref.WeakKeyDictionary[Any, tuple[Login, LoginToken]] = weakref.WeakKeyDictionary()
        self._changing = threading.Lock()
        self._thread: threading.Thread | None = None

    def keep(self, client: object, login: Login, token: LoginToken) -> None:
        """Renew the token of a client from now on."""
        with self._changing:
            self._kept[client] = login, token
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, daemon=True)
                self._thread.start()

    def look(self) -> None:
        """Give new tokens to the clients whose own are no longer fresh. What fails is tried at the next look."""
        with self._changing:
            kept = [*self._kept.items()]
        for client, (login, token) in kept:
            if token.is_fresh:
                continue
            try:
                new = login.token()
                client.log_in(*new)
            except IngestError:
                continue  # the token is good for some minutes more; then the broker says what is wrong
            except RuntimeError:  # it is closed
                with self._changing:
                    self._kept.pop(client, None)
                continue
            with self._changing:
                self._kept[client] = login, new

    def _run(self) -> None:
        while True:
            time.sleep(LOOK_S)
            self.look()


_keepers: dict[int, Keeper] = {}


def keeper() -> Keeper:
    """Return this process's keeper: threads do not survive a fork."""
    return _keepers.setdefault(os.getpid(), Keeper())
