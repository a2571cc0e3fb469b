"""Programs that check or generate parts of this repository; none of them is shipped."""
