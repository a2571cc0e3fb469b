"""The names and limits that the system uses, in one place."""

#: The sync that imports check-ins.
SYNC = "check-ins"
#: The most check-ins that are listed at once.
LIST_MAX = 1000
