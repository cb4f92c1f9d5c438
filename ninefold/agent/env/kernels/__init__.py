"""Write a kernel: right in every value, and timed beside an expert's and the machine's own bound."""

from ninefold.agent.env.kernels.family import Kernels

__all__ = ["Kernels"]
