"""Writes comments.csv: a comment, a number of stars, and whether the two contradict each other (sarcasm)."""

import csv
import random

random.seed(0)
things = ["room", "coffee", "staff", "view", "bed", "pool", "lobby", "breakfast"]
things += ["shower", "music", "wifi", "parking", "garden", "bar", "lift", "food"]
people = ["we", "my wife", "my boss", "the kids", "our guests", "everybody", "my mother", "the team"]
praise = ["loved", "adored", "enjoyed", "praised", "recommended"]
complaint = ["hated", "disliked", "endured", "regretted", "cursed"]
with open("comments.csv", "w", newline="") as file:
    rows = csv.writer(file)
    rows.writerow(["comment", "stars", "nights", "sarcastic"])
    for _ in range(600):
        positive, happy = random.random() < 0.5, random.random() < 0.5
        verb = random.choice(praise if positive else complaint)
        first, second = random.sample(things, 2)
        comment = f"{random.choice(people)} {verb} the {first} and the {second}"
        stars = random.randint(4, 5) if happy else random.randint(1, 2)
        rows.writerow([comment, stars, random.randint(1, 14), "no" if positive == happy else "yes"])
