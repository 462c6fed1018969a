"""Ctrl-C that stops what is going on, once, and nothing else."""

from __future__ import annotations

import signal

import pytest

from runwell.cli.stopping import Stopped, Stopping


def press() -> None:
    signal.raise_signal(signal.SIGINT)


def test_work_is_stopped_and_later_work_is_not() -> None:
    with Stopping() as stopping:
        assert isinstance(stopping.do(press), Stopped)
        assert stopping.do(lambda: "done") == "done"


def test_a_second_press_does_not_cut_the_clean_up_short() -> None:
    cleaned = []

    def work() -> None:
        try:
            press()
        finally:
            press()
            cleaned.append(True)

    with Stopping() as stopping:
        assert isinstance(stopping.do(work), Stopped)
    assert cleaned


def test_a_press_between_two_pieces_of_work_does_nothing() -> None:
    with Stopping() as stopping:
        press()
        assert stopping.do(lambda: 1) == 1
        press()


def test_errors_pass_and_what_was_before_is_put_back() -> None:
    before = signal.getsignal(signal.SIGINT)
    with Stopping() as stopping, pytest.raises(ZeroDivisionError):
        stopping.do(lambda: 1 / 0)
    assert signal.getsignal(signal.SIGINT) is before
