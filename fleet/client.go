package fleet

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
	"unique"

	"github.com/routesrv/routesrv/table"
)

// client is a client in a Registry: about 160 bytes, in addition to its name and its report. Times are Unix nanoseconds, which
// take a third of a time.Time.
type client struct {
	key      string     // see keyOf
	address  netip.Addr // of the last request; the client counts for this address
	node     string
	zone     unique.Handle[string]
	version  unique.Handle[string]
	mode     unique.Handle[string]
	holds    *held // nil if it never named a table
	revision uint64
	since    int64  // time since when it holds that table
	aheadOf  uint32 // this replica's version when the client named a table that may be newer; 0 for none
	first    int64
	heard    int64
	report   *reported // nil before the first report
	interval milliseconds
	streams  int32 // open ones
	kind     kind
	pod      bool
	canary   bool        // it asked for the table of the canary last
	once     bool        // it does not identify itself, and has not asked twice within [unknownFor]
	applied  appliedCode // from the report
}

// milliseconds is a duration in four bytes.
type milliseconds int32

func (m milliseconds) duration() time.Duration { return time.Duration(m) * time.Millisecond }

// appliedCode is an Applied in one byte.
type appliedCode uint8

var applieds = [...]Applied{AppliedUnknown, AppliedFetched, AppliedDone}

// kind is a Kind in one byte.
type kind uint8

var kinds = [...]Kind{Proxy, Sidecar, RelayKind}

func kindOf(k Kind) kind { return kind(max(slices.Index(kinds[:], k), 0)) }

// keyOf returns the key of a client in the Registry: its id, or without one, a zero byte, its address and its user agent.
func keyOf(id string, address netip.Addr, agent string) string {
	if id != "" {
		return id
	}
	bytes := address.As16()
	return "\x00" + string(bytes[:]) + agent[:min(len(agent), maxAgent)]
}

// agentAt is the offset of the user agent in a key.
const agentAt = 1 + 16

func (c *client) inferred() bool { return c.key[0] == 0 }

// held is a table that clients hold. They share it.
type held struct {
	digest  table.Digest
	order   uint64 // its last version, as of the last look; 0 if this replica never had it
	clients int    // clients that refer to it, directly or through their proxies
	holders int    // clients that hold it
}

// reported is the content of a client's last report.
type reported struct {
	at      int64
	fetched *held // nil if its proxy has fetched nothing
	proven  *held // nil if no table is proven
	took    int64 // time when its proxy fetched
	figures *figures
	trouble *trouble // nil for most clients
}

// trouble holds what only clients with a problem, or in mode Pre, report.
type trouble struct {
	rejected string    // why it does not accept the table
	unread   string    // why the metrics of its proxy cannot be read
	suspects []Suspect // at most maxSuspects, of this report or earlier ones
	pre      *Pre
}

// said returns the trouble, empty if there is none.
func (r *reported) said() trouble {
	if r.trouble == nil {
		return trouble{}
	}
	return *r.trouble
}

// pace returns the longest normal time without a sign of life. A client with a stream sends no requests, so only reports and
// successful writes to the stream count; and a replica may hear the reports of a client that polls or streams elsewhere.
func (c *client) pace() time.Duration {
	switch {
	case c.inferred() && c.streams > 0:
		return streamInterval
	case c.streams == 0 && c.report == nil:
		return c.interval.duration()
	default: // it reports, and may poll or stream elsewhere
		return max(c.interval.duration(), ReportEvery)
	}
}

// counts reports whether the client belongs to the fleet. An anonymous one-off request (e.g. curl) does not make it one, unless
// it has an open stream.
func (c *client) counts() bool { return !c.once || c.streams > 0 }

// silent reports whether nothing was heard for three intervals.
func (c *client) silent(now int64) bool { return now-c.heard > 3*int64(c.pace()) }

// reporting reports whether the client's last report is recent enough.
func (c *client) reporting(now int64) bool {
	return c.report != nil && now-c.report.at <= 3*int64(max(c.interval.duration(), ReportEvery))
}

// learn estimates the interval of a client that does not name one, from the time since it was last heard. A longer time has a
// weight of one half, so that one pause does not hide the next one; a shorter time has a weight of one eighth.
func (c *client) learn(now int64) {
	gap, before := time.Duration(now-c.heard), c.interval.duration()
	switch {
	case gap > time.Minute:
		return
	case gap > before:
		before = (before + gap) / 2
	default:
		before = max((7*before+gap)/8, time.Second)
	}
	c.interval = milliseconds(before.Milliseconds())
}

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

// String returns the form for the header: key=value, separated by semicolons. It replaces characters that are not allowed with
// "_", and truncates what is too long.
func (i Identity) String() string {
	var b strings.Builder
	b.WriteString("kind=" + string(i.Kind))
	key := "id"
	if i.Pod {
		key = "pod"
	}
	add := func(key, value string, limit int) {
		if value == "" {
			return
		}
		b.WriteString(";" + key + "=")
		for _, c := range []byte(value[:min(len(value), limit)]) {
			if !plain(c) {
				c = '_'
			}
			b.WriteByte(c)
		}
	}
	add(key, i.ID, maxID)
	add("node", i.Node, maxWord)
	add("zone", i.Zone, maxWord)
	add("version", i.Version, maxWord)
	add("mode", i.Mode, maxWord)
	add("interval", strconv.FormatInt(i.Interval.Milliseconds(), 10), maxWord)
	return b.String()
}

// ParseIdentity parses the form of String. It returns false for any other text. It ignores unknown keys, so that newer clients
// can send more.
func ParseIdentity(text string) (Identity, bool) {
	if len(text) == 0 || len(text) > maxIdentity {
		return Identity{}, false
	}
	var i Identity
	for text != "" {
		var pair string
		pair, text, _ = strings.Cut(text, ";")
		key, value, ok := strings.Cut(pair, "=")
		if !ok || !isPlain(value) {
			return Identity{}, false
		}
		if !i.set(key, value) {
			return Identity{}, false
		}
	}
	return i, i.ID != "" && i.Kind != "" && i.Interval != 0
}

// set sets one of the values, and reports whether it is valid.
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

// plain reports whether a character is allowed in a value.
func plain(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("._:/-+~@", c) >= 0
}

func isPlain(s string) bool {
	for i := range len(s) {
		if !plain(s[i]) {
			return false
		}
	}
	return true
}

// printable truncates an external text and replaces everything except visible ASCII and spaces with "?".
func printable(s string, limit int) string {
	s = s[:min(len(s), limit)]
	clean := true
	for i := range len(s) {
		clean = clean && s[i] >= ' ' && s[i] < 0x7f
	}
	if clean {
		return strings.Clone(s)
	}
	b := []byte(s)
	for i, c := range b {
		if c < ' ' || c >= 0x7f {
			b[i] = '?'
		}
	}
	return string(b)
}
