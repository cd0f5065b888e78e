package match

// pathShape describes the paths that a pattern matches, or several patterns together.
type pathShape struct {
	segments []string // a single wildcard stands for any segment but the empty one, which is a slash at the end
	tail     byte     // what may come behind them
}

// Kinds of tails.
const (
	tailNone byte = iota // nothing
	tailFree             // at least one letter behind a slash
	tailAny              // nothing, a slash, or segments
)

func shapeOf(p *pattern) pathShape {
	s := pathShape{segments: p.segments}
	last := len(p.segments) - 1
	switch {
	case p.subtree:
		s.tail = tailAny
	case kindOf(p.segments[last]) == free:
		s.segments, s.tail = p.segments[:last], tailFree
	}
	return s
}

// meet returns the paths that have both shapes, or false if there is none.
func (s pathShape) meet(o pathShape) (pathShape, bool) {
	if len(s.segments) < len(o.segments) {
		s, o = o, s
	}
	// s has more segments, or as many
	if len(s.segments) == len(o.segments) && min(s.tail, o.tail) == tailNone && max(s.tail, o.tail) == tailFree {
		return pathShape{}, false
	}
	both := pathShape{tail: min(s.tail, o.tail)}
	for i, a := range s.segments {
		if i >= len(o.segments) {
			if o.tail == tailNone || o.tail == tailFree && i == len(o.segments) && a == "" {
				return pathShape{}, false
			}
			both.segments = append(both.segments, a)
			continue
		}
		b := o.segments[i]
		switch {
		case a == b:
		case kindOf(a) == single && b != "":
			a = b
		case kindOf(b) == single && a != "":
		default:
			return pathShape{}, false
		}
		both.segments = append(both.segments, a)
	}
	if len(s.segments) > len(o.segments) {
		both.tail = s.tail // what is behind is behind the tail of the other as well
	}
	if n := len(both.segments); n > 0 && both.segments[n-1] == "" && both.tail != tailNone {
		return pathShape{}, false // only the root has such a pattern
	}
	return both, true
}
