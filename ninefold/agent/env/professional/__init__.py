"""Professional work: data analysis, finance and legal practice, judged by computing what was handed in again."""

from ninefold.agent.env.professional.family import Professional

__all__ = ["Professional"]
