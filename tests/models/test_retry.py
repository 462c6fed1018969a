"""How long to wait, and what for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runwell.errors import ModelBadRequest, ModelOverloaded, ModelRateLimitError, StorageError
from runwell.models import RetryPolicy
from runwell.models.wire_errors import retry_after_s


@given(st.integers(1, 40))
def test_e8_waits_double_up_to_a_cap(attempt: int) -> None:
    wait = RetryPolicy().wait_s(attempt, ModelOverloaded("busy"))
    most = min(0.5 * 2 ** (attempt - 1), 30.0)
    assert 0.75 * most <= wait <= most


def test_e8_retry_after_is_a_floor() -> None:
    assert RetryPolicy().wait_s(1, ModelRateLimitError("slow", retry_after=7.0)) == 7.0
    assert RetryPolicy().wait_s(5, ModelRateLimitError("slow", retry_after=0.1)) > 5


def test_a_wait_past_all_patience_is_not_begun() -> None:
    policy = RetryPolicy()
    assert policy.worth(ModelRateLimitError("slow", retry_after=60))
    assert not policy.worth(ModelRateLimitError("slow", retry_after=3600))
    error = ModelRateLimitError("slow", retry_after=3600)
    with pytest.raises(ModelRateLimitError) as caught:
        policy.go_on(error, lambda: pytest.fail("called again"))
    assert caught.value is error


def test_only_what_may_pass_by_itself_is_worth_it() -> None:
    policy = RetryPolicy()
    assert not policy.worth(ValueError("x"))
    assert not policy.worth(ModelBadRequest("x"))
    assert not policy.worth(StorageError("x"))
    assert not policy.worth(KeyboardInterrupt())


def test_the_last_error_is_raised_as_it_is() -> None:
    told: list[int] = []
    errors = [ModelOverloaded(str(number)) for number in range(3)]

    def call() -> None:
        raise errors[len(told)]

    with pytest.raises(ModelOverloaded, match="2") as caught:
        RetryPolicy(first_s=0).go_on(errors[0], call, lambda attempt, error, wait: told.append(attempt))
    assert caught.value is errors[2]
    assert told == [1, 2]


def test_retry_after_in_its_forms() -> None:
    assert retry_after_s({}) is None
    assert retry_after_s({"retry-after": "3"}) == 3.0
    assert retry_after_s({"retry-after": "-3"}) == 0.0
    assert retry_after_s({"retry-after-ms": "250", "retry-after": "3"}) == 0.25
    assert retry_after_s({"retry-after": "soon"}) is None
    at = format_datetime(datetime.now(UTC) + timedelta(seconds=90), usegmt=True)
    assert 80 < (retry_after_s({"retry-after": at}) or 0) <= 90
