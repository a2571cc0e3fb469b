"""Parts of a command: loading the application, printing, parsing values, following a job."""
