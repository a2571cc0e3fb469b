"""Jobs: submitted, checked, shown, explained and controlled."""
