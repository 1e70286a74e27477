"""Sentiment, sarcasm and humour: MOSI, MUStARD and UR-FUNNY."""
