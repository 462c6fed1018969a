"""Sums of token usage."""

from hypothesis import given
from hypothesis import strategies as st

from runwell.messages import add_usage, subtract_usage

numbers = st.integers(0, 1_000)
usages = st.none() | st.builds(
    lambda i, o, c, r: {
        "input_tokens": i,
        "output_tokens": o,
        "total_tokens": i + o,
        **({"input_token_details": {"cache_read": c}} if c else {}),
        **({"output_token_details": {"reasoning": r}} if r else {}),
    },
    numbers,
    numbers,
    numbers,
    numbers,
)


@given(usages, usages, usages)
def test_adding_is_associative_and_undone_by_subtracting(a, b, c):
    assert add_usage(add_usage(a, b), c) == add_usage(a, add_usage(b, c))
    rest = subtract_usage(add_usage(a, b), b)
    for key in ("input_tokens", "output_tokens", "total_tokens"):
        assert rest[key] == (a or {}).get(key, 0)


def test_nothing_and_nothing_is_no_tokens():
    assert add_usage(None, None) == {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0}


def test_details_are_added_by_kind():
    left = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2, "input_token_details": {"audio": 1}}
    right = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2, "input_token_details": {"cache_read": 4}}
    assert add_usage(left, right)["input_token_details"] == {"audio": 1, "cache_read": 4}


def test_subtracting_more_than_there_is_gives_nothing():
    less = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    more = {"input_tokens": 5, "output_tokens": 5, "total_tokens": 10}
    assert subtract_usage(less, more) == {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0}
