"""What is learned from: corpus and tasks."""
