package explain

// Searches returns for how many hosts an explanation searches all objects.
func Searches(in Input, q Query) int { return len(explained(in, q).claims) }
