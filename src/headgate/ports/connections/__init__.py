"""The store of connections, and how a provider knows whose request it is."""
