package fleet

import (
	"strconv"
	"strings"
	"time"
)

// Limits of an identity. An identity that exceeds them is ignored.
const (
	maxIdentity = 1024 // bytes of the header value
	maxID       = 200
	maxWord     = 64 // of node, zone and version
	minInterval = 100 * time.Millisecond
	maxInterval = 5 * time.Minute
)

// Identity is how our clients identify themselves with each request: the value of the header Routesrv-Client.
type Identity struct {
	Kind Kind
	// ID is namespace/pod if Pod, else any name. 1 to 200 letters, digits and ._:/-
	ID  string
	Pod bool
	// Node, Zone and Version have at most 64 such characters, or +~ in a version; they may be empty.
	Node, Zone, Version string
	Mode                string // False, Pre, Exec or empty
	// Interval is the longest normal time without a sign of life from the client: the time between two polls or reports.
	Interval time.Duration
}

// String returns the form for the header, key=value, separated by semicolons. It replaces or cuts off what is not allowed.
func (i Identity) String() string {
	text := "kind=" + string(i.Kind)
	add := func(key, value string, limit int) {
		if value != "" {
			text += ";" + key + "=" + replaced(value, limit, plain, '_')
		}
	}
	if i.Pod {
		add("pod", i.ID, maxID)
	} else {
		add("id", i.ID, maxID)
	}
	add("node", i.Node, maxWord)
	add("zone", i.Zone, maxWord)
	add("version", i.Version, maxWord)
	add("mode", i.Mode, maxWord)
	add("interval", strconv.FormatInt(i.Interval.Milliseconds(), 10), maxWord)
	return text
}

// ParseIdentity parses the form of String. It ignores unknown keys, so that newer clients can send more.
func ParseIdentity(text string) (i Identity, ok bool) {
	if len(text) == 0 || len(text) > maxIdentity {
		return Identity{}, false
	}
	for pair := range strings.SplitSeq(text, ";") {
		if pair == "" {
			continue
		}
		key, value, ok := strings.Cut(pair, "=")
		if !ok || !isPlain(value) || !i.set(key, value) {
			return Identity{}, false
		}
	}
	return i, i.ID != "" && i.Kind != "" && i.Interval != 0
}

func (i *Identity) set(key, value string) bool {
	short := len(value) <= maxWord
	switch key {
	case "kind":
		i.Kind = Kind(value)
		return i.Kind == Sidecar || i.Kind == RelayKind || i.Kind == Proxy
	case "id", "pod":
		i.ID, i.Pod = value, key == "pod"
		return len(value) <= maxID
	case "node":
		i.Node = value
	case "zone":
		i.Zone = value
	case "version":
		i.Version = value
	case "mode":
		i.Mode = value
		return value == "False" || value == "Pre" || value == "Exec"
	case "interval":
		ms, err := strconv.ParseUint(value, 10, 32)
		i.Interval = min(max(time.Duration(ms)*time.Millisecond, minInterval), maxInterval)
		return err == nil
	}
	return short
}

func plain(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("._:/-+~@", c) >= 0
}

func isPlain(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r > 0x7f || !plain(byte(r)) })
}

// printable truncates an external text and replaces everything except visible ASCII and spaces with "?".
func printable(s string, limit int) string {
	return replaced(s, limit, func(c byte) bool { return c >= ' ' && c < 0x7f }, '?')
}

// replaced returns a copy of a text, truncated to a limit, with the bytes that are not allowed replaced.
func replaced(s string, limit int, allowed func(byte) bool, by byte) string {
	b := []byte(s[:min(len(s), limit)])
	for i, c := range b {
		if !allowed(c) {
			b[i] = by
		}
	}
	return string(b)
}
