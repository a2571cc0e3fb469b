"""The DynamoDB table under the stores: its client, keys, attributes and writes."""
