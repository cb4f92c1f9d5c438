"""XTML, the chat format: messages in, token segments out, and back."""
