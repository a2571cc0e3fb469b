"""Small applications, each run by the tests."""
