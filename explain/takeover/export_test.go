package takeover

// FindInChunks is Find with another number of hosts at a time.
func FindInChunks(before, after Side, o Options, hosts int) *Report {
	s := newSearch(before, after, o)
	s.atOnce = hosts
	return s.run()
}
