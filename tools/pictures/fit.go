package main

import "fmt"

// misfits lists what overlaps, or leaves its box or the picture.
func (p *picture) misfits() []string {
	var found []string
	whole := rect{0, 0, width, p.height, "the picture"}
	for i, b := range p.boxes {
		if !whole.contains(b) {
			found = append(found, fmt.Sprintf("the box %q leaves the picture", b.text))
		}
		for _, other := range p.boxes[:i] {
			if b.overlaps(other) {
				found = append(found, fmt.Sprintf("the boxes %q and %q overlap", b.text, other.text))
			}
		}
	}
	for i, l := range p.labels {
		outer := whole
		if l.inside >= 0 {
			outer = p.boxes[l.inside]
		}
		if !outer.contains(l.rect) {
			found = append(found, fmt.Sprintf("the text %q leaves %s", l.text, outer.text))
		}
		for j, b := range p.boxes {
			if j != l.inside && l.overlaps(b) {
				found = append(found, fmt.Sprintf("the text %q touches the box %q", l.text, b.text))
			}
		}
		for _, other := range p.labels[:i] {
			if l.overlaps(other.rect) {
				found = append(found, fmt.Sprintf("the texts %q and %q overlap", l.text, other.text))
			}
		}
	}
	return found
}

func (r rect) contains(other rect) bool {
	return other.x >= r.x && other.y >= r.y && other.x+other.w <= r.x+r.w && other.y+other.h <= r.y+r.h
}

func (r rect) overlaps(other rect) bool {
	return r.x < other.x+other.w && other.x < r.x+r.w && r.y < other.y+other.h && other.y < r.y+r.h
}
