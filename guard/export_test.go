package guard

// Requests returns how many requests are lost or have no endpoints any more.
func (l *Loss) Requests() int { return len(l.requests) }
