"""What the detectors find, how well, and in how much time."""

from __future__ import annotations

import re
import sys
import time
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runwell.agents import middleware
from runwell.agents.middleware import PIIMiddleware
from runwell.agents.pii.detector import BUILTIN, detector_for
from runwell.agents.pii.match import settled
from runwell.agents.pii.presidio import presidio_detector
from runwell.agents.pii.rule import Rule
from runwell.agents.pii.strategy import replacement
from runwell.agents.pii.window import CleanWindow
from runwell.errors import InvalidInput, MissingExtra

sys.path.insert(0, str(Path(__file__).parent))
import pii_labelled as labelled

BEGIN = labelled.BEGIN

PAGE = Path(__file__).resolve().parents[2] / "docs" / "pii.md"


def found(type: str, text: str) -> list[str]:
    return [match["value"] for match in detector_for(type).find(text)]


@pytest.mark.parametrize("type", BUILTIN)
def test_d13_the_page_says_what_is_measured(type: str) -> None:
    made = labelled.measure(type)
    row = f"| `{type}` | {made.labelled} | {made.precision:.3f} | {made.recall:.3f} |"
    assert row in PAGE.read_text(encoding="utf-8"), "python tests/agents/pii_labelled.py prints the table"
    assert made.labelled >= 300
    assert made.precision >= 0.98
    assert made.recall >= 0.92


@pytest.mark.parametrize(
    ("type", "text", "expected"),
    [
        ("email", "<bob.smith+x@mail.example.co.uk>, a@b", ["bob.smith+x@mail.example.co.uk"]),
        ("email", "see o'brien@example.com.", ["o'brien@example.com"]),
        ("email", "'bob@example.com'", ["bob@example.com"]),
        ("email", r'{"to":"\nbob@example.com"}', ["bob@example.com"]),
        ("email", "电话bob@example.com", ["电话bob@example.com"]),
        ("credit_card", "4111 1111 1111 1111, 4111 1111 1111 1112", ["4111 1111 1111 1111"]),
        ("credit_card", "12 4111111111111111 99", ["4111111111111111"]),
        ("credit_card", "卡4111111111111111号", ["4111111111111111"]),
        ("ip", "10.0.0.1:8080 and 10.0.0.256 and 1.2.3.4.5", ["10.0.0.1"]),
        ("ip", "from fe80::1ff:fe23:4567:890a. Or ::1; std::vector", ["fe80::1ff:fe23:4567:890a", "::1"]),
        ("mac_address", "mac:00:1A:2b:3c:4d:5e, 00-1A-2b-3c-4d-5e-6f", ["00:1A:2b:3c:4d:5e"]),
        (
            "url",
            "(see https://example.com/a_(b)?q=1). Www.example.org!",
            ["https://example.com/a_(b)?q=1", "Www.example.org"],
        ),
        ("phone", "+49 171 1234567 or (212) 555-0187 on 01.02.2024", ["+49 171 1234567", "(212) 555-0187"]),
        ("iban", "DE89 3704 0044 0532 0130 00 BIC COBADEFF", ["DE89 3704 0044 0532 0130 00"]),
        ("us_ssn", "219-09-9999, 000-12-3456, 219-09-9999-1", ["219-09-9999"]),
        ("api_key", "key=sk-" + "a1" * 20 + "; risk-free-" + "a" * 30, ["sk-" + "a1" * 20]),
        ("api_key", "AKIA" + "ABCDEFGH234567AB" + ",", ["AKIAABCDEFGH234567AB"]),
    ],
)
def test_d13_what_is_found_and_what_only_looks_like_it(type: str, text: str, expected: list[str]) -> None:
    assert found(type, text) == expected


def test_d13_a_private_key_is_found_without_its_end() -> None:
    block = f"{BEGIN}PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----"
    assert found("api_key", f"a {block} b") == [block]
    assert found("api_key", f"a {BEGIN}OPENSSH PRIVATE KEY-----\nMIIE") == [f"{BEGIN}OPENSSH PRIVATE KEY-----\nMIIE"]
    assert found("api_key", f"{BEGIN}CERTIFICATE-----\nMIIE") == []


def test_d13_findings_that_overlap_are_one_and_nothing_of_them_is_left() -> None:
    def match(type: str, start: int, end: int) -> Any:
        return {"type": type, "value": "0123456789"[start:end], "start": start, "end": end}

    made = settled("0123456789", [match("b", 2, 6), match("a", 2, 6), match("c", 4, 8), match("a", 8, 9)], ["a", "b"])
    assert [(m["type"], m["value"]) for m in made] == [("a", "234567"), ("a", "8")]


