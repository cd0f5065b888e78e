package clients

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// delta is the JSON document described in docs/reference/protocol.md.
type delta struct {
	Base    string   `json:"base"`
	Target  string   `json:"target"`
	Count   int      `json:"count"`
	Deletes []string `json:"deletes"`
	Upserts []string `json:"upserts"`
}

// apply applies a delta to the client's text, step by step as described in docs/reference/protocol.md.
func apply(text, digest string, document []byte, target string) (string, error) {
	var d delta
	if err := json.Unmarshal(document, &d); err != nil {
		return "", err
	}
	switch {
	case d.Base != digest:
		return "", fmt.Errorf("it is for %.8s, and %.8s is held", d.Base, digest)
	case d.Target != target:
		return "", fmt.Errorf("it leads to %.8s, and the ETag names %.8s", d.Target, target)
	}
	lines := make(map[string]string)
	if text != "" {
		for line := range strings.SplitSeq(text, "\n") {
			lines[id(line)] = line
		}
	}
	for _, gone := range d.Deletes {
		delete(lines, gone)
	}
	for _, line := range d.Upserts {
		lines[id(line)] = line
	}
	if len(lines) != d.Count {
		return "", fmt.Errorf("it gives %d routes and says %d", len(lines), d.Count)
	}
	ids := slices.Sorted(maps.Keys(lines))
	ordered := make([]string, len(ids))
	for i, name := range ids {
		ordered[i] = lines[name]
	}
	out := strings.Join(ordered, "\n")
	sum := sha256.Sum256([]byte(out))
	if got := hex.EncodeToString(sum[:]); got != d.Target {
		return "", fmt.Errorf("it gives %.8s and says %.8s", got, d.Target)
	}
	return out, nil
}

func id(line string) string {
	name, _, _ := strings.Cut(line, ":")
	return name
}
