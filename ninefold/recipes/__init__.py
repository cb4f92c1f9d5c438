"""The recipe: stages as functions of a kit and a configuration, and whole runs made of them."""
