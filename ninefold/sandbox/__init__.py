"""Isolated machines for untrusted programs: a light runtime on Linux namespaces and an in-memory fake."""
