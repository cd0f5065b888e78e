package compile

import "slices"

// sharing finds routes that match the same, by the hash of what they match.
type sharing struct {
	single map[uint64]place   // for hashes of a single route
	rivals map[uint64][]place // for hashes of several routes, in no particular order
}

func newSharing() *sharing {
	return &sharing{single: make(map[uint64]place), rivals: make(map[uint64][]place)}
}

// remove removes all routes of a section with the hash, and reports whether there were others.
func (c *sharing) remove(match uint64, s *section) bool {
	if p, ok := c.single[match]; ok {
		if p.section == s {
			delete(c.single, match)
		}
		return false
	}
	left, ok := c.rivals[match]
	if !ok {
		return false
	}
	left = slices.DeleteFunc(left, func(p place) bool { return p.section == s })
	switch len(left) {
	case 0:
		delete(c.rivals, match)
	case 1:
		delete(c.rivals, match)
		c.single[match] = left[0]
	default:
		c.rivals[match] = left
	}
	return true
}

// add adds a route, and reports whether there are others.
func (c *sharing) add(match uint64, p place) bool {
	if all, ok := c.rivals[match]; ok {
		c.rivals[match] = append(all, p)
		return true
	}
	if other, ok := c.single[match]; ok {
		delete(c.single, match)
		c.rivals[match] = []place{other, p}
		return true
	}
	c.single[match] = p
	return false
}
