"""Who acts, and in what: environments, harnesses, efforts, rewards."""
