"""Generation behind `core.protocols.Engine`: native continuous batching for K3, and a scripted engine."""
