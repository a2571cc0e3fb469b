"""Jobs on a SQL database: submitted, claimed, settled, recovered, listed and pruned."""
