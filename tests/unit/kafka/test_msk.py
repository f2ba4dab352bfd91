"""Logins of Amazon MSK, without the cloud: tokens are signed here, and checked by their own rules."""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote, urlsplit

import confluent_kafka
import pytest
from driverparts import Hands

from ingest.errors import AccessError, ProgramMissing, Unavailable
from ingest.kafka import handle, msk
from ingest.kafka.diagnosis import usable
from ingest.kafka.properties import PropertyError, translate

if TYPE_CHECKING:
    from pathlib import Path

KEY, SECRET = "AKIDEXAMPLE", "of-the-tests"
SERVERS = "b-1.shop.a1b2c3.c2.kafka.eu-central-1.amazonaws.com:9098"
LOGIN = {"bootstrap.servers": SERVERS, "security.protocol": "SASL_SSL", "sasl.mechanism": "AWS_MSK_IAM"}
CHINA = "s.x.c3.kafka.cn-north-1.amazonaws.com.cn"
QUIET = {"log_level": 0, "group.id": "g"}


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Credentials in the environment, and nowhere else."""
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_DEFAULT_REGION", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setattr(msk, "_tokens", {})


def signature(query: dict[str, str], secret: str, region: str) -> str:
    """The signature of a URL by AWS's Signature Version 4, written down once more."""
    signed = {name: value for name, value in query.items() if name not in {"X-Amz-Signature", "User-Agent"}}
    canonical = "&".join(f"{quote(name, safe='-_.~')}={quote(signed[name], safe='-_.~')}" for name in sorted(signed))
    nothing = hashlib.sha256(b"").hexdigest()
    request = f"GET\n/\n{canonical}\nhost:kafka.{region}.amazonaws.com\n\nhost\n{nothing}"
    moment = query["X-Amz-Date"]
    scope = f"{moment[:8]}/{region}/kafka-cluster/aws4_request"
    text = f"AWS4-HMAC-SHA256\n{moment}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
    key = f"AWS4{secret}".encode()
    for part in (moment[:8], region, "kafka-cluster", "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def checked(token: msk.LoginToken, region: str, key: str = KEY, secret: str = SECRET) -> None:
    """Check a token as the broker does: whose it is, what for, and for how long."""
    url = urlsplit(base64.urlsafe_b64decode(token.text + "=" * (-len(token.text) % 4)).decode())
    query = dict(parse_qsl(url.query))
    assert (url.scheme, url.hostname) == ("https", f"kafka.{region}.amazonaws.com")
    assert (query["Action"], query["X-Amz-Expires"]) == ("kafka-cluster:Connect", "900")
    assert query["X-Amz-Credential"] == f"{key}/{query['X-Amz-Date'][:8]}/{region}/kafka-cluster/aws4_request"
    assert query["X-Amz-Signature"] == signature(query, secret, region)
    assert 880 < token.until_ms / 1000 - time.time() <= 900
    assert secret not in url.query


@pytest.mark.parametrize(
    ("servers", "more", "region"),
    [
        (SERVERS, {}, "eu-central-1"),
        ("boot-x.c1.kafka-serverless.us-east-1.amazonaws.com:9098", {}, "us-east-1"),
        (f"b-1.{CHINA}:9098,b-2.{CHINA}", {}, "cn-north-1"),
        ("b-1.s.x.c3.kafka.us-gov-west-1.amazonaws.com:9098", {}, "us-gov-west-1"),
        ("kafka.of.ours:9098", {"aws.region": "eu-west-2"}, "eu-west-2"),
        (SERVERS, {"aws.region": "eu-west-2"}, "eu-west-2"),
    ],
)  # fmt: skip
def test_the_region_is_that_of_the_option_or_of_the_brokers_name(
    servers: str, more: dict[str, str], region: str
) -> None:
    conf = translate({**LOGIN, "bootstrap.servers": servers, **more})
    assert (conf["sasl.mechanism"], conf["aws.region"]) == ("OAUTHBEARER", region)
    login = msk.Login.of(conf)
    assert login is not None
    checked(login.token(), region)


def test_a_profile_is_named_as_in_java(tmp_path: Path) -> None:
    (tmp_path / "credentials").write_text("[shop]\naws_access_key_id = AKIDSHOP\naws_secret_access_key = shop-secret\n")
    jaas = 'software.amazon.msk.auth.iam.IAMLoginModule required awsProfileName="shop" awsDebugCreds=true;'
    java = {"sasl.client.callback.handler.class": "software.amazon.msk.auth.iam.IAMClientCallbackHandler"}
    conf = translate({**LOGIN, "sasl.jaas.config": jaas, **java})
    login = msk.Login.of(conf)
    assert login == msk.Login("eu-central-1", "shop")
    checked(login.token(), "eu-central-1", "AKIDSHOP", "shop-secret")
    with pytest.raises(AccessError, match="other"):
        msk.Login("eu-central-1", "other").token()
    role = translate({**LOGIN, "aws.role.arn": "arn:aws:iam::1:role/r", "aws.role.session.name": "s"})
    assert msk.Login.of(role) == msk.Login("eu-central-1", None, "arn:aws:iam::1:role/r", "s")


def test_a_role_is_asked_for_in_the_region(monkeypatch: pytest.MonkeyPatch) -> None:
    from botocore.exceptions import EndpointConnectionError

    asked = []

    def role(region: str, arn: str, session: str) -> tuple[str, int]:
        asked.append((region, arn, session))
        if len(asked) == 1:
            raise EndpointConnectionError(endpoint_url="https://sts")
        return "token", 1

    monkeypatch.setattr("aws_msk_iam_sasl_signer.MSKAuthTokenProvider.generate_auth_token_from_role_arn", role)
    login = msk.Login("eu-west-1", None, "arn", "s")
    with pytest.raises(Unavailable, match="AWS does not answer"):
        login.token()
    assert login.token().text == "token"
    assert asked == [("eu-west-1", "arn", "s")] * 2


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"bootstrap.servers": "kafka:9098"}, "the servers' names do not tell the region; write properties.aws.region"),
        ({"security.protocol": "SASL_PLAINTEXT"}, "needs security.protocol: SASL_SSL"),
        ({"aws.region": "Frankfurt"}, "a region is written as eu-central-1"),
        ({"sasl.mechanism": "PLAIN", "aws.profile": "p"}, "aws.profile has an effect with sasl.mechanism: AWS_MSK_IAM"),
    ],
)
def test_what_cannot_be_is_said_by_check(more: dict[str, str], said: str) -> None:
    with pytest.raises(PropertyError, match=said):
        translate({**LOGIN, **more})


