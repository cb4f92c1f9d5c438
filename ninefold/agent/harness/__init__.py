"""How an agent meets a world: composed modules, presets, a seeded sampler, and the agent loop as a state machine."""
