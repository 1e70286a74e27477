"""PID-controlled XOR."""
