"""How weights change: losses, optimisers, batches, the trainer, and the same on several processes."""
