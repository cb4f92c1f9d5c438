"""Write an expression that hits a target, or a function that fits examples; both are executed by hidden checks."""

from ninefold.agent.env.expression.family import Expression

__all__ = ["Expression"]
