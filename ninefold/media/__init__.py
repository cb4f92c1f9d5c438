"""Pictures: drawn from descriptions, viewed in part, kept by the hash of their content."""
