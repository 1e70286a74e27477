"""CREMA-D as judged by a crowd: by voice, by face, and by both."""
