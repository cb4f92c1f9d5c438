"""Problems of a checkout of KernelBench, scaled to one thread of a CPU: a module that does the same, faster."""

from ninefold.agent.env.kernelbench.family import KernelBench

__all__ = ["KernelBench"]
