"""Pre-training text: read → filter → deduplicate → decontaminate → mix by stated rates → pack without leaks."""
