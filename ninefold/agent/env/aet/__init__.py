"""Work towards a goal that only a verifier can see: copy a hidden program, find what drives an outcome, audit records."""

from ninefold.agent.env.aet.family import Aet

__all__ = ["Aet"]
