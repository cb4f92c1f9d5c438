"""Environments of the package `verifiers` (its v1 objects, spec 10), out and in."""
