"""Knowledge graph and task synthesis."""
