"""Planning: spans of time, tasks that wait for each other, people who do them. A span is [start, end), in hours."""
