"""Parts of a command: loading the application, printing, reading values, following a job."""
