"""What any engine can be held against: which programs it runs under which schedule, and whether its answers hold."""
