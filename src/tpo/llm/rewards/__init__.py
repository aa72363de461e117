"""Rewards: named scorers, the processes they run in, and what happens when one fails."""
