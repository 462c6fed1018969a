"""The built-in detectors as functions, for programs that look without an agent."""

from __future__ import annotations

from runwell.agents.pii.detector import detector_for
from runwell.agents.pii.match import PIIMatch

__all__ = ["detect_credit_card", "detect_email", "detect_ip", "detect_mac_address", "detect_url"]


def _found(kind: str, text: str) -> list[PIIMatch]:
    return list(detector_for(kind).find(text))


def detect_email(content: str) -> list[PIIMatch]:
    """Mail addresses, from left to right."""
    return _found("email", content)


def detect_credit_card(content: str) -> list[PIIMatch]:
    """Card numbers whose check digit is right."""
    return _found("credit_card", content)


def detect_ip(content: str) -> list[PIIMatch]:
    """Addresses of IP, version 4 and 6."""
    return _found("ip", content)


def detect_mac_address(content: str) -> list[PIIMatch]:
    """Hardware addresses, with colons, hyphens or dots."""
    return _found("mac_address", content)


def detect_url(content: str) -> list[PIIMatch]:
    """Web addresses with a scheme, or that begin with www."""
    return _found("url", content)
