"""Notifications by e-mail: how they are written, and how they are sent."""
