"""Jobs on DynamoDB: submitted, claimed, settled, recovered, listed and pruned."""
