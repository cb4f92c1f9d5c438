"""A served model: one engine, many concurrent requests, OpenAI's protocol with a choice of effort."""
