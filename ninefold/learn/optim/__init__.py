"""Per-head Muon and AdamW, learning-rate schedules, QK-clip."""