@pytest.mark.parametrize("order", [["email", "url"], ["url", "email"]])
def test_d13_an_address_within_another_is_part_of_it(order: list[str]) -> None:
    rule = Rule([detector_for(each) for each in order], replacement("redact", None))
    text = "at https://bob@example.com/x?m=ann@example.com ok"
    assert rule.clean(text, rule.find(text)) == "at [REDACTED_URL] ok"


HOSTILE = [
    *("a" * 200_000, "a." * 100_000, "a@" * 100_000, "a.a@a." * 40_000, "1" * 200_000, "1 " * 100_000, "1-" * 100_000),
    *("12.34." * 40_000, ":" * 200_000, "a:" * 100_000, "00:11:" * 40_000, "http://" * 30_000, "www." * 60_000),
    *("(" * 200_000, "http://a" + ")" * 200_000, "+1" * 100_000, "+1 (2" * 40_000, "DE89 " * 40_000, "DE" * 100_000),
    *("sk-" * 60_000, "eyJ" * 60_000, "eyJaaaaaaaaaaa." * 15_000, "-----BEGIN " * 20_000, "_" * 200_000, "%" * 200_000),
    *(f"{BEGIN}PRIVATE KEY-----" * 8_000, "x'" * 100_000, "\\n" * 100_000, "SG." * 60_000, "é" * 200_000),
]


@pytest.mark.parametrize("type", BUILTIN)
def test_hostile_texts_take_linear_time(type: str) -> None:
    """200,000 characters made to confuse a detector: within seconds even on a busy machine, where a quadratic search
    would take minutes. A stream of the same text is as fast."""
    rule = Rule([detector_for(type)], replacement("redact", None))
    began = time.perf_counter()
    for text in HOSTILE:
        rule.look(text)
    whole = time.perf_counter() - began
    assert whole < 30


@pytest.mark.parametrize("type", BUILTIN)
def test_a_hostile_stream_keeps_a_bounded_window(type: str) -> None:
    rule = Rule([detector_for(type)], replacement("redact", None))
    for text in HOSTILE:
        window = CleanWindow(rule)
        short = text[:20_000]
        for start in range(0, len(short), 1_000):
            window.feed(short[start : start + 1_000])
            assert len(window._held) <= rule.reach + 1
        window.finish()


# -- streams: the same as at once, wherever it is cut


SENTENCES = [sentence.text for name in BUILTIN for sentence in labelled.labelled(name)[:60]]


@st.composite
def cut_texts(draw: Any) -> tuple[str, list[str]]:
    text = " ".join(draw(st.lists(st.sampled_from(SENTENCES), min_size=1, max_size=3)))
    cuts = sorted({0, len(text), *draw(st.lists(st.integers(0, len(text)), max_size=25))})
    return text, [text[a:b] for a, b in pairwise(cuts)]


@given(cut_texts(), st.sampled_from([*([each] for each in BUILTIN), list(BUILTIN)]))
@settings(max_examples=150, deadline=None)
def test_strm_05_d16_a_stream_is_cleaned_as_the_whole_text_is(cut: tuple[str, list[str]], types: list[str]) -> None:
    text, pieces = cut
    rule = Rule([detector_for(each) for each in types], replacement("redact", None))
    window = CleanWindow(rule)
    out = [window.feed(piece) for piece in pieces] + [window.finish()]
    assert "".join(out) == rule.clean(text, rule.find(text))


@pytest.mark.parametrize("type", BUILTIN)
@pytest.mark.parametrize("size", [1, 3, 7])
def test_strm_05_no_piece_shows_a_labelled_value(type: str, size: int) -> None:
    rule = Rule([detector_for(type)], replacement("redact", None))
    for sentence in labelled.labelled(type)[:100]:
        whole = {sentence.text[m["start"] : m["end"]] for m in rule.find(sentence.text)}
        window = CleanWindow(rule)
        seen = "".join(window.feed(sentence.text[n : n + size]) for n in range(0, len(sentence.text), size))
        seen += window.finish()
        assert not any(value in seen for value in whole)


