"""Emulated providers: they run offline, with data of any size and faults on demand."""
