"""Which coordinates learned masks find."""
