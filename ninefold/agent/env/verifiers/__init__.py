"""Tasks of tasksets of the package `verifiers`, run and scored in an interpreter of its own."""

from ninefold.agent.env.verifiers.family import Verifiers

__all__ = ["Verifiers"]
