package dataplane

import (
	"fmt"
	"slices"
)

// UpdateMode selects how to get new tables. The zero value is Auto.
type UpdateMode uint8

const (
	Auto   UpdateMode = iota // over a stream, and by polling while there is none
	Stream                   // over a stream only
	Poll                     // by polling only
)

var updateModeTexts = [...]string{Auto: "auto", Stream: "stream", Poll: "poll"}

// String returns the text form.
func (f UpdateMode) String() string {
	if int(f) < len(updateModeTexts) {
		return updateModeTexts[f]
	}
	return fmt.Sprintf("UpdateMode(%d)", uint8(f))
}

// ParseUpdateMode is the inverse of String.
func ParseUpdateMode(text string) (UpdateMode, error) {
	if i := slices.Index(updateModeTexts[:], text); i >= 0 {
		return UpdateMode(i), nil
	}
	return 0, fmt.Errorf("%.50q: want auto, stream or poll", text)
}
