"""An office: mail, chat, notes and a staff directory over several simulated days, each event with its own criterion."""

from ninefold.agent.env.assistant.family import Assistant

__all__ = ["Assistant"]
