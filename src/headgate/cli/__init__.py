"""The command line: one short function per command, each a thin cover over `App`."""
