"""What other programs print, as facts: pure functions over text, used on the live machine and on pastes alike."""
