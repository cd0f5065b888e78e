package dataplane

import "fmt"

// Follow selects how to get new tables. The zero value is Auto.
type Follow uint8

const (
	Auto   Follow = iota // over a stream, and by polling while there is none
	Stream               // over a stream only
	Poll                 // by polling only
)

var followTexts = [...]string{Auto: "auto", Stream: "stream", Poll: "poll"}

// String returns the text form.
func (f Follow) String() string {
	if int(f) < len(followTexts) {
		return followTexts[f]
	}
	return fmt.Sprintf("Follow(%d)", uint8(f))
}

// ParseFollow is the inverse of String.
func ParseFollow(text string) (Follow, error) {
	for f, t := range followTexts {
		if t == text {
			return Follow(f), nil
		}
	}
	return 0, fmt.Errorf("%.50q: want auto, stream or poll", text)
}
