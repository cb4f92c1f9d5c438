"""Effort as a budgeted quantity: spend T(y), budgets b₀(x), multipliers τ_b and their curriculum."""
