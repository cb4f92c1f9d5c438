"""The one executor that all harnesses' tools are views of."""

from ninefold.agent.harness.executor.executor import Executor, ExecutorConfig
from ninefold.agent.harness.executor.operations import OPERATIONS, Refused, operation

__all__ = ["OPERATIONS", "Executor", "ExecutorConfig", "Refused", "operation"]
