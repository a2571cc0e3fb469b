"""The command line: one short function per command, each a thin layer over `App`."""