def test_what_is_filled_in_later_is_no_error() -> None:
    later = {"bootstrap.servers": "${servers}"}
    assert translate({**LOGIN, **later})["sasl.mechanism"] == "OAUTHBEARER"
    assert translate({**LOGIN, "aws.region": "${region}"})["aws.region"] == "${region}"


def test_credentials_and_packages_that_are_missing_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    conf = translate(LOGIN)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    monkeypatch.setattr("ingest.packages.find_spec", lambda _: None)
    with pytest.raises(ProgramMissing) as missing:
        usable(conf)
    assert "pip install 'ingest[aws]'" in missing.value.hint
    monkeypatch.undo()
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setattr("aws_msk_iam_sasl_signer.MSKAuthTokenProvider.__load_default_credentials__", lambda: None)
    with pytest.raises(AccessError, match="there are no credentials of AWS"):
        usable(conf)


def test_clients_of_confluent_call_for_tokens() -> None:
    conf = msk.with_login({**translate(LOGIN), **QUIET})
    assert not {name for name in conf if name.startswith("aws.")}
    text, until = conf["oauth_cb"]("")
    checked(msk.LoginToken(text, int(until * 1000)), "eu-central-1")
    confluent_kafka.Consumer({**conf, "bootstrap.servers": "127.0.0.1:1"}).close()
    plain = {"bootstrap.servers": "memory:1"}
    assert msk.with_login(plain) == plain


@pytest.mark.compiled
@pytest.mark.parametrize("make", [handle.make_consumer, handle.make_producer])
def test_native_clients_have_a_token_at_once_and_later_ones(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    hands = Hands()
    keeper = msk.Keeper()
    monkeypatch.setattr(msk, "keeper", lambda: keeper)
    monkeypatch.setattr(keeper, "_run", lambda: None)
    signed: list[msk.LoginToken] = []

    def sign(_login: msk.Login) -> msk.LoginToken:
        signed.append(msk.LoginToken(f"token-{len(signed)}", int(1000 * (time.time() + 900 - hands.at + 1000))))
        return signed[-1]

    monkeypatch.setattr(msk.Login, "_signed", sign)
    quiet = QUIET if make is handle.make_consumer else {"log_level": 0}
    client = make({**translate(LOGIN), "bootstrap.servers": "127.0.0.1:1", **quiet})
    assert len(signed) == 1
    keeper.look()
    assert len(signed) == 1, "it is good for some time"
    monkeypatch.setattr(msk.LoginToken, "is_fresh", property(lambda token: token is signed[-1] and len(signed) > 1))
    keeper.look()
    assert [token.text for token in signed] == ["token-0", "token-1"]
    assert [token for _, token in keeper._kept.values()] == [signed[1]]
    assert client.close(5.0)
    monkeypatch.setattr(msk.LoginToken, "is_fresh", False)
    keeper.look()
    assert len(keeper._kept) == 0, "a closed client needs none"


@pytest.mark.compiled
def test_a_client_of_another_mechanism_takes_no_token() -> None:
    client: Any = handle.make_consumer({"bootstrap.servers": "127.0.0.1:1", **QUIET})
    with pytest.raises(confluent_kafka.KafkaException):
        client.log_in("token", int(1000 * (time.time() + 900)))
    client.close(5.0)
