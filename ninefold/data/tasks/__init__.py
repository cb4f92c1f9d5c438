"""Task records, splits and stores."""

from ninefold.data.tasks.store import read_tasks, write_tasks
from ninefold.data.tasks.stream import TaskStream, task_texts, with_budget

__all__ = ["TaskStream", "read_tasks", "task_texts", "with_budget", "write_tasks"]
