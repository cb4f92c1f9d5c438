"""Programs that run inside the sandbox: standard library alone, since nothing else is there."""
