"""What results, questions and given answers look like as JSON, and how they are read and written."""
