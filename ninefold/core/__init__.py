"""Types, protocols, errors, configuration, events, seeds and stores: what every room shares (no torch)."""
