"""The HTTP API: one module per noun, and the seed's literal paths in `historical.py`."""
