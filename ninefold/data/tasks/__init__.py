"""Task records, splits and stores."""
