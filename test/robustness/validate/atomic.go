package validate

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/routesrv/routesrv/test/robustness/history"
)

// Atomic: a client never holds a mix of two tables, and status, headers and body of an answer belong to one table.
func Atomic(h *history.History) []Violation { return alone(h, (*Index).atomic) }

func (x *Index) atomic() []Violation {
	all := x.fromFindings(NameAtomic, func(_ *sighting, f finding) bool { return f.fault == torn })
	wrong := make(map[string]string) // digest to the problem of its text
	for digest, text := range x.h.Tables {
		sum := sha256.Sum256([]byte(text))
		if hex.EncodeToString(sum[:]) != digest {
			wrong[digest] = fmt.Sprintf("the text has the digest %x", sum[:6])
		} else if _, err := parse(text); err != nil {
			wrong[digest] = err.Error()
		}
	}
	said := make(map[string]bool)
	for i := range x.h.Answers {
		a := &x.h.Answers[i]
		if !has(a) {
			continue
		}
		digest, revision, ok := tag(a)
		var text string
		switch _, known := x.h.Tables[a.Digest]; {
		case !known:
			// its text was not kept
		case wrong[a.Digest] != "":
			text = fmt.Sprintf("the client holds %s: %s", short(a.Digest), wrong[a.Digest])
		case ok && digest != a.Digest:
			text = fmt.Sprintf("status %d from %s names table %s, and the client holds %s", a.Status, a.Server, short(digest), short(a.Digest))
		case ok && a.Outcome == history.Applied && a.Revision != 0 && revision != a.Revision:
			text = fmt.Sprintf("table %s from %s has revision %d in its ETag and %d beside it", short(digest), a.Server, revision, a.Revision)
		}
		if text == "" || said[a.Client+text] {
			continue
		}
		said[a.Client+text] = true
		all = append(all, Violation{NameAtomic, a.End, a.Client, i, text})
	}
	return all
}
