"""What a user touches: the command line, the report, the live view."""
