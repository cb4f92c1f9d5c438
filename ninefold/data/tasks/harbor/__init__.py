"""Harbor's task directories (schema 1.4, spec 10) out and in, and ninefold's sandbox as an environment of Harbor's."""
