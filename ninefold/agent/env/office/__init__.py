"""An office over days: mail, notes, chat, canvas and calendar as one world, where each event has its own criterion."""

from ninefold.agent.env.office.family import Office

__all__ = ["Office"]
