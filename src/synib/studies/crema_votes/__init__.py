"""CREMA-D as a crowd judged it: by voice, by face, and by both."""
