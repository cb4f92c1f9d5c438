"""What can go wrong, by whose fault, and the one place where a broad except is allowed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


class NinefoldError(Exception):
    """Base of errors with a message for people."""


class UserError(NinefoldError, ValueError):
    """Something the user can mend; the message says what, where and how."""


class SandboxError(NinefoldError):
    """A sandbox could not be made or died: the trajectory is invalid, not failed."""


class SandboxUnavailable(SandboxError):
    """This machine cannot isolate; nothing was run."""


class EngineError(NinefoldError):
    """Generation failed; the trajectory is invalid, not failed."""


class VerifierError(NinefoldError):
    """The verifier itself broke; the result is invalid."""


class Diverged(NinefoldError):
    """Training cannot go on (non-finite weights, collapsed router); the message says where and since when."""


@contextmanager
def boundary(kind: type[NinefoldError], what: str, *, catch: Callable[[NinefoldError], None] | None = None) -> Iterator[None]:
    """Turn whatever third-party code raises into `kind`, with `what` in front; hand it to `catch` instead of raising if given.

    Our own errors pass with their type kept; KeyboardInterrupt and SystemExit are never caught.
    """
    try:
        yield
    except NinefoldError as error:
        if catch is None:
            raise
        catch(error)
    except Exception as error:  # the one broad except of the project
        wrapped = kind(f"{what}: {type(error).__name__}: {error}")
        if catch is None:
            raise wrapped from error
        catch(wrapped)
