"""The commands of `ninefold`, a module for each group of them."""
