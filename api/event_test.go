package api_test

import (
	"testing"
	"time"

	"github.com/routesrv/routesrv/api"
)

func TestCurrent(t *testing.T) {
	read := time.Date(2026, 11, 21, 11, 33, 45, 201_900_000, time.FixedZone("", 3600))
	full := api.Current{Revision: 4711, Count: 33, SourceRead: api.FormatTime(read), State: api.StateStale}
	for want, c := range map[string]api.Current{
		`{"revision":4711,"count":33,"source_read":"2026-11-21T10:33:45.201Z","state":"stale"}`: full,
		`{"revision":0,"count":0}`: {},
	} {
		if got := c.String(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if told, state, err := api.ParseCurrent(want); err != nil || told != c.SourceRead || state != c.State {
			t.Errorf("%s is read as %q, %q, %v", want, told, state, err)
		}
	}
	if at, err := api.ParseTime(full.SourceRead); err != nil || !at.Equal(read.Truncate(time.Millisecond)) {
		t.Errorf("%s is read as %v, %v", full.SourceRead, at, err)
	}
	for _, data := range []string{"", "null x", "[]", `{"state":1}`, `{"source_read":{}}`} {
		if _, _, err := api.ParseCurrent(data); err == nil {
			t.Errorf("%q is read", data)
		}
	}
	// The id names the table, so other fields about it do not matter.
	if _, state, err := api.ParseCurrent(`{"revision":"x","count":-1.5,"more":[],"state":"held"}`); err != nil || state != "held" {
		t.Errorf("%q, %v", state, err)
	}
}

func TestReconnect(t *testing.T) {
	if got := api.FormatReconnect(1200*time.Millisecond + time.Microsecond); got != `{"after_ms":1200}` {
		t.Error(got)
	}
	for data, want := range map[string]time.Duration{
		`{"after_ms":1200}`:       1200 * time.Millisecond,
		`{"after_ms":4294967295}`: (1<<32 - 1) * time.Millisecond,
		`{"after_ms":4294967296}`: 0,
		`{"after_ms":-1}`:         0,
		`{"after_ms":"5"}`:        0,
		`{}`:                      0,
		``:                        0,
		`nonsense`:                0,
	} {
		if got := api.ParseReconnect(data); got != want {
			t.Errorf("%s: %v, want %v", data, got, want)
		}
	}
}

func TestParseState(t *testing.T) {
	for s, want := range map[string]string{"stale": "stale", "held": "held", "backends-held": "backends-held", "": "", "Stale": "", "stale\n": "", "other": ""} {
		if got := api.ParseState(s); got != want {
			t.Errorf("ParseState(%q) = %q", s, got)
		}
	}
}

// FuzzEventData: data from a hostile server parses to a time within limits, or to none.
func FuzzEventData(f *testing.F) {
	for _, s := range []string{``, `{"after_ms":1}`, `{"after_ms":1e9}`, `{"source_read":"x","state":"held"}`, `[[[`, `{"after_ms":5,"after_ms":"x"}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if after := api.ParseReconnect(s); after < 0 || after > (1<<32-1)*time.Millisecond {
			t.Errorf("%q: %v", s, after)
		}
		if _, state, err := api.ParseCurrent(s); err == nil && api.ParseState(state) != "" && api.ParseState(state) != state {
			t.Errorf("%q: %q", s, state)
		}
	})
}
