"""Headgate on AWS: functions that SQS, EventBridge and API Gateway call."""
