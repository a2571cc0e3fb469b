"""This package emulates providers offline, with data of any size and faults on demand."""
