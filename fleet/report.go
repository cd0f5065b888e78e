package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/routesrv/routesrv/table"
)

// Limits of a report.
const (
	MaxReport   = 4 << 10 // bytes of the JSON form
	maxReason   = 256
	maxSuspects = 4 // of one client
)

// Report is what a client reports, at least every ten seconds. The JSON form is the body of POST /clients.
type Report struct {
	Canary bool `json:"-"` // the client belongs to the canary: the server tells it by the path of the report

	Holds Name `json:"holds,omitzero"` // verified and applied by the client; zero if none
	// HoldsAgo is for how long, in seconds before the report: clocks differ, so times are sent as ages.
	HoldsAgo float64 `json:"holds_ago_seconds,omitempty"`
	// Rejected is why the client does not accept the table that it was sent; empty if it does.
	Rejected string `json:"rejected,omitempty"`
	// Refused is how many routes its proxy has refused since it fetched its table.
	Refused uint64 `json:"refused_routes,omitempty"`
	// MetricsError is why the metrics of the proxy cannot be read; empty if they can, or are not read at all.
	MetricsError string `json:"metrics_error,omitempty"`
	// Proven is the last table with which the client's proxy has run for 30 s; zero if there is none.
	Proven Name `json:"proven,omitzero"`
	// Suspects are tables that probably crashed the client's proxy.
	Suspects []Suspect `json:"suspects,omitempty"`
	// Pre is how the two tables of a client in mode Pre compare; nil in other modes, and before the first comparison.
	Pre *Pre `json:"pre,omitempty"`
	// WantsRank asks for the rank of the client, in the header of the answer: its mode is a number of nodes.
	WantsRank bool `json:"wants_rank,omitempty"`
	// Clients is a relay's summary of its clients.
	Clients *Counts `json:"clients,omitempty"`
}

// Pre is how the computed table of a client in mode Pre compares with the fetched one.
type Pre struct {
	// Seconds is the time since its first comparison. A restart, or a change of the mode, begins a new period.
	Seconds float64 `json:"seconds"`
	// CleanSeconds is for how long all comparisons have been clean; 0 if the last one was not, or while none is possible.
	CleanSeconds float64 `json:"clean_seconds"`
	Differences  int     `json:"differences,omitempty"` // that count now
	Ready        bool    `json:"ready,omitempty"`       // its own cutover check has passed
}

// Name identifies a table.
type Name struct {
	Digest   table.Digest `json:"digest"`
	Revision uint64       `json:"revision,omitempty"`
}

// IsZero reports whether it names no table.
func (n Name) IsZero() bool { return n.Digest == table.Digest{} }

// ReadReport reads and checks the JSON form, of at most [MaxReport] bytes.
func ReadReport(r io.Reader) (*Report, error) {
	body, err := io.ReadAll(io.LimitReader(r, MaxReport+1))
	if err != nil {
		return nil, fmt.Errorf("read the report: %w", err)
	}
	if len(body) > MaxReport {
		return nil, fmt.Errorf("the report has more than %d bytes", MaxReport)
	}
	report := &Report{}
	if err := json.Unmarshal(body, report); err != nil {
		return nil, fmt.Errorf("parse the report: %w", err)
	}
	return report, report.check()
}

// check rejects what none of our clients sends, and makes texts safe to store and to show.
func (r *Report) check() error {
	r.Rejected, r.MetricsError = printable(r.Rejected, maxReason), printable(r.MetricsError, maxReason)
	for _, name := range []*Name{&r.Holds, &r.Proven} {
		if name.IsZero() {
			*name = Name{} // a revision alone names no table
		}
	}
	switch {
	case !isAge(r.HoldsAgo):
		return errors.New("an age must be seconds, from 0 to one year")
	case r.Pre != nil && (!isAge(r.Pre.Seconds) || !isAge(r.Pre.CleanSeconds) || r.Pre.Differences < 0):
		return errors.New("pre: times must be seconds, from 0 to one year, and differences must not be negative")
	case r.Clients != nil && min(r.Clients.Current, r.Clients.Behind, r.Clients.Rejected, r.Clients.Silent) < 0:
		return errors.New("clients: counts must not be negative")
	case r.Clients != nil && max(r.Clients.Current, r.Clients.Behind, r.Clients.Rejected, r.Clients.Silent) > 1e6:
		return errors.New("clients: counts must be at most a million")
	}
	return checkSuspects(r.Suspects)
}

func isAge(seconds float64) bool { return seconds >= 0 && seconds <= (365*24*time.Hour).Seconds() }
