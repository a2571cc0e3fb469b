"""Pure decisions: values and the time in, a decision out."""
