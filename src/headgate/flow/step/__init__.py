"""One step of a job: extract a chunk, commit it, settle the job."""
