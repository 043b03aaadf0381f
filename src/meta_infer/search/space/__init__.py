"""What a search chooses from, and the program that chooses."""
