"""Time and threads: how long work may take, who waits for whom, and how many questions are asked at once."""
