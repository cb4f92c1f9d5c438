"""Stock, prices and invoices of a small depot. Amounts are whole cents, days whole numbers from 0, a Monday."""
