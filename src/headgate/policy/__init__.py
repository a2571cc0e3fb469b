"""Pure decisions: each function takes values and the time, and returns a decision."""
