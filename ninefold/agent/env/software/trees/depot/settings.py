"""What the depot's owner decides."""

TAX = 19
FREE_FROM = 6000
POSTAGE = 490
BATCH = 12
GRACE = 10
"""Working days until an invoice is due."""
TIERS = [[10, 5], [25, 10], [50, 20]]
"""From this quantity on, so many percent off; ascending."""
