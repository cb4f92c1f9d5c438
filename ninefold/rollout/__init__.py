"""Rollouts: the λ·N·K scheduler, plain play of given lists, demonstrations, and trajectories on disk."""
