"""Schemas, rewards and advantages for reinforcement learning with rubric rewards."""
