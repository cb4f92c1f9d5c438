"""What engines decide, as pure state machines without torch."""
