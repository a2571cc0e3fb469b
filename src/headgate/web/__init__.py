"""The HTTP face: the API under /v1, the seed's own paths, and the pages."""
