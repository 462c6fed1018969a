"""AWS's SDK's clients, made so that what the program says decides where requests go and who pays."""

from __future__ import annotations

import logging
import re
import threading
from typing import Any
from weakref import WeakSet

from runwell.errors import InvalidConfig, MissingApiKey
from runwell.providers.bedrock.severing import let_calls_be_severed
from runwell.providers.clients import Clients

__all__ = ["BedrockClients", "Secrets"]

CONNECTIONS = 100
"""Connections that are kept open for the next call; more are made when needed."""


class BedrockClients(Clients):
    """Clients of `botocore`, which is what `boto3` runs on. They block: async calls use them from worker threads."""

    __slots__ = ("_making", "_timed")

    def _start(self) -> None:
        super()._start()
        self._making = threading.Lock()
        self._timed: dict[Any, Any] = {}

    def make(self, model: Any) -> Any:
        return model.http_client or _made(model, model.timeout)

    def make_async(self, model: Any) -> Any:
        return self.plain(model)

    async def close_async(self, client: Any) -> None:
        """It is the plain one, which is closed with the model."""

    def timed(self, model: Any, timeout: Any) -> Any:
        """The client for a call that has a timeout of its own, which is a setting of clients here."""
        if timeout == model.timeout or model.http_client is not None:
            return self.plain(model)
        with self._making:
            if timeout not in self._timed:
                if len(self._timed) >= 8:
                    self._timed.pop(next(iter(self._timed)))
                self._timed[timeout] = _made(model, timeout)
            return self._timed[timeout]


def _made(model: Any, timeout: Any) -> Any:
    """A client; InvalidConfig for an account or a region that AWS's SDK cannot make one of."""
    from botocore.exceptions import BotoCoreError

    try:
        return _client(model, timeout)
    except BotoCoreError as error:
        hint = "Profiles stand in ~/.aws/config and ~/.aws/credentials; a region looks like eu-central-1."
        raise InvalidConfig(f"AWS's SDK has no client for {type(model).__name__}: {error}.", hint=hint) from None


def _client(model: Any, timeout: Any) -> Any:
    from botocore import UNSIGNED
    from botocore.config import Config
    from botocore.session import Session

    secrets = model._hidden
    _keep_out_of_logs(secrets)
    key, token = secrets.api_key, secrets.session_token
    connect_s, read_s = model._seconds(timeout)
    config = Config(
        retries={"total_max_attempts": 1, "mode": "standard"},
        connect_timeout=connect_s,
        read_timeout=read_s,
        max_pool_connections=CONNECTIONS,
        tcp_keepalive=True,
        # said in code, so that no variable changes who pays
        signature_version=UNSIGNED if key else "v4",
    )
    if model.config is not None:
        config = model.config.merge(config)
    inner = Session(profile=model.credentials_profile_name)
    _share_descriptions(inner)
    given: dict[str, Any] = {}
    if secrets.secret_key:
        given = {
            "aws_access_key_id": model.aws_access_key_id,
            "aws_secret_access_key": secrets.secret_key,
            "aws_session_token": token,
        }
    elif not key and inner.get_credentials() is None:
        raise MissingApiKey(
            f"{type(model).__name__} has no AWS credentials.",
            hint="Pass aws_access_key_id= and aws_secret_access_key=, api_key= (a Bedrock API key), or "
            "credentials_profile_name=; or set up AWS's chain: environment, files, role.",
        )
    client = inner.create_client(
        "bedrock-runtime", region_name=model.region_name, endpoint_url=model.base_url, config=config, **given
    )
    let_calls_be_severed(client)
    if model.default_headers:
        client.meta.events.register("before-sign.bedrock-runtime.*", _Adds(model.default_headers))
    if key:  # last, after the SDK has written the request to its log
        client.meta.events.register("before-send.bedrock-runtime.*", _Adds({"Authorization": f"Bearer {key}"}))
    return client


class _Adds:
    """Adds headers to each request."""

    def __init__(self, headers: dict[str, str]) -> None:
        self._headers = dict(headers)

    def __call__(self, request: Any, **_: Any) -> None:
        for name, value in self._headers.items():
            request.headers[name] = value


_descriptions: Any = None


def _share_descriptions(session: Any) -> None:
    """The SDK reads its description of the API from files, a fifth of a second of work: once in a process."""
    global _descriptions
    if _descriptions is None:
        _descriptions = session.get_component("data_loader")
    else:
        session.register_component("data_loader", _descriptions)


class Secrets:
    """What must be shown nowhere."""

    __slots__ = ("__weakref__", "api_key", "secret_key", "session_token")

    def __init__(self, api_key: str | None, secret_key: str | None, session_token: str | None) -> None:
        self.api_key = api_key
        self.secret_key = secret_key
        self.session_token = session_token

    def out_of(self, text: str) -> str:
        """The text without them."""
        for secret in (self.api_key, self.secret_key, self.session_token):
            if secret and secret in text:
                text = text.replace(secret, "**********")
        return text

    def __reduce__(self) -> Any:
        return Secrets, (self.api_key, self.secret_key, self.session_token)


_SENT = re.compile(r"""(x-amz-security-token['"]?\s*:\s*b?['"]?)[^'"\s,}]+""", re.I)


class _NoSecrets(logging.Filter):
    """The SDK logs requests with their headers where debugging is on: keys and tokens are taken out."""

    known: WeakSet[Secrets] = WeakSet()

    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        for secrets in list(self.known):
            text = secrets.out_of(text)
        text = _SENT.sub(r"\1**********", text)  # what AWS's chain gave, which nobody here knows
        record.msg, record.args = text, ()  # as it is now: a request gets its key later
        return True


_filter = _NoSecrets()
_LOGS = ("botocore.endpoint", "botocore.auth", "botocore.hooks", "botocore.parsers", "botocore.httpsession")


def _keep_out_of_logs(secrets: Secrets) -> None:
    _filter.known.add(secrets)
    for name in _LOGS:
        logging.getLogger(name).addFilter(_filter)  # which adds it once
