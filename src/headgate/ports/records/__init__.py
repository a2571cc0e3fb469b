"""The stores of what jobs bring."""
