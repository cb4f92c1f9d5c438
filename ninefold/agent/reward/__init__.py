"""From verdicts to rewards: budget override, cohorts, the outcome filter."""
