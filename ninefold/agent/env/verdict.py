"""Verdicts on their way from a verifier's process, signed with the request's nonce (spec 09, no. 17).

Whoever gets hold of the way without the nonce (a program that a verifier started, a process that outlived it) can neither
forge a verdict nor pass one task's for another's.
"""

from __future__ import annotations

import hmac
import json
import secrets
from typing import Any

from ninefold.core.types import Result

Signed = list[Any]
"""[status, score, detail, signature], as JSON."""


def new_nonce() -> str:
    """The secret of one request."""
    return secrets.token_hex(32)


def signed(result: Result, *, nonce: str, place: int, task: str) -> Signed:
    """`result` as the verdict on item `place` of the request, the task of id `task`."""
    told = [result.status, result.score, result.detail]
    return [*told, _signature(told, nonce, place, task)]


def opened(verdict: object, *, nonce: str, place: int, task: str) -> Result | None:
    """The result of a verdict; None unless it is signed for just this item and says something that a verifier may say."""
    match verdict:
        case [str(status), int() | float() as score, str(detail), str(signature)]:
            pass
        case _:
            return None
    if not hmac.compare_digest(_signature([status, score, detail], nonce, place, task).encode(), signature.encode()):
        return None
    result = Result(status=status, score=score, detail=detail)  # pyright: ignore[reportArgumentType]
    return result if sound(result) else None


def sound(result: Result) -> bool:
    """Whether it is a status with a finite score in [0, 1], which is 0 where nobody could judge."""
    if result.status not in ("pass", "fail", "invalid") or isinstance(result.score, bool):
        return False
    return 0.0 <= result.score <= (0.0 if result.status == "invalid" else 1.0)  # which no NaN is


def _signature(told: list[Any], nonce: str, place: int, task: str) -> str:
    return hmac.digest(nonce.encode(), json.dumps([place, task, *told]).encode(), "sha256").hex()