@pytest.mark.parametrize("type", BUILTIN)
def test_d16_prose_flows_word_by_word(type: str) -> None:
    text = "The quick brown fox, in 2024, jumps over the 12 lazy dogs. I am not DE at all; call me."
    words = re.findall(r"\S+", text)
    window = CleanWindow(Rule([detector_for(type)], replacement("redact", None)))
    pieces = [window.feed(f"{word} ") for word in words] + [window.finish()]
    assert sum(bool(piece) for piece in pieces) >= len(words) - 4


def test_a_match_longer_than_a_window_is_dropped_to_its_end() -> None:
    window = CleanWindow(Rule([detector_for("url")], replacement("redact", None)))
    url = "https://example.com/" + "secret/" * 3_000
    pieces = [window.feed(piece) for piece in re.findall(r".{1,50}", f"see {url} now")]
    seen = "".join(pieces) + window.finish()
    assert "secret" not in seen
    assert seen == "see [REDACTED_URL] now"


# -- detectors of the user's own


def test_d13_a_pattern_and_a_function_of_ones_own() -> None:
    staff = detector_for("staff", r"EMP-\d{4}")
    assert [m["value"] for m in staff.find("EMP-1234 EMP-12")] == ["EMP-1234"]
    named = detector_for("name", lambda text: [(m.start(), m.end()) for m in re.finditer("Ada", text)], 3)
    assert [m["type"] for m in named.find("Ada and Ada")] == ["name", "name"]
    for detector in (staff, named):
        rule = Rule([detector], replacement("redact", None))
        text = "hello EMP-1234, hello Ada, and EMP-99 goes"
        window = CleanWindow(rule)
        assert "".join(window.feed(c) for c in text) + window.finish() == rule.clean(text, rule.find(text))


def test_d13_presidio_finds_what_takes_a_model_of_language() -> None:
    class Analyzer:
        def analyze(self, text: str, entities: list[str], language: str, score_threshold: float) -> list[Any]:
            assert (entities, language, score_threshold) == (["PERSON"], "en", 0.7)
            return [SimpleNamespace(start=5, end=8)]

    detector = detector_for("person", presidio_detector("PERSON", threshold=0.7, analyzer=Analyzer()))
    assert [match["value"] for match in detector.find("I am Ada.")] == ["Ada"]


def test_presidio_that_is_absent_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "presidio_analyzer", None)
    with pytest.raises(MissingExtra, match="presidio_detector"):
        presidio_detector("PERSON")


def test_the_detectors_as_functions() -> None:
    assert [match["value"] for match in middleware.detect_email("a b@c.de f")] == ["b@c.de"]
    found = {name: getattr(middleware, f"detect_{name}")("x") for name in ("credit_card", "ip", "mac_address", "url")}
    assert not any(found.values())


def test_a_pattern_that_backtracks_is_stopped_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runwell.agents.pii.detector.PATIENCE_S", 0.05)
    slow = detector_for("slow", r"(a|aa)+$")
    with pytest.raises(InvalidInput, match="backtracks"):
        slow.find("a" * 60 + "!")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (({"pii_type": "emial"}), "did you mean 'email'"),
        (({"pii_type": "staff"}), "pass detector="),
        (({"pii_type": "staff", "detector": "("}), "no regular expression"),
        (({"pii_type": "staff", "detector": "a*"}), "matches nothing at all"),
        (({"pii_type": "staff", "detector": 3}), "detector=3"),
        (({"pii_type": ["email", "ip"], "detector": "a"}), "One detector for 2 types"),
        (({"pii_type": []}), "pii_type"),
        (({"pii_type": ["email", "email"]}), "twice"),
        (({"pii_type": "email", "strategy": "hide"}), "strategy='hide'"),
        (({"pii_type": "email", "key": "12345678"}), "key="),
        (({"pii_type": "email", "strategy": "hash", "key": "short"}), "at least 8"),
        (({"pii_type": "email", "apply_to_input": False}), "applies to nothing"),
        (({"pii_type": "email", "roles": ["robot"]}), "roles"),
        (({"pii_type": "email", "roles": ["ai"], "apply_to_input": False, "apply_to_output": True}), "narrows"),
        (({"pii_type": "email", "hold": 0}), "hold=0"),
    ],
)
def test_what_cannot_work_is_refused_at_once(arguments: Any, words: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        PIIMiddleware(**arguments)
    assert words in f"{refused.value} {refused.value.hint}"


def test_a_detector_that_gives_no_matches_is_told_what_they_are() -> None:
    with pytest.raises(InvalidInput, match="counted in characters"):
        detector_for("x", lambda text: [(5, 99)]).find("short")
