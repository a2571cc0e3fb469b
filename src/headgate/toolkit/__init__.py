"""Building blocks of systems, also used by `web` and `cli`: routes, pages, commands, links."""
