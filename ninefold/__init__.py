"""ninefold: the open, runnable reproduction of Kimi K3's training system."""

__version__ = "0.1.0"
